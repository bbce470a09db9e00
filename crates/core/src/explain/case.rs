//! The subject of an explanation: a question, the nodes that were judged, and the verdict of every
//! constraint on each node.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::words::{among, joined, title};
use crate::matching::{Constraint, Selector, Shortage, TaintedNode};
use crate::snapshot::pod_terms::HeldTerm;
use crate::snapshot::{NodeRef, PodGroups, ReadView, Slot, Stopped};
use crate::spread::place::Placer;
use crate::spread::{
    Active, Checked, Constraints, DomainReport, Filter, GlobalMinimum, NodeChecks, NodeRefusal,
    NominatedOn, Picker, PlaceOptions, Question, Reason, Report, Scores, SkewRule,
};

/// A decision and the facts that it was made from.
pub struct Case<'a> {
    question: &'a Question,
    /// The constraints in force.
    pub constraints: &'a Constraints,
    checks: NodeChecks,
    /// The hard constraints and the checks, ready to judge nodes.
    pub filter: &'a Filter<'a>,
    /// The checks other than spread. They are made even if the caller wants only the verdict on
    /// spread.
    checked: Checked<'a>,
    /// The state that the question was decided on.
    pub read_view: ReadView<'a>,
    /// The nodes that were judged.
    pub nodes: Vec<JudgedNode<'a>>,
    /// The hard constraints, in order.
    pub hard: Vec<Hard<'a>>,
    /// The number of pods like this one that wait, itself included.
    pub waiting: usize,
    /// The pods of the namespace, grouped; `None` if no constraint counts any.
    pub pods: Option<PodGroups<'a>>,
}

/// A node and the verdict on it.
#[derive(Clone)]
pub struct JudgedNode<'a> {
    /// The node.
    pub slot: Slot,
    /// The node's name.
    pub name: &'a str,
    /// The node's labels and taints.
    pub node: NodeRef<'a>,
    /// The reason why the node is not feasible. If [`Self::lacks_more`], this has only the first of
    /// the resources that the node has too little of.
    pub refusal: Option<NodeRefusal>,
    /// True if the node has too little of several resources.
    lacks_more: bool,
    /// The check other than spread that the node fails, even if the caller wants only the verdict
    /// on spread.
    pub check: Option<Reason>,
}

/// A hard constraint, with the numbers of all its domains.
pub struct Hard<'a> {
    /// The constraint's position among the hard constraints.
    at: usize,
    /// The numbers.
    pub report: Report<'a>,
    /// The rule that decides if a domain takes the pod.
    pub rule: SkewRule,
    by_value: HashMap<&'a str, DomainReport<'a>>,
}

impl<'a> Case<'a> {
    /// The case of a question, for the nodes `slots`. `filter` has to be of the same question,
    /// constraints, checks and read view.
    pub fn of(
        question: &'a Question,
        constraints: &'a Constraints,
        checks: NodeChecks,
        filter: &'a Filter<'a>,
        slots: &[Slot],
        read_view: &ReadView<'a>,
    ) -> Result<Self, Stopped> {
        let hard = (0..).zip(filter.reports(usize::MAX)?);
        let hard = hard.map(|(at, report)| Hard {
            at,
            rule: SkewRule::of(report.active, report.global_minimum),
            by_value: report.domains.iter().map(|d| (d.tally.value, *d)).collect(),
            report,
        });
        let mut case = Self {
            question,
            constraints,
            checks,
            filter,
            nodes: Vec::new(),
            checked: Checked::of(&question.checks, read_view)?,
            read_view: *read_view,
            hard: hard.collect(),
            waiting: 1,
            pods: match constraints.all.is_empty() {
                true => None,
                false => Some(read_view.pod_groups()?),
            },
        };
        let nodes = slots.iter().map(|slot| case.judge(*slot));
        case.nodes = nodes
            .filter_map(Result::transpose)
            .collect::<Result<_, _>>()?;
        Ok(case)
    }

    /// Judges a node; `None` if the node does not exist.
    fn judge(&self, slot: Slot) -> Result<Option<JudgedNode<'a>>, Stopped> {
        let Some(node) = self.read_view.nodes.get(slot) else {
            return Ok(None);
        };
        self.step_room()?;
        let mut refusal = self.filter.judge(slot)?.err();
        // There may be a reason for each resource of the pod, so they are not kept for each node.
        let by_room = refusal.as_mut().filter(|refusal| refusal.is_of_room());
        let more = by_room.map_or_else(Vec::new, |refusal| std::mem::take(&mut refusal.more));
        let check = match (self.checks, &refusal) {
            (NodeChecks::SpreadOnly, _) => {
                let with = self.filter.nominated.on(slot);
                self.checked.judge(slot, with).err().map(|r| r.reason)
            }
            // If no constraint refused the node, the refusal is by a check.
            (NodeChecks::All, Some(refusal)) if refusal.constraint_index.is_none() => {
                Some(refusal.reason.clone())
            }
            (NodeChecks::All, None) => None,
            (NodeChecks::All, Some(_)) => {
                let terms = self.filter.pod_terms.as_ref();
                let by_pods = terms.and_then(|terms| terms.refusal(slot, None));
                by_pods.or_else(|| self.filter.features_refusal(slot))
            }
        };
        Ok(Some(JudgedNode {
            slot,
            name: self.read_view.nodes.name(slot),
            node,
            refusal,
            lacks_more: !more.is_empty(),
            check,
        }))
    }

    /// Counts the checking of a node's room.
    fn step_room(&self) -> Result<(), Stopped> {
        let steps = 1 + self.checked.steps_per_node();
        self.read_view.deadline.step(steps)
    }

    /// The refusal of a node with all reasons; `None` if the node is feasible.
    pub fn whole_refusal<'n>(
        &self,
        node: &'n JudgedNode<'_>,
    ) -> Result<Option<Cow<'n, NodeRefusal>>, Stopped> {
        Ok(match &node.refusal {
            Some(_) if node.lacks_more => self.filter.judge(node.slot)?.err().map(Cow::Owned),
            refusal => refusal.as_ref().map(Cow::Borrowed),
        })
    }

    /// The terms by which running pods keep the pod away.
    pub fn keeping_away(&self) -> Result<impl Iterator<Item = &'a HeldTerm> + use<'a>, Stopped> {
        let (labels, namespace) = (self.labels(), &self.question.namespace);
        self.read_view.keeping_away(labels, namespace)
    }

    /// The labels of the pod.
    pub fn labels(&self) -> &'a BTreeMap<String, String> {
        &self.question.subject.labels
    }

    /// The constraints, with one of them changed.
    pub fn revised(
        &self,
        active: &Active,
        revise: impl FnOnce(&mut Constraint, &mut Selector),
    ) -> Constraints {
        let subject = &self.question.subject;
        self.constraints.revised(active.index, subject, revise)
    }

    /// The hard constraints but one.
    pub fn other_hard(&self, but: &Hard<'_>) -> impl Iterator<Item = &Hard<'a>> {
        let others = self.hard.iter();
        others.filter(move |other| other.at != but.at)
    }

    /// The hard constraint with this index; `None` if the constraint is soft.
    pub fn hard_at(&self, index: usize) -> Option<&Hard<'a>> {
        let mut hard = self.hard.iter();
        hard.find(|hard| hard.active().index == index)
    }

    /// The feasible nodes.
    pub fn feasible(&self) -> impl Iterator<Item = &JudgedNode<'a>> {
        self.nodes.iter().filter(|node| node.refusal.is_none())
    }

    /// Returns the number of feasible nodes.
    pub fn feasible_count(&self) -> usize {
        self.feasible().count()
    }

    /// Returns whether no node is feasible.
    pub fn is_stuck(&self) -> bool {
        self.feasible().next().is_none()
    }

    /// Returns whether a node passes the checks other than spread, if the caller wants them.
    pub fn passes_checks(&self, node: &JudgedNode<'_>) -> bool {
        self.checks == NodeChecks::SpreadOnly || node.check.is_none()
    }

    /// The nodes that the check of room refuses, each with its shortages.
    pub fn shortages(
        &self,
    ) -> impl Iterator<Item = Result<(&JudgedNode<'a>, Vec<Shortage>), Stopped>> {
        let lacks_room = |node: &&JudgedNode<'_>| {
            let refusal = node.refusal.as_ref();
            refusal.is_some_and(NodeRefusal::is_of_room)
        };
        let nodes = self.nodes.iter().filter(lacks_room);
        nodes.map(|node| {
            self.step_room()?;
            let with = self.nominated_on(node);
            Ok((node, self.checked.shortages(node.slot, with)))
        })
    }

    /// The cordoned nodes that would take the pod without the cordon.
    pub fn freed_by_uncordoning(&self) -> Result<Vec<&JudgedNode<'a>>, Stopped> {
        let is_cordoned = |node: &JudgedNode<'_>| {
            self.checks == NodeChecks::All && node.check == Some(Reason::Unschedulable)
        };
        self.freed(is_cordoned, |node| {
            let with = self.nominated_on(node);
            self.checked.passes_uncordoned(node.slot, with)
        })
    }

    /// The nodes of a kind that would pass the checks, and that the constraints admit.
    fn freed(
        &self,
        is_of_kind: impl Fn(&JudgedNode<'a>) -> bool,
        would_pass: impl Fn(&JudgedNode<'a>) -> bool,
    ) -> Result<Vec<&JudgedNode<'a>>, Stopped> {
        let mut freed = Vec::new();
        for node in self.nodes.iter().filter(|node| is_of_kind(node)) {
            self.step_room()?;
            if would_pass(node) && self.admits_beside_checks(node) {
                freed.push(node);
            }
        }
        Ok(freed)
    }

    /// The workload of the pod: the kind and name of its controller; `None` without one.
    pub fn owner(&self) -> Option<(&'a str, &'a str)> {
        let (kind, name) = (&*self.question.owner_kind, &*self.question.owner_name);
        (!kind.is_empty()).then_some((kind, name))
    }

    /// What keeps the pod off a node with taints; `None` if the pod tolerates them.
    pub fn tainted(&self, node: &JudgedNode<'a>) -> Option<TaintedNode> {
        TaintedNode::of(&self.question.subject.tolerations, node.node.taints())
    }

    /// Returns how many of the waiting pods find a node by other constraints, if one after the other
    /// is placed. The node `emptied` is taken to have room for all.
    pub fn placed(
        &self,
        constraints: &Constraints,
        emptied: Option<&str>,
    ) -> Result<usize, Stopped> {
        let options = PlaceOptions {
            replicas: self.waiting,
            emptied: emptied.map(str::to_owned),
            ..PlaceOptions::default()
        };
        let (question, checks) = (self.question, self.checks);
        let read_view = &self.read_view;
        let mut placer = Placer::of(question, constraints, checks, &options, read_view)?;
        Ok(placer
            .run_along(&[], false, read_view.deadline)?
            .picks
            .len())
    }

    /// The nodes where the pod would find room if pods of a lower priority went, as kube-scheduler
    /// makes them go.
    pub fn freed_by_preemption(&self) -> Result<Vec<&JudgedNode<'a>>, Stopped> {
        let incoming = &self.question.incoming;
        let preempts = !incoming.never_preempts && !incoming.has_unknown_priority;
        let is_of_room = |it: &NodeRefusal| it.is_of_room() || it.reason == Reason::HostPorts;
        let is_full = |node: &JudgedNode<'_>| {
            let refusal = node.refusal.as_ref();
            preempts && refusal.is_some_and(|it| it.is_resolvable && is_of_room(it))
        };
        let priority = incoming.priority;
        self.freed(is_full, |node| {
            self.checked.fits_without_lower(node.slot, priority)
        })
    }

    /// The names of the features that the pod needs, for a sentence.
    pub fn needed_features(&self) -> String {
        let names = self.checked.features.names();
        joined(&names.map(str::to_owned).collect::<Vec<_>>())
    }

    /// Returns the used fields that affect where the pod can run, but that were not checked.
    pub fn unchecked(&self) -> Result<Vec<String>, Stopped> {
        self.question.unchecked(self.checks, &self.read_view)
    }

    /// The nominated pods that count on a node, if any.
    pub fn nominated_on(&self, node: &JudgedNode<'_>) -> Option<&'a NominatedOn<'a>> {
        self.filter.nominated.on(node.slot)
    }

    /// Returns whether a hard constraint alone admits the pod on a node.
    pub fn admits(&self, hard: &Hard<'_>, node: &JudgedNode<'_>) -> bool {
        self.filter.constraint_admits(hard.at, node.slot)
    }

    /// Returns whether all hard constraints, affinity between pods and declared features admit the
    /// pod on a node.
    pub fn admits_beside_checks(&self, node: &JudgedNode<'_>) -> bool {
        let mut hard = self.hard.iter();
        hard.all(|hard| self.admits(hard, node)) && self.filter.last_checks_admit(node.slot)
    }

    /// Counts a look at all nodes.
    pub fn step(&self) -> Result<(), Stopped> {
        let deadline = self.read_view.deadline;
        deadline.step(self.nodes.len() + self.read_view.nodes.len())
    }

    /// The nodes that pass the checks and all hard constraints except perhaps `but`.
    pub fn admitted_but_for<'c>(
        &'c self,
        but: &Hard<'a>,
    ) -> Result<impl Iterator<Item = &'c JudgedNode<'a>>, Stopped> {
        let steps = self.nodes.len().saturating_mul(self.hard.len());
        self.read_view.deadline.step(steps)?;
        Ok(self.nodes.iter().filter(move |node| {
            let mut others = self.other_hard(but);
            self.passes_checks(node) && others.all(|hard| self.admits(hard, node))
        }))
    }

    /// Decides again with other constraints. Returns the nodes that are then feasible.
    pub fn admitted_with(
        &self,
        constraints: &Constraints,
    ) -> Result<Vec<&JudgedNode<'a>>, Stopped> {
        let revised = Filter::of(self.question, constraints, self.checks, &self.read_view)?;
        let slots: Vec<Slot> = self.nodes.iter().map(|node| node.slot).collect();
        let passing = revised.judge_all(&slots)?.pass;
        Ok(passing.ones().map(|at| &self.nodes[at]).collect())
    }

    /// The values of a topology key among the nodes that pass the checks other than spread.
    pub fn usable_values(&self, key: &str) -> BTreeSet<&'a str> {
        let usable = self.nodes.iter().filter(|node| node.check.is_none());
        usable
            .filter_map(|node| node.node.label_text(key))
            .collect()
    }

    /// The scores of the feasible nodes.
    pub fn scores(&self) -> Result<Scores<'a>, Stopped> {
        let feasible: Vec<Slot> = self.feasible().map(|node| node.slot).collect();
        Scores::of(self.constraints, &feasible, &self.read_view)
    }

    /// The reports of the soft constraints. Without nodes there are no scores,
    /// and the reports have no domains.
    pub fn soft_reports<'s>(
        &'s self,
        scores: &'s Scores<'_>,
        max_domains: usize,
    ) -> Vec<Report<'s>> {
        if scores.skipped {
            let empty = |active| Report::of(active, 0, [], GlobalMinimum::default());
            return self.constraints.soft().map(empty).collect();
        }
        scores.reports(max_domains)
    }
}

impl<'a> Hard<'a> {
    /// The constraint.
    pub fn active(&self) -> &'a Active {
        self.report.active
    }

    /// The constraint's topology key.
    pub fn key(&self) -> &'a str {
        &self.active().constraint.topology_key
    }

    /// The number of matching pods in the domain of a value; 0 if the value is no domain.
    pub fn count(&self, value: &str) -> i64 {
        let domain = self.by_value.get(value);
        domain.map_or(0, |domain| domain.tally.matching_pods)
    }

    /// Returns whether the domain of a value takes the pod.
    pub fn takes(&self, value: &str) -> bool {
        self.rule.admits(self.count(value))
    }

    /// Returns the name of the constraint in a sentence.
    pub fn title(&self) -> String {
        title(self.active())
    }
}

/// All nodes of a snapshot, judged or not.
pub fn all_nodes<'a>(read_view: &ReadView<'a>) -> impl Iterator<Item = (Slot, NodeRef<'a>)> {
    let nodes = read_view.nodes;
    let slots = nodes.order().iter();
    slots.filter_map(|slot| Some((*slot, nodes.get(*slot)?)))
}

/// The domains of these nodes, listed for a sentence: the topology key and its values.
pub fn values<'n>(nodes: impl IntoIterator<Item = &'n JudgedNode<'n>>, key: &str) -> String {
    format!("{key}={}", value_list(nodes, key))
}

/// The values of a topology key among these nodes, listed for a sentence that names the key.
pub fn value_list<'n>(nodes: impl IntoIterator<Item = &'n JudgedNode<'n>>, key: &str) -> String {
    let nodes = nodes.into_iter();
    let values = nodes.filter_map(|judged| judged.node.label_text(key));
    let values: BTreeSet<&str> = values.collect();
    among(&values.into_iter().collect::<Vec<_>>())
}
