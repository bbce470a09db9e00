//! Writing a state out as changes that rebuild it.

use super::frozen::Frozen;
use crate::proto::v1;
use crate::proto::v1::change::Object;
use crate::snapshot::history::book::is_reservation;

impl Frozen {
    /// All objects: nodes in node order, then each namespace's owners and
    /// pods, ascending by name.
    pub fn changes(&self) -> impl Iterator<Item = v1::Change> + '_ {
        let nodes = self
            .nodes
            .order()
            .iter()
            .filter_map(|slot| self.nodes.get(*slot));
        let nodes = nodes.map(|node| Object::Node(node.to_wire()));
        let nodes = nodes.map(|object| v1::Change {
            object: Some(object),
        });
        nodes.chain(self.namespaces.iter().flat_map(|(name, namespace)| {
            let pod = |pod: &str| {
                let pod = namespace.pod_to_wire(name, pod, &self.nodes)?;
                Some(v1::Change {
                    object: Some(Object::Pod(pod)),
                })
            };
            // What is reserved is for this server to hold, not for another.
            let names = namespace.pod_names().into_iter();
            let pods = names.filter(|name| !is_reservation(name)).filter_map(pod);
            namespace.owners().to_wire(name).chain(pods)
        }))
    }
}
