//! What a snapshot keeps of an object.

use crate::proto::v1;
use crate::proto::v1::change::Object;

/// Takes off what a snapshot does not keep, so that a batch is no larger in
/// memory or in a journal than what it leaves behind.
pub fn trim(object: &mut Object) {
    if let Object::Pod(pod) = object
        && let Some(spec) = &mut pod.spec
    {
        *spec = v1::PodSpec {
            node_name: std::mem::take(&mut spec.node_name),
            ..Default::default()
        };
    }
    let metadata = match object {
        Object::Node(node) => &mut node.metadata,
        Object::Pod(pod) => &mut pod.metadata,
        Object::Service(service) => &mut service.metadata,
        Object::ReplicaSet(set) => &mut set.metadata,
        Object::StatefulSet(set) => &mut set.metadata,
        Object::ReplicationController(controller) => &mut controller.metadata,
        Object::Delete(_) => return,
    };
    if let Some(metadata) = metadata {
        metadata.resource_version.clear();
        metadata.owner_references.clear();
    }
}
