//! The namespaces that a decision reads: that of its pod, and those that its terms of affinity
//! cover.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::shards::State;
use crate::matching::{PodTerm, Selector};
use crate::snapshot::deadline::{Deadline, Stopped};
use crate::snapshot::objects::change::Batch;

/// The bytes of a name in a list and in a set of namespaces.
const BYTES_PER_NAME: usize = 128;

/// The namespaces that a decision reads.
#[derive(Debug, Clone, Copy)]
pub struct Reach<'q> {
    /// The namespace of the decision's pod.
    pub namespace: &'q str,
    /// The terms that cover other namespaces, too, in two lists.
    pub terms: [&'q [PodTerm]; 2],
}

impl<'q> From<&'q str> for Reach<'q> {
    /// The reach of one namespace.
    fn from(namespace: &'q str) -> Self {
        Self {
            namespace,
            terms: [&[], &[]],
        }
    }
}

impl<'q> From<&'q String> for Reach<'q> {
    fn from(namespace: &'q String) -> Self {
        Self::from(&**namespace)
    }
}

impl<'q> Reach<'q> {
    /// Returns whether a decision reads no other namespace than that of its pod.
    pub fn is_within(&self) -> bool {
        self.beyond().next().is_none()
    }

    /// The terms that cover other namespaces.
    fn beyond(&self) -> impl Iterator<Item = &'q PodTerm> + use<'q> {
        let own = self.namespace;
        let terms = self.terms.into_iter().flatten();
        terms.filter(move |term| {
            let mut names = term.namespaces.iter();
            term.namespace_selector != Selector::Nothing || names.any(|name| **name != *own)
        })
    }

    /// The other namespaces that the decision reads in a state with an overlay, with those that the
    /// overlay changes, whose pods take room.
    pub(in crate::snapshot) fn others(
        &self,
        state: &State,
        overlay: &Batch,
        deadline: &Deadline<'_>,
    ) -> Result<BTreeSet<Box<str>>, Stopped> {
        let changed = overlay.changes().map(|change| change.id);
        let changed = changed.filter(|id| id.kind.is_in_shard());
        let mut names: BTreeSet<Box<str>> = changed.map(|id| id.namespace.into()).collect();
        if !self.is_within() {
            let (mut cluster, rules) = {
                let shared = state.shared.read();
                (Arc::clone(&shared.cluster), shared.defaults.rules())
            };
            if overlay.has_cluster_objects {
                Arc::make_mut(&mut cluster).apply(overlay, |_, _| ());
            }
            let terms: Vec<_> = self.beyond().collect();
            let steps = terms.iter().map(|term| 1 + term.namespace_selector.len());
            let steps: usize = steps.sum();
            let covers_all = terms.iter().any(|it| it.is_about_all(rules));
            let is_covered = |name: &str| {
                let labels = cluster.labels_of(name);
                covers_all
                    || terms
                        .iter()
                        .any(|it| it.is_about(self.namespace, name, labels))
            };
            // A namespace without pods counts for nothing.
            let listed = state.namespaces.len().saturating_mul(BYTES_PER_NAME);
            deadline.holds(listed)?;
            for name in state.namespace_names() {
                deadline.step(steps)?;
                if is_covered(&name) {
                    names.insert(name);
                }
            }
        }
        names.remove(self.namespace);
        Ok(names)
    }
}
