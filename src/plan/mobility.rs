//! Reasons why a plan may not move a pod.

use std::collections::BTreeMap;

use super::rebalance_options::RebalanceOptions;
use crate::proto::v1;
use crate::snapshot::{DisruptionBudget, PodGroup, PodGroups};
use crate::spread::describe::{WorkloadId, WorkloadPods};

/// The reason why a pod stays where it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Staying {
    /// The kind of the pod: it would not be replaced, or only on the same node.
    Kind(&'static str),
    /// The caller wants the pod to stay, for this reason.
    Wished(String),
    /// A budget allows no eviction, or the pod has several budgets. The text names them.
    Budget(String),
}

/// The budgets of a namespace, by name, with the number of evictions that each allows.
pub struct NamespaceBudgets {
    allowed: BTreeMap<String, usize>,
}

impl NamespaceBudgets {
    /// Returns the budgets of the namespace of these pods.
    pub fn of(pods: &PodGroups<'_>) -> Self {
        let mut sums: BTreeMap<&str, (DisruptionBudget, usize, usize)> = BTreeMap::new();
        let budgets: Vec<_> = pods.read_view().budgets().collect();
        if !budgets.is_empty() {
            for group in pods.groups() {
                let labels = pods.pod(group).metadata.unwrap_or_default().labels;
                for budget in budgets
                    .iter()
                    .filter(|it| it.selector.matches_labels(&labels))
                {
                    let sum = sums.entry(budget.name).or_insert((budget.budget, 0, 0));
                    sum.1 += group.pods;
                    sum.2 += group.nodes.len();
                }
            }
        }
        let allowed = sums.into_iter();
        let allowed = allowed
            .map(|(name, (budget, pods, running))| (name.to_owned(), budget.allows(pods, running)));
        Self {
            allowed: allowed.collect(),
        }
    }

    /// Returns the reason why budgets do not allow to move pods with these labels.
    fn staying(
        &self,
        pods: &PodGroups<'_>,
        labels: &BTreeMap<String, String>,
        workload: &WorkloadPods<'_>,
        max_unavailable: i32,
    ) -> Option<Staying> {
        let all = pods.read_view().budgets();
        let names: Vec<&str> = all
            .filter(|budget| budget.selector.matches_labels(labels))
            .map(|budget| budget.name)
            .collect();
        match &*names {
            [] => {
                let all: usize = workload.groups.iter().map(|(group, _)| group.pods).sum();
                let running = workload.groups.iter().map(|(group, _)| group.nodes.len());
                let budget = DisruptionBudget::of_unavailable(max_unavailable);
                let is_allowed = budget.allows(all, running.sum()) > 0;
                let said = || format!("{max_unavailable} pods may be unavailable, and are");
                (!is_allowed).then(|| Staying::Budget(said()))
            }
            [name] => {
                let is_allowed = self.allowed.get(*name).is_some_and(|allowed| *allowed > 0);
                let said = || format!("PodDisruptionBudget {name} allows no eviction");
                (!is_allowed).then(|| Staying::Budget(said()))
            }
            several => {
                let said = format!("several PodDisruptionBudgets: {}", several.join(", "));
                Some(Staying::Budget(said))
            }
        }
    }
}

/// Returns the reason why all pods of a group stay; `None` if they may move.
pub fn staying_group(
    (group, pod): (&PodGroup, &v1::Pod),
    (id, workload): (&WorkloadId, &WorkloadPods<'_>),
    (pods, budgets): (&PodGroups<'_>, &NamespaceBudgets),
    options: &RebalanceOptions,
) -> Option<Staying> {
    let none = v1::ObjectMeta::default();
    let metadata = pod.metadata.as_ref().unwrap_or(&none);
    if id.is_static() {
        return Some(Staying::Kind("a static pod"));
    }
    match &*id.kind {
        "DaemonSet" => return Some(Staying::Kind("of a DaemonSet")),
        "" if !options.moves_bare => return Some(Staying::Kind("without a controller")),
        _ if pods.is_pinned(group) => return Some(Staying::Kind("bound to its node")),
        _ => {}
    }
    if options
        .keeps
        .as_ref()
        .is_some_and(|it| it.matches_labels(&metadata.labels))
    {
        return Some(Staying::Wished(
            "of the selector of pods that stay".to_owned(),
        ));
    }
    budgets.staying(pods, &metadata.labels, workload, options.max_unavailable)
}
