//! Objects in their kept form. Compiling is validating. It happens once; a compiled object is
//! applied without another check. Pods have their own form (`pod.rs`).

use std::sync::{Arc, LazyLock};

use super::asks;
use super::budget::DisruptionBudget;
use super::kind::{ObjectKind, OwnerKind, StorageKind, metadata_of};
use super::namespace_object::LabelledNamespace;
use super::node::CompiledNode;
use super::owners::{Owner, Selects};
use super::pod::Phase;
use super::storage_object::StorageObject;
use crate::limits::{Limit, Limits, NodeNames};
use crate::matching::{Path, Violations, check_claim_names, names, times};
use crate::proto::v1;
use crate::proto::v1::change::Object;

/// The limits of objects that were accepted before: these are kept whatever the limits are at
/// present.
static TRUSTED: LazyLock<Limits> = LazyLock::new(|| Limits {
    node_affinity_terms: usize::MAX,
    ..Limits::default()
});

/// The compiled form of a change, before it is applied.
#[derive(Debug, Clone)]
pub enum Compiled {
    /// A compiled node.
    Node(Box<CompiledNode>),
    /// A service or controller.
    Owner(OwnerKind, Arc<Owner>),
    /// A namespace.
    Namespace(Arc<LabelledNamespace>),
    /// A claim, a persistent volume or a storage class.
    Storage(StorageObject),
    /// The kind of an object that is deleted.
    Delete(ObjectKind),
}

impl Compiled {
    /// Checks a change, which is at `path`, and compiles it. `None` when a fault leaves nothing to
    /// compile, and for a pod.
    pub fn check(
        object: &Object,
        limits: &Limits,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Option<Self> {
        if let Object::Delete(reference) = object {
            let path = path.field("delete");
            check_reference(reference, limits, path, faults);
            return Self::of(object, limits, path, faults);
        }
        let kind = ObjectKind::of(object)?;
        let path = path.field(kind.field());
        check_metadata(kind, metadata_of(object), limits, path, faults);
        Self::of(object, limits, path, faults)
    }

    /// Compiles a change of the snapshot's own making, which needs no check.
    pub fn trusted(object: &Object) -> Self {
        let mut no_faults = Violations::default();
        let compiled = Self::of(object, &TRUSTED, Path::root("change"), &mut no_faults);
        compiled.expect("what the snapshot makes itself is valid")
    }

    fn of(
        object: &Object,
        limits: &Limits,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Option<Self> {
        if let Some(storage) = StorageObject::compile(object, limits, path, faults) {
            return Some(Self::Storage(storage));
        }
        Some(match object {
            Object::Node(node) => Self::Node(Box::new(CompiledNode::compile(node, path, faults))),
            Object::Namespace(namespace) => {
                Self::Namespace(Arc::new(LabelledNamespace::of(namespace)))
            }
            Object::Delete(reference) => Self::Delete(ObjectKind::parse(&reference.kind)?),
            _ => {
                let (kind, selects) = Selects::of(object)?;
                let uid = metadata_of(object).map_or("", |metadata| &metadata.uid);
                let path = path.field("spec");
                let owner = Owner::compile(uid, selects, path.field("selector"), faults);
                let budget = match object {
                    Object::PodDisruptionBudget(wire) => {
                        Some(DisruptionBudget::compile(wire, path, faults))
                    }
                    _ => None,
                };
                Self::Owner(kind, Arc::new(owner.with_budget(budget)))
            }
        })
    }

    /// The kind of the object.
    pub fn kind(&self) -> ObjectKind {
        match self {
            Self::Node(_) => ObjectKind::Node,
            Self::Owner(kind, _) => ObjectKind::Owner(*kind),
            Self::Namespace(_) => ObjectKind::Namespace,
            Self::Storage(it) => ObjectKind::Storage(it.kind()),
            Self::Delete(kind) => *kind,
        }
    }
}

fn check_reference(
    reference: &v1::ObjectReference,
    limits: &Limits,
    path: Path<'_>,
    faults: &mut Violations,
) {
    let kind = ObjectKind::parse(&reference.kind);
    if kind.is_none() {
        let known = ObjectKind::list();
        faults.add(path.field("kind"), format!("must be one of {known}"));
    }
    names::check_namespace(&reference.namespace, path.field("namespace"), faults);
    // An object that was stored under another setting can be deleted.
    check_name(kind, &reference.name, NodeNames::Any, path, faults);
    check_text(&reference.uid, limits, path.field("uid"), faults);
}

/// Checks the name of an object, or of an object of no known kind.
fn check_name(
    kind: Option<ObjectKind>,
    name: &str,
    allowed: NodeNames,
    path: Path<'_>,
    faults: &mut Violations,
) {
    let path = path.field("name");
    match kind {
        Some(ObjectKind::Node) => names::check_node_name(name, allowed, path, faults),
        Some(ObjectKind::Namespace) if !name.is_empty() => {
            names::check_namespace(name, path, faults);
        }
        _ => names::check_name(name, path, faults),
    }
}

/// Checks a pod, which is at `path`, except its requests.
pub fn check_pod(pod: &v1::Pod, limits: &Limits, path: Path<'_>, faults: &mut Violations) {
    check_metadata(ObjectKind::Pod, pod.metadata.as_ref(), limits, path, faults);
    let node_name = pod.spec.as_ref().map_or("", |s| &s.node_name);
    if !node_name.is_empty() {
        let spec = path.field("spec");
        let path = spec.field("nodeName");
        names::check_node_name(node_name, limits.node_names, path, faults);
    }
    let status = pod.status.as_ref();
    let nominated = status.map_or("", |s| &s.nominated_node_name);
    if !nominated.is_empty() {
        let status = path.field("status");
        let path = status.field("nominatedNodeName");
        names::check_node_name(nominated, limits.node_names, path, faults);
    }
    if let Some(spec) = &pod.spec {
        check_claim_names(spec, path.field("spec"), faults);
    }
    let bytes = asks::size_bytes(pod);
    faults.within(path.field("spec"), limits, Limit::PodSpecBytes, bytes);
    let phase = status.map_or("", |s| &s.phase);
    if Phase::parse(phase.as_bytes()).is_none() {
        let known = "must be Pending, Running, Succeeded, Failed or Unknown";
        faults.add(path.field("status").field("phase"), known);
    }
}

fn check_metadata(
    kind: ObjectKind,
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
    let allowed = limits.node_names;
    check_name(Some(kind), &metadata.name, allowed, path, faults);
    names::check_namespace(&metadata.namespace, path.field("namespace"), faults);
    // A volume's label may list zones, which is no valid label value.
    if kind != ObjectKind::Storage(StorageKind::Volume) {
        names::check_labels(&metadata.labels, path.field("labels"), faults);
    }
    times::check_deletion(metadata, path, faults);
    check_text(&metadata.uid, limits, path.field("uid"), faults);
}

fn check_text(text: &str, limits: &Limits, path: Path<'_>, faults: &mut Violations) {
    faults.within(path, limits, Limit::StringBytes, text.len());
}
