//! The options of a plan that moves pods, and the reasons why it may not move a pod.

use std::collections::HashMap;
use std::sync::Arc;

use crate::limits::Limits;
use crate::matching::Selector;
use crate::snapshot::{DisruptionBudget, NamedBudget, PairIndex, PodGroup, PodGroups, Stopped};
use crate::spread::describe::{NamedWorkload, Survey, WorkloadId, WorkloadPods};

/// The pods that stay, by namespace and name, each with the reason.
pub type StayingPods = HashMap<String, HashMap<String, String>>;

/// The options of a plan that moves pods.
#[derive(Debug, Clone)]
pub struct RebalanceOptions {
    /// The namespace; `None` means all.
    pub namespace: Option<String>,
    /// The workload; `None` means all.
    pub workload: Option<NamedWorkload>,
    /// Selects pods; only their workloads are repaired. `None` means all.
    pub selector: Option<Selector>,
    /// True if soft constraints are repaired too.
    pub soft: bool,
    /// The topology key over which workloads without constraints are made even.
    pub by: Option<Arc<str>>,
    /// The largest number of moves.
    pub most_moves: usize,
    /// The largest number of moves for each workload.
    pub most_of_workload: usize,
    /// The largest number of moves out of each node.
    pub most_of_node: usize,
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

impl RebalanceOptions {
    /// The workloads of a namespace.
    pub fn survey<'s, 'a>(
        &'s self,
        pods: &'s PodGroups<'a>,
        namespace: &str,
    ) -> Result<Survey<'s, 'a>, Stopped> {
        let named = self.workload.as_ref();
        Survey::of(pods, namespace, &self.limits, self.max_domains, named)
    }

    /// Returns whether a workload is to be repaired.
    ///
    /// # Errors
    /// The decision ends here.
    pub(super) fn means(
        &self,
        namespace: &str,
        id: &WorkloadId,
        workload: &WorkloadPods<'_>,
        pods: &PodGroups<'_>,
    ) -> Result<bool, Stopped> {
        let is_named = self.namespace.as_ref().is_none_or(|it| *it == *namespace)
            && self
                .workload
                .as_ref()
                .is_none_or(|named| id.kind == named.kind && id.name == named.name);
        let Some(selector) = self.selector.as_ref().filter(|_| is_named) else {
            return Ok(is_named);
        };
        for (group, _) in &workload.groups {
            if pods.selects(selector, group)? {
                return Ok(true);
            }
        }
        Ok(false)
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

    /// Returns how many pods of a group may be on no node at a time, and the number of the budget
    /// that says so; without a budget all pods of the workload share that number.
    pub fn leeway(
        &self,
        pods: &PodGroups<'_>,
        group: &PodGroup,
        workload: &WorkloadPods<'_>,
        max_unavailable: i32,
    ) -> Result<(Option<usize>, usize), Stopped> {
        Ok(match &*self.over(pods, group)? {
            [] => (None, of_workload(workload, max_unavailable)),
            [one] => (Some(*one), self.allowed[*one]),
            [first, ..] => (Some(*first), 0),
        })
    }

    /// Returns the reason why budgets do not allow to move the pods of a group.
    fn staying(
        &self,
        pods: &PodGroups<'_>,
        group: &PodGroup,
        workload: &WorkloadPods<'_>,
        max_unavailable: i32,
    ) -> Result<Option<Staying>, Stopped> {
        Ok(match &*self.over(pods, group)? {
            [] => {
                let is_allowed = of_workload(workload, max_unavailable) > 0;
                let said = || match max_unavailable {
                    1 => "1 pod may be unavailable, and is".to_owned(),
                    pods => format!("{pods} pods may be unavailable, and are"),
                };
                (!is_allowed).then(|| Staying::Budget(said()))
            }
            [one] => {
                let name = self.budgets[*one].name;
                let said = || format!("PodDisruptionBudget {name} allows no eviction");
                (self.allowed[*one] == 0).then(|| Staying::Budget(said()))
            }
            several => {
                let named = several.iter().take(MOST_NAMED);
                let names: Vec<&str> = named.map(|at| self.budgets[*at].name).collect();
                let more = match several.len() - names.len() {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let names = names.join(", ");
                let said = format!("several PodDisruptionBudgets: {names}{more}");
                Some(Staying::Budget(said))
            }
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
    (id, workload): (&WorkloadId, &WorkloadPods<'_>),
    (pods, budgets): (&PodGroups<'_>, &NamespaceBudgets<'_>),
    options: &RebalanceOptions,
) -> Result<Option<Staying>, Stopped> {
    if id.is_static() {
        return Ok(Some(Staying::Kind("a static pod")));
    }
    match &*id.kind {
        "DaemonSet" => return Ok(Some(Staying::Kind("of a DaemonSet"))),
        "" if !options.moves_bare => return Ok(Some(Staying::Kind("without a controller"))),
        _ if pods.is_pinned(group) => return Ok(Some(Staying::Kind("bound to its node"))),
        _ => {}
    }
    if let Some(keeps) = &options.keeps
        && pods.selects(keeps, group)?
    {
        let why = "of the selector of pods that stay".to_owned();
        return Ok(Some(Staying::Wished(why)));
    }
    budgets.staying(pods, group, workload, options.max_unavailable)
}
