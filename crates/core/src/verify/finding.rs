//! The answer of a verification, and its findings.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

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

impl Findings {
    /// Compares what is kept about a subject with the recount. Texts are written only of what
    /// differs. `aspect` and a key name a value; a missing one is `none`.
    pub(super) fn compare<K: Ord + Debug, V: PartialEq + Debug>(
        &mut self,
        namespace: &str,
        subject: impl Fn() -> String,
        aspect: &str,
        [kept, recounted]: [BTreeMap<K, V>; 2],
    ) {
        let keys: BTreeSet<&K> = kept.keys().chain(recounted.keys()).collect();
        for key in keys {
            let (kept, recounted) = (kept.get(key), recounted.get(key));
            if kept == recounted {
                continue;
            }
            self.total += 1;
            if self.described.len() < MAX_DESCRIBED {
                let text =
                    |value: Option<&V>| value.map_or("none".to_owned(), |it| format!("{it:?}"));
                self.described.push(Mismatch {
                    namespace: namespace.to_owned(),
                    subject: subject(),
                    aspect: format!("{aspect} {key:?}"),
                    kept: text(kept),
                    recounted: text(recounted),
                });
            }
        }
    }
}
