//! Deliberate faults, so that tests can check that they are found. They are only in builds for
//! tests.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::named::Snapshot;
use crate::proto::v1;
use crate::snapshot::counts::partitioned_nodes::PartitionedNodes;
use crate::snapshot::objects::node::CompiledNode;
use crate::snapshot::objects::pod::CompiledPod;
use crate::snapshot::objects::requested::Shifts;

/// A fault of the kept counts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum InjectedFault {
    /// Views count a pod that is not there.
    ViewCount,
    /// A view does not know a label set that its selector matches.
    ForgottenLabelSet,
    /// A table of a label set counts a pod that is not there.
    LabelSetCount,
    /// A node changed and no partition followed.
    UnfollowedNode,
    /// The total of pods is one too many.
    PodTotal,
    /// A pod is on a node whose slot no node has.
    UnknownSlot,
}

impl Snapshot {
    /// Makes a namespace look as if it was never asked about. A batch that begins just before the
    /// first question sees that.
    pub(crate) fn look_away(&self, namespace: &str) {
        let state = self.live();
        let shard = state.shard(namespace).expect("the namespace exists");
        shard.viewed.store(false, Ordering::Relaxed);
    }

    /// Makes a fault in a namespace that has pods, about a node that exists.
    pub(crate) fn inject_fault(&self, namespace: &str, node: &str, fault: InjectedFault) {
        let state = self.live();
        let shard = state.shard(namespace).expect("the namespace exists");
        let mut namespace = shard.namespace.write();
        let mut shared = state.shared.write();
        let (set, _) = namespace.label_sets().in_use().next().expect("a label set");
        let slot = shared.nodes.nodes().find(node).expect("the node exists");
        match fault {
            InjectedFault::ViewCount => namespace.views_mut().add_pod(set, slot, &shared.nodes),
            InjectedFault::ForgottenLabelSet => {
                namespace.views_mut().watched.remove_set(set, usize::MAX)
            }
            InjectedFault::LabelSetCount => {
                Arc::make_mut(&mut namespace.label_sets).count(set, slot)
            }
            InjectedFault::UnfollowedNode => {
                let mut node = v1::Node::default();
                node.metadata.get_or_insert_default().name =
                    shared.nodes.nodes().name(slot).to_owned();
                PartitionedNodes::to_change(&mut shared.nodes)
                    .nodes_mut()
                    .put(&node, &CompiledNode::default());
            }
            InjectedFault::PodTotal => {
                state.pods.fetch_add(1, Ordering::Relaxed);
            }
            InjectedFault::UnknownSlot => {
                let others = PartitionedNodes::imagined(&shared.nodes, |nodes| {
                    nodes.reserve("elsewhere");
                });
                let mut pod = v1::Pod::default();
                pod.metadata.get_or_insert_default().name = "astray".to_owned();
                pod.spec.get_or_insert_default().node_name = "elsewhere".to_owned();
                let pod = CompiledPod::trusted(&pod);
                namespace.put_pod(&pod, &others, &mut Shifts::default());
            }
        }
    }
}
