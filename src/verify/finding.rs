//! What a verification found.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

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

impl Findings {
    /// Compares the kept value with the recount. The texts are made only when
    /// they differ.
    pub(super) fn compare<T: PartialEq + Display>(
        &mut self,
        namespace: &str,
        subject: impl Fn() -> String,
        aspect: impl Fn() -> String,
        kept: T,
        recounted: T,
    ) {
        if kept == recounted {
            return;
        }
        self.total += 1;
        if self.described.len() < MAX_DESCRIBED {
            self.described.push(Mismatch {
                namespace: namespace.to_owned(),
                subject: subject(),
                aspect: aspect(),
                kept: kept.to_string(),
                recounted: recounted.to_string(),
            });
        }
    }

    /// Compares counts by whatever they are of. What is not in a map counts 0.
    pub(super) fn compare_counts<K: Ord + Copy>(
        &mut self,
        namespace: &str,
        subject: impl Fn() -> String,
        aspect: impl Fn(K) -> String,
        kept: &BTreeMap<K, u32>,
        recounted: &BTreeMap<K, u32>,
    ) {
        let of = |counts: &BTreeMap<K, u32>, key: K| counts.get(&key).copied().unwrap_or(0);
        let keys: BTreeSet<K> = kept.keys().chain(recounted.keys()).copied().collect();
        for key in keys {
            let (kept, recounted) = (of(kept, key), of(recounted, key));
            self.compare(namespace, &subject, || aspect(key), kept, recounted);
        }
    }
}
