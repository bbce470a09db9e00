//! The fields of a pod that say on which node it may run, and when. They are read before nodes are
//! checked.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::verdict::LeftOutBy;
use crate::limits::NodeNames;
use crate::matching::{Path, VersionRules, Violations, names};
use crate::proto::v1;

/// The field by which node affinity names nodes.
const NODE_NAME_FIELD: &str = "metadata.name";

/// The fields of a pod that say on which node it may run, and when.
#[derive(Debug, Clone, Default)]
pub struct OwnPlace {
    /// The scheduling gates that the pod waits for.
    pub(super) gates: Option<Arc<str>>,
    /// The one node that the pod names.
    pub(super) node: Option<Arc<str>>,
    /// The nodes that the pod's required affinity names, if each term names nodes.
    named_by_affinity: Option<Arc<BTreeSet<String>>>,
}

impl OwnPlace {
    /// Checks and reads the spec of a pod, which is at `path`.
    pub fn of(
        spec: &v1::PodSpec,
        node_names: NodeNames,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Self {
        let gates = &spec.scheduling_gates;
        if !spec.node_name.is_empty() {
            let path = path.field("nodeName");
            names::check_node_name(&spec.node_name, node_names, path, faults);
        }
        let names: Vec<&str> = gates.iter().map(|gate| &*gate.name).collect();
        Self {
            gates: (!names.is_empty()).then(|| names.join(" ").into()),
            node: (!spec.node_name.is_empty()).then(|| spec.node_name.as_str().into()),
            named_by_affinity: named_by_affinity(spec).map(Arc::new),
        }
    }

    /// Returns the rule that leaves nodes out before they are checked, and the names of the nodes
    /// that remain.
    pub(super) fn left_out(&self, rules: &VersionRules) -> Option<(LeftOutBy, BTreeSet<&str>)> {
        let name = self.node.as_deref().filter(|_| rules.node_name_first);
        let affinity = self.named_by_affinity.as_deref();
        let affinity = affinity.map(|names| names.iter().map(String::as_str).collect());
        Some(match (name, affinity) {
            (None, None) => return None,
            (Some(name), None) => (LeftOutBy::Name, [name].into()),
            (_, Some(names)) if BTreeSet::is_empty(&names) => (LeftOutBy::Conflict, names),
            (None, Some(names)) => (LeftOutBy::Affinity, names),
            (Some(name), Some(names)) => match names.contains(name) {
                true => (LeftOutBy::NameAndAffinity, [name].into()),
                false => (LeftOutBy::NameAgainstAffinity, BTreeSet::new()),
            },
        })
    }
}

/// Returns whether a pod stands for those of a DaemonSet, of which each is tied to a node of its own:
/// its controller is a DaemonSet, and it names no node.
pub fn is_of_each_node(metadata: &v1::ObjectMeta, spec: &v1::PodSpec) -> bool {
    let mut owners = metadata.owner_references.iter();
    let controller = owners.find(|owner| owner.controller == Some(true));
    controller.is_some_and(|it| (&*it.api_version, &*it.kind) == ("apps/v1", "DaemonSet"))
        && spec.node_name.is_empty()
        && named_by_affinity(spec).is_none()
}

/// The nodes that required affinity names, if each of its terms names nodes. If the requirements of
/// a term name different nodes, the term names none, because a node has only one name.
fn named_by_affinity(spec: &v1::PodSpec) -> Option<BTreeSet<String>> {
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = &affinity.required_during_scheduling_ignored_during_execution;
    let terms = &required.as_ref()?.node_selector_terms;
    if terms.is_empty() {
        return None;
    }
    let mut all = BTreeSet::new();
    for term in terms {
        let fields = term.match_fields.iter();
        let named = fields.filter(|field| field.key == NODE_NAME_FIELD && field.operator == "In");
        let named = named.map(|field| BTreeSet::from_iter(field.values.iter().cloned()));
        all.extend(named.reduce(|all, more| &all & &more)?);
    }
    Some(all)
}
