//! The rules about the pods that a plan may evict, and the reasons why it may not move a pod.

use std::collections::HashMap;

use crate::limits::Limits;
use crate::matching::Selector;
use crate::snapshot::{DisruptionBudget, NamedBudget, PairIndex, PodGroup, PodGroups, Stopped};
use crate::spread::describe::{NamedWorkload, Survey, WorkloadId, WorkloadPods};

/// The pods that stay, by namespace and name, each with the reason.
pub type StayingPods = HashMap<String, HashMap<String, String>>;

/// The rules about the pods that a plan may evict.
#[derive(Debug, Clone)]
pub struct EvictionRules {
    /// The number of pods of a workload without a budget that may be unavailable.
    pub max_unavailable: i32,
    /// True if pods without a controller may be moved.
    pub moves_bare: bool,
    /// Selects pods that stay.
    pub keeps: Option<Selector>,
    /// The pods that stay by name.
    pub stay: StayingPods,
    /// The number of domains to list.
    pub max_domains: usize,
    /// The limits for pods.
    pub limits: Limits,
}

impl EvictionRules {
    /// The workloads of a namespace. One that is named has the pods that its selector finds, too.
    pub fn survey<'s, 'a>(
        &'s self,
        pods: &'s PodGroups<'a>,
        namespace: &str,
        named: Option<&'s NamedWorkload>,
    ) -> Result<Survey<'s, 'a>, Stopped> {
        Survey::of(pods, namespace, &self.limits, self.max_domains, named)
    }
}

/// The most budgets that a reason names.
const MOST_NAMED: usize = 10;

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

/// The number of pods that may be on no node at a time.
#[derive(Debug, Clone)]
pub struct Leeway {
    /// The number of the budget that allows it. Without one, all pods of a workload share it.
    pub budget: Option<usize>,
    /// That number at present.
    pub allowed: usize,
    /// The reason why it is 0, if it is.
    pub refusal: Option<String>,
}

/// The budgets of a namespace, found by the labels of pods.
pub struct NamespaceBudgets<'a> {
    budgets: Vec<NamedBudget<'a>>,
    by_label: PairIndex,
    /// The number of evictions that each budget allows.
    allowed: Vec<usize>,
}

impl<'a> NamespaceBudgets<'a> {
    /// Returns the budgets of the namespace of these pods.
    pub fn of(pods: &PodGroups<'a>) -> Result<Self, Stopped> {
        let read_view = pods.read_view();
        let budgets = read_view.deadline.each(read_view.budgets());
        let budgets: Vec<_> = budgets.collect::<Result<_, _>>()?;
        let mut by_label = PairIndex::default();
        for (at, budget) in budgets.iter().enumerate() {
            by_label.add(budget.selector, at);
        }
        let mut all = Self {
            allowed: Vec::new(),
            budgets,
            by_label,
        };
        let mut sums = vec![(0, 0); all.budgets.len()];
        if !all.budgets.is_empty() {
            for group in pods.groups() {
                for at in all.over(pods, group)? {
                    let (pods, running): &mut (usize, usize) = &mut sums[at];
                    *pods += group.pods;
                    *running += group.nodes.len();
                }
            }
        }
        let sums = all.budgets.iter().zip(sums);
        let allowed = sums.map(|(it, (pods, running))| it.budget.allows(pods, running));
        all.allowed = allowed.collect();
        Ok(all)
    }

    /// The numbers of the budgets that select the pods of a group, ascending.
    fn over(&self, pods: &PodGroups<'_>, group: &PodGroup) -> Result<Vec<usize>, Stopped> {
        let mut over = Vec::new();
        for at in self.by_label.candidates(pods.labels(group)) {
            let selector = self.budgets[at].selector;
            if pods.selects(selector, group)? {
                over.push(at);
            }
        }
        over.sort_unstable();
        Ok(over)
    }

    /// Returns how many pods of a group may be on no node at a time.
    pub fn leeway(
        &self,
        pods: &PodGroups<'_>,
        group: &PodGroup,
        workload: &WorkloadPods<'_>,
        max_unavailable: i32,
    ) -> Result<Leeway, Stopped> {
        let over = self.over(pods, group)?;
        let (allowed, why) = match &*over {
            [] => {
                let said = match max_unavailable {
                    1 => "1 pod may be unavailable, and is".to_owned(),
                    pods => format!("{pods} pods may be unavailable, and are"),
                };
                (of_workload(workload, max_unavailable), said)
            }
            [one] => {
                let name = self.budgets[*one].name;
                let said = format!("PodDisruptionBudget {name} allows no eviction");
                (self.allowed[*one], said)
            }
            several => {
                let named = several.iter().take(MOST_NAMED);
                let names: Vec<&str> = named.map(|at| self.budgets[*at].name).collect();
                let more = match several.len() - names.len() {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let names = names.join(", ");
                (0, format!("several PodDisruptionBudgets: {names}{more}"))
            }
        };
        Ok(Leeway {
            budget: over.first().copied(),
            refusal: (allowed == 0).then_some(why),
            allowed,
        })
    }
}

/// The number of pods of a workload without a budget that may become unavailable now.
fn of_workload(workload: &WorkloadPods<'_>, max_unavailable: i32) -> usize {
    let all: usize = workload.groups.iter().map(|(group, _)| group.pods).sum();
    let running = workload.groups.iter().map(|(group, _)| group.nodes.len());
    DisruptionBudget::of_unavailable(max_unavailable).allows(all, running.sum())
}

/// Returns the reason why all pods of a group stay; `None` if they may move.
pub fn staying_group(
    group: &PodGroup,
    id: &WorkloadId,
    leeway: &Leeway,
    pods: &PodGroups<'_>,
    rules: &EvictionRules,
) -> Result<Option<Staying>, Stopped> {
    if let Some(why) = goes_with_node(id) {
        return Ok(Some(Staying::Kind(why)));
    }
    if id.kind.is_empty() && !rules.moves_bare {
        return Ok(Some(Staying::Kind("without a controller")));
    }
    if pods.is_pinned(group) {
        return Ok(Some(Staying::Kind("bound to its node")));
    }
    if let Some(keeps) = &rules.keeps
        && pods.selects(keeps, group)?
    {
        let why = "of the selector of pods that stay".to_owned();
        return Ok(Some(Staying::Wished(why)));
    }
    Ok(leeway.refusal.clone().map(Staying::Budget))
}

/// Returns in words why the pods of a workload go with their node, if they do.
pub fn goes_with_node(id: &WorkloadId) -> Option<&'static str> {
    match &*id.kind {
        _ if id.is_static() => Some("a static pod"),
        "DaemonSet" => Some("of a DaemonSet"),
        _ => None,
    }
}
