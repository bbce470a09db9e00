//! What a verification answers, and what it found.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

/// How many mismatches are described; the others are only counted.
const MAX_DESCRIBED: usize = 100;

/// A number that is kept and is not what a recount says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The namespace; empty for what all namespaces share.
    pub namespace: String,
    /// What the number belongs to: a view, a partition, a label set.
    pub subject: String,
    /// Which number of it.
    pub aspect: String,
    /// What is kept.
    pub kept: String,
    /// What the recount says.
    pub recounted: String,
}

/// The mismatches of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// The first hundred.
    pub described: Vec<Mismatch>,
    /// How many there are.
    pub total: usize,
}

/// What was verified, and what differed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// The revision that was copied.
    pub revision: i64,
    /// How many nodes it has.
    pub nodes: usize,
    /// How many pods it has, counted or not.
    pub pods: usize,
    /// How many tables of label sets were compared with the pods.
    pub label_sets: usize,
    /// How many partitions were compared with the nodes.
    pub partitions: usize,
    /// How many live views were compared with both.
    pub views: usize,
    /// What differed.
    pub findings: Findings,
}

/// What is kept about one subject, to be compared.
pub(super) struct Comparison<'f, S> {
    findings: &'f mut Findings,
    namespace: &'f str,
    subject: S,
}

impl Findings {
    /// Compares what is kept about a subject.
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
    /// Compares the kept value with the recount. The texts are made only when
    /// they differ.
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

    /// Compares counts by whatever they are of. What is not in a map counts 0.
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
