//! The namespaces that a decision reads: that of its pod, and those that its terms of affinity
//! cover.

use super::revision::State;
use crate::matching::{PodTerm, Selector};
use crate::snapshot::deadline::{Deadline, Stopped};

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

    /// The names of the other namespaces that the decision reads in a state, ascending.
    pub(in crate::snapshot) fn others(
        &self,
        state: &State,
        deadline: &Deadline<'_>,
    ) -> Result<Vec<Box<str>>, Stopped> {
        let terms: Vec<_> = self.beyond().collect();
        if terms.is_empty() {
            return Ok(Vec::new());
        }
        let rules = state.defaults().rules();
        let steps = terms.iter().map(|term| 1 + term.namespace_selector.len());
        let steps: usize = steps.sum();
        let covers_all = terms.iter().any(|it| it.is_about_all(rules));
        let is_covered = |name: &str| {
            let labels = state.shared.cluster.labels_of(name);
            covers_all
                || terms
                    .iter()
                    .any(|it| it.is_about(self.namespace, name, labels))
        };
        // A namespace without pods counts for nothing.
        let mut others = Vec::new();
        for name in state.namespaces.names() {
            deadline.step(steps)?;
            if name != self.namespace && is_covered(name) {
                others.push(name.into());
            }
        }
        Ok(others)
    }
}
