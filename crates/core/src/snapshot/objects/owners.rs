//! The objects that select pods in a namespace, and the selector that default constraints get from
//! them (`docs/semantics.md`, "Constraints of a pod"); also the disruptions that a budget allows.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use super::kind::{ObjectKind, OwnerKind, metadata_mut, metadata_of};
use crate::matching::{Path, Selector, Violations, names};
use crate::proto::v1;
use crate::proto::v1::change::Object;
use crate::snapshot::deadline::{Deadline, Stopped};

/// The services and controllers of a namespace, by kind and name. Copies share
/// them.
#[derive(Debug, Clone, Default)]
pub struct Owners {
    by_name: Arc<ByName>,
}

type ByName = BTreeMap<(OwnerKind, Box<str>), Arc<Owner>>;

/// A service or a controller.
#[derive(Debug, Clone, PartialEq)]
pub struct Owner {
    /// The object, of whose metadata only name and uid are kept.
    object: Object,
    selects: OwnerSelector,
    /// The disruptions that it allows, if it is a budget.
    budget: Option<DisruptionBudget>,
    /// The numbers of its pods, if it is a stateful set.
    numbering: PodNumbering,
}

/// How a stateful set numbers and creates its pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PodNumbering {
    /// The number of the first pod.
    pub start: i32,
    /// The wanted number of pods, if it is known.
    pub replicas: Option<i32>,
    /// True if no pod waits until the one before it is ready.
    pub is_parallel: bool,
}

/// The policy of a stateful set whose pods do not wait for each other.
const PARALLEL: &str = "Parallel";

/// The selector of a service or a controller, compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
enum OwnerSelector {
    /// The pods with all of these labels (services, replication controllers).
    Labels(BTreeMap<String, String>),
    /// The pods that match (replica sets, stateful sets).
    Selector(Selector),
}

impl OwnerSelector {
    fn of_labels(
        wire: Option<&BTreeMap<String, String>>,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Self {
        let labels = wire.cloned().unwrap_or_default();
        names::check_labels(&labels, path, faults);
        Self::Labels(labels)
    }
}

/// A budget with its name.
#[derive(Debug, Clone, Copy)]
pub struct NamedBudget<'a> {
    /// The budget's name.
    pub name: &'a str,
    /// Selects the budget's pods.
    pub selector: &'a Selector,
    /// The disruptions that it allows.
    pub budget: DisruptionBudget,
}

/// A controller that would adopt a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adopter<'a> {
    /// The controller's kind.
    pub kind: &'static str,
    /// The controller's name.
    pub name: &'a str,
}

/// The controller that a pod names as its owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Controller {
    kind: OwnerKind,
    name: Box<str>,
}

impl Controller {
    /// The first owner reference with `controller: true`, if it is of a kind
    /// whose selector is known.
    pub fn of(references: &[v1::OwnerReference]) -> Option<Self> {
        let reference = references.iter().find(|r| r.controller == Some(true))?;
        let kind = ObjectKind::of_version(&reference.api_version, &reference.kind)?;
        let ObjectKind::Owner(kind) = kind else {
            return None;
        };
        if !kind.adopts() {
            return None;
        }
        Some(Self {
            kind,
            name: reference.name.as_str().into(),
        })
    }
}

impl Owner {
    /// Checks and compiles a service, a controller or a budget, whose spec is at `path`; `None` for
    /// other objects.
    pub fn compile(object: &Object, path: Path<'_>, faults: &mut Violations) -> Option<Self> {
        let at = path.field("selector");
        let selects = match object {
            Object::Service(it) => {
                let labels = it.spec.as_ref().map(|spec| &spec.selector);
                OwnerSelector::of_labels(labels, at, faults)
            }
            Object::ReplicationController(it) => {
                let labels = it.spec.as_ref().map(|spec| &spec.selector);
                OwnerSelector::of_labels(labels, at, faults)
            }
            Object::ReplicaSet(it) => {
                let wire = it.spec.as_ref().and_then(|spec| spec.selector.as_ref());
                OwnerSelector::Selector(Selector::compile(wire, at, faults))
            }
            Object::StatefulSet(it) => {
                let wire = it.spec.as_ref().and_then(|spec| spec.selector.as_ref());
                OwnerSelector::Selector(Selector::compile(wire, at, faults))
            }
            Object::PodDisruptionBudget(it) => {
                let wire = it.spec.as_ref().and_then(|spec| spec.selector.as_ref());
                OwnerSelector::Selector(Selector::compile(wire, at, faults))
            }
            _ => return None,
        };
        let budget = match object {
            Object::PodDisruptionBudget(it) => Some(DisruptionBudget::compile(it, path, faults)),
            _ => None,
        };
        let numbering = match object {
            Object::StatefulSet(it) => it.spec.as_ref().map(|spec| PodNumbering {
                start: spec.ordinals.as_ref().map_or(0, |ordinals| ordinals.start),
                replicas: spec.replicas,
                is_parallel: spec.pod_management_policy == PARALLEL,
            }),
            _ => None,
        };
        let mut object = object.clone();
        if let Some(metadata) = metadata_mut(&mut object) {
            *metadata = v1::ObjectMeta {
                name: std::mem::take(&mut metadata.name),
                uid: std::mem::take(&mut metadata.uid),
                ..v1::ObjectMeta::default()
            };
        }
        Some(Self {
            object,
            selects,
            budget,
            numbering: numbering.unwrap_or_default(),
        })
    }

    /// Returns whether its selector selects something, and matches these labels.
    fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        match &self.selects {
            OwnerSelector::Labels(own) => {
                !own.is_empty() && own.iter().all(|(k, v)| labels.get(k) == Some(v))
            }
            OwnerSelector::Selector(own) => !own.is_empty() && own.matches_labels(labels),
        }
    }

    fn uid(&self) -> &str {
        metadata_of(&self.object).map_or("", |metadata| &metadata.uid)
    }

    fn to_wire(&self, namespace: &str) -> Object {
        let mut object = self.object.clone();
        if let Some(metadata) = metadata_mut(&mut object) {
            namespace.clone_into(&mut metadata.namespace);
        }
        object
    }
}

impl Owners {
    /// Creates or updates an owner. Returns whether that made a difference.
    pub fn put(&mut self, kind: OwnerKind, name: &str, owner: &Arc<Owner>) -> bool {
        match Arc::make_mut(&mut self.by_name).entry((kind, name.into())) {
            Entry::Vacant(place) => {
                place.insert(Arc::clone(owner));
                true
            }
            Entry::Occupied(mut place) => {
                if place.get() == owner {
                    return false;
                }
                place.insert(Arc::clone(owner));
                true
            }
        }
    }

    /// Deletes an owner, if it exists and `uid` is empty or its own. Returns whether that made a
    /// difference.
    pub fn remove(&mut self, kind: OwnerKind, name: &str, uid: &str) -> bool {
        let key = (kind, name.into());
        let meant = |o: &Arc<Owner>| uid.is_empty() || o.uid() == uid;
        if !self.by_name.get(&key).is_some_and(meant) {
            return false;
        }
        Arc::make_mut(&mut self.by_name).remove(&key);
        true
    }

    /// Returns whether an owner exists.
    pub fn contains(&self, kind: OwnerKind, name: &str) -> bool {
        self.by_name.contains_key(&(kind, name.into()))
    }

    /// Returns the number of owners.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns whether there are no owners.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The selector of default constraints for a pod: the merged pairs of the services that select
    /// it, and the requirements of its controller. `None` when nothing was deduced.
    pub fn deduce(
        &self,
        pod_labels: &BTreeMap<String, String>,
        controller: Option<&Controller>,
        deadline: &Deadline<'_>,
    ) -> Result<Option<Selector>, Stopped> {
        let mut merged = BTreeMap::new();
        for service in deadline.each(self.of_kind(OwnerKind::Service)) {
            let service = service?;
            if let OwnerSelector::Labels(labels) = &service.selects
                && service.selects(pod_labels)
            {
                merged.extend(labels.clone());
            }
        }
        let controller = controller.and_then(|c| self.by_name.get(&(c.kind, c.name.clone())));
        let mut required = Vec::new();
        match controller.map(|owner| &owner.selects) {
            Some(OwnerSelector::Labels(labels)) => merged.extend(labels.clone()),
            Some(OwnerSelector::Selector(Selector::All(all))) => {
                required.extend(all.iter().cloned())
            }
            Some(OwnerSelector::Selector(Selector::Nothing)) | None => {}
        }
        let selector = Selector::from_labels(&merged).and(required);
        Ok((!selector.is_empty()).then_some(selector))
    }

    /// The controller that would adopt a pod with these labels that has no controller: the first
    /// by kind and name whose selector matches.
    pub fn adopter(&self, labels: &BTreeMap<String, String>) -> Option<Adopter<'_>> {
        let all = self.by_name.iter();
        let mut all = all.filter(|((kind, _), _)| kind.adopts());
        let ((kind, name), _) = all.find(|(_, owner)| owner.selects(labels))?;
        let kind = ObjectKind::Owner(*kind).as_str();
        Some(Adopter { kind, name })
    }

    /// The numbers of the pods of a stateful set; `None` if it is not known.
    pub fn numbering(&self, stateful_set: &str) -> Option<PodNumbering> {
        let owner = self
            .by_name
            .get(&(OwnerKind::StatefulSet, stateful_set.into()))?;
        Some(owner.numbering)
    }

    /// The pod disruption budgets, ascending by name.
    pub fn budgets(&self) -> impl Iterator<Item = NamedBudget<'_>> {
        let from = (OwnerKind::PodDisruptionBudget, Box::default());
        self.by_name.range(from..).filter_map(|((_, name), owner)| {
            let OwnerSelector::Selector(selector) = &owner.selects else {
                return None;
            };
            let budget = owner.budget?;
            Some(NamedBudget {
                name,
                selector,
                budget,
            })
        })
    }

    /// All owners for the wire, ascending by kind and name.
    pub fn to_wire<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = Object> + 'a {
        self.by_name.values().map(|owner| owner.to_wire(namespace))
    }

    fn of_kind(&self, kind: OwnerKind) -> impl Iterator<Item = &Owner> {
        let from = (kind, Box::default());
        let all = self.by_name.range(from..);
        all.take_while(move |((k, _), _)| *k == kind)
            .map(|(_, owner)| &**owner)
    }
}

/// The number of a budget's pods that may be evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DisruptionBudget {
    bound: BudgetBound,
    /// The number of evictions that the budget's controller allows at present.
    allowed: Option<i32>,
}

/// The bound of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BudgetBound {
    /// This share has to be available.
    MinAvailable(BudgetShare),
    /// This share may be unavailable.
    MaxUnavailable(BudgetShare),
}

/// A share of some pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BudgetShare {
    Count(i32),
    Percent(i32),
}

/// A budget without a bound allows nothing.
impl Default for DisruptionBudget {
    fn default() -> Self {
        Self {
            bound: BudgetBound::MaxUnavailable(BudgetShare::Count(0)),
            allowed: None,
        }
    }
}

impl DisruptionBudget {
    /// Checks a budget, whose spec is at `path`.
    pub fn compile(
        wire: &v1::PodDisruptionBudget,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Self {
        let none = v1::PodDisruptionBudgetSpec::default();
        let spec = wire.spec.as_ref().unwrap_or(&none);
        let (min, max) = (path.field("minAvailable"), path.field("maxUnavailable"));
        let bound = match (&spec.min_available, &spec.max_unavailable) {
            (Some(_), Some(_)) => {
                faults.add(max, "must not be set with minAvailable");
                None
            }
            (Some(wire), None) => {
                BudgetShare::compile(wire, min, faults).map(BudgetBound::MinAvailable)
            }
            (None, Some(wire)) => {
                BudgetShare::compile(wire, max, faults).map(BudgetBound::MaxUnavailable)
            }
            (None, None) => None,
        };
        let allowed = wire
            .status
            .as_ref()
            .and_then(|status| status.disruptions_allowed);
        Self {
            bound: bound.unwrap_or(Self::default().bound),
            allowed,
        }
    }

    /// The budget that allows this many pods of a workload to be unavailable.
    pub fn of_unavailable(pods: i32) -> Self {
        Self {
            bound: BudgetBound::MaxUnavailable(BudgetShare::Count(pods)),
            allowed: None,
        }
    }

    /// Returns the number of pods that may be evicted at present: the number of the controller, or
    /// else a number computed from all and from running pods.
    pub fn allows(&self, pods: usize, running: usize) -> usize {
        if let Some(allowed) = self.allowed {
            return usize::try_from(allowed).unwrap_or(0);
        }
        let wanted = match self.bound {
            BudgetBound::MinAvailable(share) => share.of(pods),
            BudgetBound::MaxUnavailable(share) => pods.saturating_sub(share.of(pods)),
        };
        running.saturating_sub(wanted)
    }
}

impl BudgetShare {
    fn compile(wire: &v1::IntOrString, path: Path<'_>, faults: &mut Violations) -> Option<Self> {
        if wire.r#type == 0 {
            if wire.int_val < 0 {
                faults.add(path, "must be at least 0");
            }
            return Some(Self::Count(wire.int_val));
        }
        let digits = wire.str_val.strip_suffix('%');
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let percent = digits.and_then(|digits| digits.parse().ok());
        match percent.filter(|percent| (0..=100).contains(percent)) {
            Some(percent) => Some(Self::Percent(percent)),
            None => {
                faults.add(path, "must be a number, or a percentage such as \"25%\"");
                None
            }
        }
    }

    /// The share of this many pods. A percentage is rounded up.
    fn of(self, pods: usize) -> usize {
        match self {
            Self::Count(count) => usize::try_from(count).unwrap_or(0),
            Self::Percent(percent) => {
                let percent = usize::try_from(percent).unwrap_or(0);
                pods.saturating_mul(percent).div_ceil(100)
            }
        }
    }
}
