//! The incoming pod of a decision, compiled.

use super::active::{Constraints, InForce, KeptDefaults, Subject};
use super::checks::Checks;
use super::nominated::Incoming;
use super::own_place::OwnPlace;
use super::unchecked;
use super::volumes::{self, Volumes};
use crate::account::heap;
use crate::limits::Limit;
use crate::matching::{
    Constraint, Features, NodeAffinity, Path, PodAffinity, PodStorage, Requests, Tolerations,
    Violations, names, times,
};
use crate::proto::v1;
use crate::snapshot::{Controller, Limits, Reach, ReadView};

/// What a node is checked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum NodeChecks {
    /// Everything the snapshot knows, in kube-scheduler's order.
    #[default]
    All,
    /// Only the spread plugin's verdict.
    SpreadOnly,
}

/// What a decision is about: a valid pod, in the form that the rules read.
#[derive(Debug, Clone)]
pub struct Question {
    /// Namespace of the pod.
    pub namespace: String,
    /// What decides which nominated pods it yields to.
    pub incoming: Incoming,
    /// Its parts that decide which nodes its constraints count in.
    pub subject: Subject,
    /// Its controller.
    pub controller: Option<Controller>,
    /// Its own constraints.
    pub constraints: Constraints,
    /// The checks of nodes besides spread.
    pub checks: Checks,
    /// Its required affinity to other pods.
    pub affinity: PodAffinity,
    /// What storage it uses.
    pub storage: PodStorage,
    /// The fields that decide where the pod can run and that are never checked.
    pub unchecked: Box<[&'static str]>,
    /// The default constraints that were in force last.
    pub(super) defaults: KeptDefaults,
}

impl Question {
    /// Checks and compiles the pod of a request, whose field is at `path`.
    ///
    /// # Errors
    /// Every fault of the pod (`docs/semantics.md`, "Validation").
    pub fn compile(
        wire: Option<&v1::Pod>,
        limits: &Limits,
        path: Path<'_>,
    ) -> Result<Self, Violations> {
        let mut faults = Violations::default();
        let Some(wire) = wire else {
            faults.add(path, "is required");
            return Err(faults);
        };
        let (no_metadata, no_spec) = (v1::ObjectMeta::default(), v1::PodSpec::default());
        let metadata = wire.metadata.as_ref().unwrap_or(&no_metadata);
        let spec = wire.spec.as_ref().unwrap_or(&no_spec);
        check_metadata(metadata, path.field("metadata"), &mut faults);

        let at = path.field("spec");
        let affinity = NodeAffinity::compile(spec, limits, at, &mut faults);
        let tolerations = at.field("tolerations");
        let compare = limits.toleration_comparisons;
        let tolerations =
            Tolerations::compile(&spec.tolerations, compare, tolerations, &mut faults);
        let list = at.field("topologySpreadConstraints");
        let own = &spec.topology_spread_constraints;
        if !faults.within(list, limits, Limit::ConstraintsPerPod, own.len()) {
            return Err(faults);
        }
        let constraints = Constraint::compile_own(own, &metadata.labels, list, &mut faults);
        let subject = Subject {
            labels: metadata.labels.clone(),
            affinity,
            tolerations,
        };
        let constraints = Constraints::own(constraints, &subject);
        let requests = Requests::compile(spec, at, &mut faults);
        let pods = PodAffinity::compile(metadata, spec, limits, at, &mut faults);
        let storage = PodStorage::compile(metadata, spec, at, &mut faults);
        let own = OwnPlace::of(spec, limits.node_names, at, &mut faults);
        let checks = Checks::of(&subject, own, requests, Features::needed(spec));
        faults.finish(Self {
            namespace: names::namespace_or_default(&metadata.namespace).to_owned(),
            incoming: Incoming::of(metadata, spec),
            subject,
            controller: Controller::of(&metadata.owner_references),
            constraints,
            checks,
            affinity: pods,
            storage,
            unchecked: unchecked::fields(wire),
            defaults: KeptDefaults::default(),
        })
    }

    /// The namespaces that a decision about it reads.
    pub fn reach(&self) -> Reach<'_> {
        Reach {
            namespace: &self.namespace,
            terms: [&self.affinity.near, &self.affinity.apart],
        }
    }

    /// The fields that decide where the pod can run and that are not checked on a
    /// read view, ascending.
    pub fn unchecked(&self, checks: NodeChecks, read_view: &ReadView<'_>) -> Vec<String> {
        if checks == NodeChecks::SpreadOnly {
            return Vec::new();
        }
        let room = self.checks.of_room().filter(|_| !read_view.knows_room());
        // It decides which nominated pods count.
        let class = self.incoming.has_unknown_priority && read_view.nominated().next().is_some();
        let class = class.then_some("spec.priorityClassName");
        let all = self.unchecked.iter().copied().chain(room).chain(class);
        // Every cluster has namespaces: nobody told of them here.
        let selectors = match read_view.has_namespaces() {
            true => [None, None],
            false => self.affinity.namespace_selectors(),
        };
        let storage = volumes::unchecked(&self.namespace, &self.storage, read_view);
        let all = all.chain(selectors.into_iter().flatten()).chain(storage);
        let all = all.map(str::to_owned);
        let mut fields: Vec<String> = all.chain(self.checks.of_devices(read_view)).collect();
        fields.sort_unstable();
        fields.dedup();
        fields
    }

    /// Checked for labels and taints alone. What else the pod asks for is unchecked.
    pub fn of_labels_and_taints(self) -> Self {
        let own = self.checks.of_own_place().chain(self.checks.of_room());
        let affinity = [
            ("spec.affinity.podAffinity", !self.affinity.near.is_empty()),
            (
                "spec.affinity.podAntiAffinity",
                !self.affinity.apart.is_empty(),
            ),
        ];
        let storage = ("spec.volumes", !self.storage.is_empty());
        let others = affinity.into_iter().chain([storage]);
        let others = others.filter(|(_, is_used)| *is_used);
        let own = own.chain(others.map(|(field, _)| field));
        let mut unchecked: Vec<&str> = self.unchecked.iter().copied().chain(own).collect();
        unchecked.sort_unstable();
        unchecked.dedup();
        Self {
            checks: self.checks.of_labels_and_taints(),
            affinity: PodAffinity::default(),
            storage: PodStorage::default(),
            unchecked: unchecked.into(),
            ..self
        }
    }

    /// Returns what its storage decides on a read view; `None` where that is nothing.
    pub fn volumes<'a>(&'a self, read_view: &ReadView<'a>) -> Option<Volumes<'a>> {
        let pod = (&*self.namespace, self.incoming.name(), self.incoming.uid());
        Volumes::of(pod, &self.storage, read_view)
    }

    /// The constraints in force: the pod's own, or the default ones if it has
    /// none.
    pub fn constraints_on(&self, read_view: &ReadView<'_>) -> InForce<'_> {
        if !self.constraints.all.is_empty() {
            return InForce::Own(&self.constraints);
        }
        let controller = self.controller.as_ref();
        let make = || Constraints::defaults(&self.subject, controller, read_view);
        InForce::Default(self.defaults.on(read_view, make))
    }

    /// Returns what it takes in memory, in bytes, at most, with the default constraints
    /// that it keeps.
    pub fn memory_bytes(&self) -> usize {
        let defaults = match self.constraints.all.is_empty() {
            true => KeptDefaults::MAX_BYTES,
            false => self.constraints.memory_bytes(),
        };
        let unchecked = heap::list::<&str>(self.unchecked.len());
        size_of::<Self>()
            + heap::block(self.namespace.len())
            + self.incoming.heap_bytes()
            + heap::texts(&self.subject.labels)
            + self.subject.affinity.heap_bytes()
            + self.subject.tolerations.heap_bytes()
            + self.controller.as_ref().map_or(0, Controller::heap_bytes)
            + self.checks.heap_bytes()
            + self.affinity.heap_bytes()
            + self.storage.heap_bytes()
            + unchecked
            + defaults
    }
}

/// The incoming pod may have no name yet.
fn check_metadata(metadata: &v1::ObjectMeta, path: Path<'_>, faults: &mut Violations) {
    if !metadata.name.is_empty() {
        names::check_name(&metadata.name, path.field("name"), faults);
    }
    names::check_namespace(&metadata.namespace, path.field("namespace"), faults);
    names::check_labels(&metadata.labels, path.field("labels"), faults);
    // Not read, but written to the decision log.
    times::check_deletion(metadata, path, faults);
}
