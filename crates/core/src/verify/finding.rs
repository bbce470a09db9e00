//! The answer of a verification, and its findings.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

/// The number of mismatches that are described; further ones are only counted.
const MAX_DESCRIBED: usize = 100;

/// A kept number that differs from the recount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The namespace; empty for counts that all namespaces share.
    pub namespace: String,
    /// The subject of the number: a view, a partition, a label set.
    pub subject: String,
    /// The name of the number.
    pub aspect: String,
    /// The kept value.
    pub kept: String,
    /// The recounted value.
    pub recounted: String,
}

/// The mismatches of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// The first mismatches, at most a hundred.
    pub described: Vec<Mismatch>,
    /// The number of all mismatches.
    pub total: usize,
}

/// The counts that were verified, and those that differed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// The revision that was copied.
    pub revision: i64,
    /// The number of nodes.
    pub nodes: usize,
    /// The number of pods, counted or not.
    pub pods: usize,
    /// The number of tables of label sets that were compared with the pods.
    pub label_sets: usize,
    /// The number of partitions that were compared with the nodes.
    pub partitions: usize,
    /// The number of live views that were compared with the pods and the nodes.
    pub views: usize,
    /// The counts that differed.
    pub findings: Findings,
}

/// The kept counts of one subject, to be compared.
pub(super) struct Comparison<'f, S> {
    findings: &'f mut Findings,
    namespace: &'f str,
    subject: S,
}

impl Findings {
    /// Compares the kept counts of a subject.
    pub(super) fn about<'f, S: Fn() -> String>(
        &'f mut self,
        namespace: &'f str,
        subject: S,
    ) -> Comparison<'f, S> {
        Comparison {
            findings: self,
            namespace,
            subject,
        }
    }
}

impl<S: Fn() -> String> Comparison<'_, S> {
    /// Compares the kept value with the recount. The texts are written only when they differ.
    pub(super) fn compare<T: PartialEq + Display>(
        &mut self,
        aspect: impl Display,
        kept: T,
        recounted: T,
    ) {
        if kept == recounted {
            return;
        }
        let findings = &mut *self.findings;
        findings.total += 1;
        if findings.described.len() < MAX_DESCRIBED {
            findings.described.push(Mismatch {
                namespace: self.namespace.to_owned(),
                subject: (self.subject)(),
                aspect: aspect.to_string(),
                kept: kept.to_string(),
                recounted: recounted.to_string(),
            });
        }
    }

    /// Compares counts by key. A key that is missing in a map counts 0.
    pub(super) fn compare_counts<K: Ord>(
        &mut self,
        aspect: impl Fn(&K) -> String,
        kept: &BTreeMap<K, u32>,
        recounted: &BTreeMap<K, u32>,
    ) {
        let of = |counts: &BTreeMap<K, u32>, key: &K| counts.get(key).copied().unwrap_or(0);
        let keys: BTreeSet<&K> = kept.keys().chain(recounted.keys()).collect();
        for key in keys {
            let aspect = fmt::from_fn(|f| f.write_str(&aspect(key)));
            self.compare(aspect, of(kept, key), of(recounted, key));
        }
    }
}
