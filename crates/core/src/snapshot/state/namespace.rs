//! The pods of a namespace and the objects that select them.

use std::cell::LazyCell;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwap;

use crate::proto::v1;
use crate::snapshot::counts::views::Views;
use crate::snapshot::objects::label_sets::LabelSets;
use crate::snapshot::objects::name_table::NameTable;
use crate::snapshot::objects::nodes::Nodes;
use crate::snapshot::objects::owners::Owners;
use crate::snapshot::objects::pod::PodRecord;
use crate::snapshot::objects::requirements::Templates;
use crate::snapshot::objects::reservation::{Claim, Serial, is_reservation};

/// The pods and owners of one namespace. Copies share them until they change.
#[derive(Debug, Default)]
pub struct Namespace {
    pub(super) pods: Arc<NameTable<PodRecord>>,
    pub(in crate::snapshot) label_sets: Arc<LabelSets>,
    pub(super) templates: Arc<Templates>,
    pub(super) owners: Owners,
    /// Counts of its pods. Decisions add views, which change no answer.
    pub(in crate::snapshot) views: ArcSwap<Views>,
}

impl Namespace {
    /// A namespace that does not exist.
    pub fn none() -> &'static Self {
        static NONE: LazyLock<Namespace> = LazyLock::new(Namespace::default);
        &NONE
    }

    /// The distinct label sets of its pods.
    pub fn label_sets(&self) -> &LabelSets {
        &self.label_sets
    }

    /// Returns the objects that select its pods.
    pub fn owners(&self) -> &Owners {
        &self.owners
    }

    /// Returns the number of its pods.
    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// Returns which of these reservations were confirmed for pods that are on nodes already.
    pub fn arrived(&self, claims: &[(Serial, &Claim)]) -> Vec<Serial> {
        // Pods are not found by uid, so all pods are read once. Reservations are left out, because
        // they may have the uids of pods that have not arrived.
        let uids = LazyCell::new(|| -> HashSet<String> {
            let pods = self.pods.iter();
            let bound = pods.filter(|(name, pod)| pod.node.is_some() && !is_reservation(name));
            bound.map(|(_, pod)| pod.life.uid()).collect()
        });
        let is_bound = |claim: &Claim, pod: &PodRecord| {
            pod.node.is_some() && claim.is_of(&claim.name, &pod.life.uid())
        };
        let has_arrived = |claim: &Claim| match claim.name.is_empty() {
            true => uids.contains(&*claim.uid),
            false => (self.pods.get(&claim.name)).is_some_and(|pod| is_bound(claim, pod)),
        };
        let arrived = claims.iter().filter(|(_, claim)| has_arrived(claim));
        arrived.map(|(serial, _)| *serial).collect()
    }

    /// Returns whether the namespace is empty.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.owners.is_empty()
    }

    /// The names of its pods, ascending.
    pub fn pod_names(&self) -> impl Iterator<Item = &str> {
        self.pods.names()
    }

    /// A pod for the wire, whole.
    pub fn pod_to_wire(&self, namespace: &str, name: &str, nodes: &Nodes) -> Option<v1::Pod> {
        let record = self.pods.get(name)?;
        let labels = self.label_sets.texts(record.labels);
        let metadata = v1::ObjectMeta {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            labels: labels.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
            ..Default::default()
        };
        let node_name = record.node.map_or("", |slot| nodes.name(slot));
        let requirements = self.templates.get(record.life.template);
        Some(record.life.to_wire(metadata, node_name, requirements))
    }
}

impl Clone for Namespace {
    fn clone(&self) -> Self {
        Self {
            pods: self.pods.clone(),
            label_sets: self.label_sets.clone(),
            templates: self.templates.clone(),
            owners: self.owners.clone(),
            views: ArcSwap::new(self.views.load_full()),
        }
    }
}
