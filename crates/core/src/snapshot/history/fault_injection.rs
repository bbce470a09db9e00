//! Deliberate faults, so that tests can check that they are found. They are only in builds for
//! tests.

use std::sync::Arc;

use super::named::Snapshot;
use super::turn::WriteTurn;
use crate::proto::v1;
use crate::snapshot::objects::nodes::CompiledNode;
use crate::snapshot::state::revision::State;

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
}

impl Snapshot {
    /// Makes a fault in a namespace that has pods, about a node that exists.
    pub(crate) fn inject_fault(&self, namespace: &str, node: &str, fault: InjectedFault) {
        let mut turn = WriteTurn::take(self);
        let mut state = State::clone(&turn.live);
        let nodes = Arc::make_mut(&mut state.shared.nodes);
        let slot = nodes.nodes().find(node).expect("the node exists");
        let namespace = state.namespaces.get_mut(namespace);
        let namespace = Arc::make_mut(namespace.expect("the namespace exists"));
        let (set, _) = namespace.label_sets().in_use().next().expect("a label set");
        let mut views = namespace.views.load_full();
        match fault {
            InjectedFault::ViewCount => Arc::make_mut(&mut views).recount(set, Some(slot), None),
            InjectedFault::ForgottenLabelSet => Arc::make_mut(&mut views).remove_set(set),
            InjectedFault::LabelSetCount => {
                Arc::make_mut(&mut namespace.label_sets).recount(set, Some(slot), None)
            }
            InjectedFault::UnfollowedNode => {
                let mut node = v1::Node::default();
                node.metadata.get_or_insert_default().name = nodes.nodes().name(slot).to_owned();
                nodes.nodes_mut().put(&node, &CompiledNode::default());
            }
            InjectedFault::PodTotal => state.sizes.pods += 1,
        }
        namespace.views.store(views);
        turn.publish(Arc::new(state), Vec::new());
    }
}
