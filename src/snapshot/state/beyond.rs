//! What affinity between pods reads beside the counts of a namespace: other namespaces,
//! their labels, and the terms of pods that run.

use std::collections::BTreeMap;

use super::read_view::{OtherNamespaces, ReadView};
use crate::snapshot::budget::Delay;
use crate::snapshot::objects::anti_affinity::{AntiAffinityTable, HeldTerm};

/// What it costs to hold a term against a pod, in units.
const UNITS_PER_TERM: usize = 30;

impl<'a> ReadView<'a> {
    /// The same revision of another namespace that the decision reads, with its name.
    pub fn others(&self) -> impl Iterator<Item = (&'a str, Self)> {
        let this = *self;
        let others = self.others.map(OtherNamespaces::each);
        others.into_iter().flatten().map(move |other| {
            let read_view = Self {
                namespace: other.namespace,
                views: Some(other.views),
                others: None,
                ..this
            };
            (other.name, read_view)
        })
    }

    /// Voids the decision, which has to read other namespaces and cannot here.
    pub fn needs_others(&self) {
        if self.others.is_none() {
            self.budget.give_up(Delay::Long);
        }
    }

    /// Whether there are Namespace objects.
    pub fn has_namespaces(&self) -> bool {
        self.shared.namespace_labels.len() > 0
    }

    /// The labels of a namespace; `None` where it has no object.
    pub fn namespace_labels(&self, name: &str) -> Option<&'a BTreeMap<String, String>> {
        self.shared.namespace_labels.get(name)
    }

    /// The terms by which pods on nodes keep a pod with these labels away, which is in
    /// a namespace.
    pub fn keeping_away(
        &self,
        labels: &'a BTreeMap<String, String>,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a HeldTerm> {
        let table = self.keeping_away.filter(|table| !table.is_empty());
        let affords = |table: &&AntiAffinityTable| {
            self.affords(table.candidates(labels).saturating_mul(UNITS_PER_TERM))
        };
        let table = table.filter(affords);
        let own = self.namespace_labels(namespace);
        let against = table.map(|table| table.against(labels, namespace, own));
        against.into_iter().flatten()
    }
}
