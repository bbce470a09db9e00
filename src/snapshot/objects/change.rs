//! Batches of changes: checked once, then applied without fail.

use hashbrown::HashSet;

use super::pod::Phase;
use super::size;
use super::templates;
use crate::limits::{Limit, Limits};
use crate::matching::{Path, Selector, Taint, Violations, names, times};
use crate::proto::v1;
use crate::proto::v1::change::Object;

/// The kinds of objects that a snapshot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A node.
    Node,
    /// A pod.
    Pod,
    /// Something that selects pods.
    Owner(OwnerKind),
}

/// The kinds of objects whose selectors are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OwnerKind {
    /// core/v1 Service.
    Service,
    /// apps/v1 ReplicaSet.
    ReplicaSet,
    /// apps/v1 StatefulSet.
    StatefulSet,
    /// core/v1 ReplicationController.
    ReplicationController,
}

/// Valid changes, at most one per object.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    objects: Vec<Object>,
    /// What they take in memory where they are kept, at most.
    bytes: usize,
}

/// What a change is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectId<'a> {
    /// The kind of the object.
    pub kind: ObjectKind,
    /// Its namespace; empty for nodes.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

impl ObjectKind {
    const NAMES: [(&'static str, Self); 6] = [
        ("Node", Self::Node),
        ("Pod", Self::Pod),
        ("Service", Self::Owner(OwnerKind::Service)),
        ("ReplicaSet", Self::Owner(OwnerKind::ReplicaSet)),
        ("StatefulSet", Self::Owner(OwnerKind::StatefulSet)),
        (
            "ReplicationController",
            Self::Owner(OwnerKind::ReplicationController),
        ),
    ];

    fn parse(text: &str) -> Option<Self> {
        Self::NAMES
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, kind)| *kind)
    }

    /// Kubernetes' word for it.
    pub fn as_str(self) -> &'static str {
        let name = Self::NAMES.iter().find(|(_, kind)| *kind == self);
        name.expect("every kind has a name").0
    }
}

impl Batch {
    /// Checks the changes of a request, whose field is at `path`.
    ///
    /// # Errors
    /// Every fault of every change.
    pub fn check(
        changes: Vec<v1::Change>,
        limits: &Limits,
        path: Path<'_>,
    ) -> Result<Self, Violations> {
        let mut faults = Violations::default();
        for (i, change) in changes.iter().enumerate() {
            match &change.object {
                Some(object) => check_object(object, limits, path.index(i), &mut faults),
                None => faults.add(path.index(i), "must hold an object or a delete"),
            }
        }
        // Only valid changes have an identity to compare.
        if faults.is_empty() {
            check_unique(&changes, path, &mut faults);
        }
        faults.finish(())?;
        Ok(Self::trusted(changes.into_iter().filter_map(|c| c.object)))
    }

    /// Changes of the snapshot's own making, which need no check.
    pub(in crate::snapshot) fn trusted(objects: impl IntoIterator<Item = Object>) -> Self {
        let objects: Vec<Object> = objects.into_iter().collect();
        let bytes = objects.iter().map(size::most).sum();
        Self { objects, bytes }
    }

    /// The batch with more changes of the snapshot's own making.
    pub(in crate::snapshot) fn and(&self, objects: Vec<Object>) -> Self {
        Self::trusted(self.objects.iter().cloned().chain(objects))
    }

    /// How many changes there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The changes.
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// What they take in memory where they are kept, at most.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The batch without the pods and owners of other namespaces.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        self.objects.retain(|object| {
            let id = ObjectId::of(object);
            id.kind == ObjectKind::Node || id.namespace == namespace
        });
        self
    }
}

impl<'a> ObjectId<'a> {
    /// Of a valid change.
    pub fn of(object: &'a Object) -> Self {
        let kind = match object {
            Object::Node(_) => ObjectKind::Node,
            Object::Pod(_) => ObjectKind::Pod,
            Object::Service(_) => ObjectKind::Owner(OwnerKind::Service),
            Object::ReplicaSet(_) => ObjectKind::Owner(OwnerKind::ReplicaSet),
            Object::StatefulSet(_) => ObjectKind::Owner(OwnerKind::StatefulSet),
            Object::ReplicationController(_) => ObjectKind::Owner(OwnerKind::ReplicationController),
            Object::Delete(reference) => {
                let kind =
                    ObjectKind::parse(&reference.kind).expect("a checked delete has a known kind");
                return Self::new(kind, &reference.namespace, &reference.name);
            }
        };
        let metadata = metadata_of(object).expect("a checked object has metadata");
        Self::new(kind, &metadata.namespace, &metadata.name)
    }

    fn new(kind: ObjectKind, namespace: &'a str, name: &'a str) -> Self {
        let namespace = match kind {
            ObjectKind::Node => "",
            ObjectKind::Pod | ObjectKind::Owner(_) => names::namespace_or_default(namespace),
        };
        Self {
            kind,
            namespace,
            name,
        }
    }
}

/// The metadata of an object that is created or updated; none of a delete.
pub fn metadata_of(object: &Object) -> Option<&v1::ObjectMeta> {
    match object {
        Object::Node(node) => node.metadata.as_ref(),
        Object::Pod(pod) => pod.metadata.as_ref(),
        Object::Service(service) => service.metadata.as_ref(),
        Object::ReplicaSet(set) => set.metadata.as_ref(),
        Object::StatefulSet(set) => set.metadata.as_ref(),
        Object::ReplicationController(controller) => controller.metadata.as_ref(),
        Object::Delete(_) => None,
    }
}

fn check_unique(changes: &[v1::Change], path: Path<'_>, faults: &mut Violations) {
    let mut seen = HashSet::with_capacity(changes.len());
    for (i, object) in changes.iter().filter_map(|c| c.object.as_ref()).enumerate() {
        let id = ObjectId::of(object);
        if !seen.insert(id) {
            let slash = if id.namespace.is_empty() { "" } else { "/" };
            let what = format!("{} {}{slash}{}", id.kind.as_str(), id.namespace, id.name);
            faults.add(
                path.index(i),
                format!("{what} is in the batch more than once"),
            );
        }
    }
}

fn check_object(object: &Object, limits: &Limits, path: Path<'_>, faults: &mut Violations) {
    match object {
        Object::Node(node) => {
            let path = path.field("node");
            check_metadata(node.metadata.as_ref(), limits, path, faults);
            if let Some(spec) = &node.spec {
                Taint::compile(&spec.taints, path.field("spec").field("taints"), faults);
            }
        }
        Object::Pod(pod) => check_pod(pod, limits, path.field("pod"), faults),
        Object::Service(service) => {
            let path = path.field("service");
            check_metadata(service.metadata.as_ref(), limits, path, faults);
            if let Some(spec) = &service.spec {
                let path = path.field("spec");
                names::check_labels(&spec.selector, path.field("selector"), faults);
            }
        }
        Object::ReplicaSet(set) => {
            let path = path.field("replicaSet");
            check_metadata(set.metadata.as_ref(), limits, path, faults);
            let selector = set.spec.as_ref().and_then(|s| s.selector.as_ref());
            Selector::compile(selector, path.field("spec").field("selector"), faults);
        }
        Object::StatefulSet(set) => {
            let path = path.field("statefulSet");
            check_metadata(set.metadata.as_ref(), limits, path, faults);
            let selector = set.spec.as_ref().and_then(|s| s.selector.as_ref());
            Selector::compile(selector, path.field("spec").field("selector"), faults);
        }
        Object::ReplicationController(controller) => {
            let path = path.field("replicationController");
            check_metadata(controller.metadata.as_ref(), limits, path, faults);
            if let Some(spec) = &controller.spec {
                let path = path.field("spec");
                names::check_labels(&spec.selector, path.field("selector"), faults);
            }
        }
        Object::Delete(reference) => {
            let path = path.field("delete");
            if ObjectKind::parse(&reference.kind).is_none() {
                let known = ObjectKind::NAMES.map(|(name, _)| name).join(", ");
                faults.add(path.field("kind"), format!("must be one of {known}"));
            }
            names::check_namespace(&reference.namespace, path.field("namespace"), faults);
            names::check_name(&reference.name, path.field("name"), faults);
            check_text(&reference.uid, limits, path.field("uid"), faults);
        }
    }
}

fn check_pod(pod: &v1::Pod, limits: &Limits, path: Path<'_>, faults: &mut Violations) {
    check_metadata(pod.metadata.as_ref(), limits, path, faults);
    let node_name = pod.spec.as_ref().map_or("", |s| &s.node_name);
    if !node_name.is_empty() {
        names::check_name(node_name, path.field("spec").field("nodeName"), faults);
    }
    let bytes = templates::size_bytes(pod);
    faults.within(path.field("spec"), limits, Limit::PodSpecBytes, bytes);
    let phase = pod.status.as_ref().map_or("", |s| &s.phase);
    if Phase::parse(phase).is_none() {
        let known = "must be Pending, Running, Succeeded, Failed or Unknown";
        faults.add(path.field("status").field("phase"), known);
    }
}

fn check_metadata(
    metadata: Option<&v1::ObjectMeta>,
    limits: &Limits,
    path: Path<'_>,
    faults: &mut Violations,
) {
    let path = path.field("metadata");
    let Some(metadata) = metadata else {
        faults.add(path.field("name"), "is required");
        return;
    };
    names::check_name(&metadata.name, path.field("name"), faults);
    names::check_namespace(&metadata.namespace, path.field("namespace"), faults);
    names::check_labels(&metadata.labels, path.field("labels"), faults);
    times::check_deletion(metadata, path, faults);
    check_text(&metadata.uid, limits, path.field("uid"), faults);
}

fn check_text(text: &str, limits: &Limits, path: Path<'_>, faults: &mut Violations) {
    faults.within(path, limits, Limit::StringBytes, text.len());
}
