//! Filter: the nodes that satisfy the hard constraints (`docs/semantics.md`, "Filter"). Nodes with
//! nominated pods that count for the question are judged one by one, as if these pods were on them
//! (`docs/semantics.md`, "Nominated pods").

use std::collections::BTreeMap;
use std::sync::Arc;

use super::checks::Checked;
use super::hard::{HardCount, Report};
use super::pod_affinity::PodTerms;
use super::question::{Active, Constraints, NodeChecks, Question};
use super::verdict::{Affected, Judgement, NODES_PER_STEP, NodeRefusal, Reason, Tallies};
use super::volumes::Volumes;
use crate::proto::v1;
use crate::snapshot::nominated::NominatedPod;
use crate::snapshot::partition::Partition;
use crate::snapshot::{ReadView, Slot, Stopped, bits};

/// The checks of a node before its room: by the pod's own place, the node's cordon, its taints and its
/// labels.
const CHECKS: usize = 4;

/// The parts of a verdict, in the order in which they decide.
#[derive(Clone, Copy)]
enum VerdictPart {
    /// The checks before the hard constraints, with storage.
    Checks,
    /// The hard constraints.
    Spread,
    /// Affinity between pods, and declared features.
    Last,
}

impl VerdictPart {
    const ALL: &[Self] = &[Self::Checks, Self::Spread, Self::Last];
}

/// The hard constraints of a question, counted and ready to judge nodes.
#[derive(Clone)]
pub struct Filter<'a> {
    hard: Vec<HardCount<'a>>,
    /// The checks other than spread.
    checks: Option<Checked<'a>>,
    /// The nominated pods that count on nodes.
    pub nominated: Nominated<'a>,
    /// The storage of the pod; `None` if no rule depends on storage.
    pub volumes: Option<Volumes<'a>>,
    /// The terms of affinity between pods that matter; `None` if no term does.
    pub pod_terms: Option<PodTerms<'a>>,
    read_view: ReadView<'a>,
    /// The number of steps in which a node is judged, besides those for storage.
    steps_per_node: usize,
}

impl<'a> Filter<'a> {
    /// Makes the counts for the hard constraints of a question.
    pub fn of(
        question: &'a Question,
        constraints: &'a Constraints,
        checks: NodeChecks,
        read_view: &ReadView<'a>,
    ) -> Result<Self, Stopped> {
        let counted = |active| {
            read_view
                .count(Active::query(active))
                .map(|it| HardCount::of(active, it))
        };
        let hard: Vec<HardCount<'_>> = constraints.hard().map(counted).collect::<Result<_, _>>()?;
        let (checks, volumes, pod_terms) = match checks {
            NodeChecks::SpreadOnly => (None, None, None),
            NodeChecks::All => (
                Some(Checked::of(&question.checks, read_view)?),
                question.volumes(read_view)?,
                PodTerms::of(question, read_view)?,
            ),
        };
        let terms = pod_terms.as_ref().map_or(0, PodTerms::len);
        let room = checks.as_ref().map_or(0, Checked::steps_per_node);
        Ok(Self {
            steps_per_node: CHECKS + hard.len() + terms + room,
            hard,
            checks,
            volumes,
            pod_terms,
            nominated: Nominated::of(&question.namespace, &question.incoming, read_view)?,
            read_view: *read_view,
        })
    }

    /// Counts one more pod like that of the question on a node, as if it had arrived there
    /// (kube-scheduler: `AddPod`). Returns the other nodes whose verdicts, but for those of the hard
    /// constraints, may change from passing to refused.
    pub fn add(&mut self, slot: Slot) -> Result<Affected, Stopped> {
        self.hard.iter_mut().for_each(|hard| hard.add(slot));
        if let Some(checks) = &mut self.checks {
            checks.add(slot);
        }
        let mut affected = Affected::default();
        if let Some(terms) = &mut self.pod_terms {
            terms.add(slot, &mut affected);
        }
        if let Some(volumes) = &mut self.volumes {
            volumes.add(slot, &mut affected)?;
        }
        Ok(affected)
    }

    /// Takes a node to have room for all pods.
    pub fn empty(&mut self, slot: Slot) {
        if let Some(checks) = &mut self.checks {
            checks.empty(slot);
        }
    }

    /// Judges an existing node, as if the pods nominated to it were on it. The first check,
    /// constraint or term that the node fails decides. Then judges again without the nominated pods
    /// if that can matter, as kube-scheduler does.
    ///
    /// # Errors
    /// The deadline has passed; inside, the refusal.
    pub fn judge(&self, slot: Slot) -> Result<Result<(), NodeRefusal>, Stopped> {
        self.judge_by(VerdictPart::ALL, slot)
    }

    /// As [`Self::judge`], by the checks before the hard constraints.
    ///
    /// # Errors
    /// As for [`Self::judge`].
    pub fn judge_before_spread(&self, slot: Slot) -> Result<Result<(), NodeRefusal>, Stopped> {
        self.judge_by(&[VerdictPart::Checks], slot)
    }

    /// As [`Self::judge`], without the hard constraints.
    ///
    /// # Errors
    /// As for [`Self::judge`].
    pub fn judge_besides_spread(&self, slot: Slot) -> Result<Result<(), NodeRefusal>, Stopped> {
        self.judge_by(&[VerdictPart::Checks, VerdictPart::Last], slot)
    }

    fn judge_by(
        &self,
        parts: &[VerdictPart],
        slot: Slot,
    ) -> Result<Result<(), NodeRefusal>, Stopped> {
        let Some(pods) = self.nominated.on(slot) else {
            return self.judge_with(parts, slot, None);
        };
        Ok(match self.judge_with(parts, slot, Some(pods))? {
            Err(refusal) => Err(NodeRefusal {
                nominated_pods: match self.judge_with(parts, slot, None)? {
                    Ok(()) => pods.count(),
                    Err(_) => 0,
                },
                ..refusal
            }),
            // Only affinity can pass because of a nominated pod, so the node must pass without
            // these pods too.
            Ok(()) if self.pod_terms.is_some() => self.judge_with(parts, slot, None)?,
            Ok(()) => Ok(()),
        })
    }

    fn judge_with(
        &self,
        parts: &[VerdictPart],
        slot: Slot,
        with: Option<&NominatedOn<'_>>,
    ) -> Result<Result<(), NodeRefusal>, Stopped> {
        let times = 1 + with.map_or(0, NominatedOn::count);
        let steps = self.steps_per_node.saturating_mul(times);
        self.read_view.deadline.step(steps)?;
        for part in parts {
            let judged = match part {
                VerdictPart::Checks => self.judge_checks(slot, with)?,
                VerdictPart::Spread => {
                    let mut hard = self.hard.iter();
                    hard.try_for_each(|hard| hard.judge(slot, with))
                }
                VerdictPart::Last => {
                    let refusal = self.last_refusal(slot, with);
                    refusal.map_or(Ok(()), |reason| Err(NodeRefusal::by_node(reason)))
                }
            };
            if judged.is_err() {
                return Ok(judged);
            }
        }
        Ok(Ok(()))
    }

    fn judge_checks(
        &self,
        slot: Slot,
        with: Option<&NominatedOn<'_>>,
    ) -> Result<Result<(), NodeRefusal>, Stopped> {
        if let Some(reason) = self.not_ready() {
            return Ok(Err(NodeRefusal::by_node(reason.clone())));
        }
        let checks = self.checks.as_ref();
        if let Err(refusal) = checks.map_or(Ok(()), |checks| checks.judge(slot, with)) {
            return Ok(Err(refusal));
        }
        match &self.volumes {
            Some(volumes) => volumes.judge(slot, with),
            None => Ok(Ok(())),
        }
    }

    /// The reason to refuse an existing node that does not declare a needed feature.
    pub fn features_refusal(&self, slot: Slot) -> Option<Reason> {
        let checks = self.checks.as_ref();
        let declares = checks.is_none_or(|checks| checks.declares_needed(slot));
        (!declares).then_some(Reason::DeclaredFeatures)
    }

    /// Returns whether affinity between pods and declared features alone admit the pod on an
    /// existing node.
    pub fn last_checks_admit(&self, slot: Slot) -> bool {
        let mut judged = [None, self.nominated.on(slot)].into_iter();
        judged.all(|with| self.last_refusal(slot, with).is_none())
    }

    fn last_refusal(&self, slot: Slot, with: Option<&NominatedOn<'_>>) -> Option<Reason> {
        let terms = self.pod_terms.as_ref();
        let refusal = terms.and_then(|terms| terms.refusal(slot, with));
        refusal.or_else(|| self.features_refusal(slot))
    }

    /// The reason in the pod's storage why no node can take the pod, unless an earlier check
    /// decides. This is a part of kube-scheduler's PreFilter.
    fn not_ready(&self) -> Option<&Reason> {
        let reason = self.volumes.as_ref()?.not_ready.as_ref()?;
        let checks = self.checks.as_ref();
        Some(reason).filter(|_| !checks.is_some_and(Checked::refuse_all))
    }

    /// The hard constraints, in order.
    pub fn hard(&self) -> &[HardCount<'a>] {
        &self.hard
    }

    /// Returns whether the hard constraint at index `at` alone admits the pod on an existing node.
    pub fn constraint_admits(&self, at: usize, slot: Slot) -> bool {
        let with = self.nominated.on(slot);
        self.hard[at].judge(slot, with).is_ok()
    }

    /// Returns how many more pods like this one an existing node has room for. `None` if it has room
    /// for any number, or room is not checked.
    pub fn fitting(&self, slot: Slot) -> Option<u32> {
        let with = self.nominated.on(slot);
        self.checks.as_ref()?.fitting(slot, with)
    }

    /// Judges existing nodes at once, as [`Self::judge`], but without the numbers of refusals. Nodes
    /// with nominated pods are judged one by one.
    pub fn judge_all(&self, slots: &[Slot]) -> Result<Judgement, Stopped> {
        let with_nominated = self.nominated.places(slots);
        let mut judged = Judgement::new(slots.len());
        judged.leave_out(&with_nominated);
        self.narrow(slots, &mut judged)?;
        for at in with_nominated {
            judged.note(at, self.judge(slots[at])?);
        }
        Ok(judged)
    }

    /// Judges existing nodes at once, as if no pod were nominated.
    fn narrow(&self, slots: &[Slot], judged: &mut Judgement) -> Result<(), Stopped> {
        let (nodes, deadline) = (self.read_view.nodes, self.read_view.deadline);
        if let Some(reason) = self.not_ready() {
            judged.narrow(reason.clone(), &bits(slots, |_| false));
            return Ok(());
        }
        if let Some(checks) = &self.checks {
            checks.narrow(slots, judged)?;
        }
        if let Some(volumes) = &self.volumes {
            judged.narrow_each(deadline, |at| volumes.judge(slots[at], None))?;
        }
        for hard in &self.hard {
            deadline.step(1 + slots.len() / NODES_PER_STEP)?;
            if hard.counted.in_use().topology.keyed() < nodes.len() {
                let keyed = hard.counted.keyed(slots);
                judged.narrow(Reason::MissingTopologyKey, &keyed);
            }
            judged.narrow(Reason::Skew, &hard.admitted(slots));
        }
        if let Some(terms) = &self.pod_terms {
            terms.narrow(slots, judged)?;
        }
        if let Some(checks) = &self.checks
            && !checks.features.is_empty()
        {
            let declare = bits(slots, |slot| checks.declares_needed(*slot));
            judged.narrow(Reason::DeclaredFeatures, &declare);
        }
        Ok(())
    }

    /// Returns whether every node passes.
    pub fn passes_all(&self) -> bool {
        let nodes = self.read_view.nodes.len();
        let passes = |checks: &Checked<'_>| !checks.look_at_nodes() && checks.passing() == nodes;
        let by_pods = self.pod_terms.is_some() || self.volumes.is_some();
        self.hard.is_empty() && !by_pods && self.checks.as_ref().is_none_or(passes)
    }

    /// Judges all nodes and only counts the verdicts. With at most one hard constraint, no affinity
    /// between pods, no nominated pod that counts, and no check that looks at each node, the cost
    /// does not depend on the number of all nodes, but on that of domains.
    pub fn tally_all(&self) -> Result<Tallies, Stopped> {
        let judge_all = || Ok(self.judge_all(self.read_view.nodes.order())?.tallies);
        let look_at_nodes = self.checks.as_ref().is_some_and(Checked::look_at_nodes);
        if self.hard.len() > 1
            || look_at_nodes
            || self.pod_terms.is_some()
            || self.volumes.is_some()
            || !self.nominated.on.is_empty()
        {
            return judge_all();
        }
        let nodes = self.read_view.nodes.len();
        let mut tallies = Tallies {
            judged: nodes,
            ..Tallies::default()
        };
        let mut passing = nodes;
        if let Some(checks) = &self.checks
            && checks.passing() < nodes
        {
            passing = checks.passing();
            for (reason, nodes) in checks.refusals()? {
                tallies.refuse(reason, nodes);
            }
        }
        tallies.feasible = passing;
        if let [hard] = &*self.hard {
            let (keyed, skewed) = match &self.checks {
                Some(checks) if passing < nodes => {
                    let in_use = checks.passing_by(&hard.active.partition.topology)?;
                    // If a partition was dropped and built again, its domains may have other
                    // numbers.
                    if !Arc::ptr_eq(&in_use.topology, &hard.counted.in_use().topology) {
                        return judge_all();
                    }
                    hard.tally(in_use.partition.nodes_in())
                }
                _ => hard.tally(hard.counted.in_use().topology.nodes_in()),
            };
            tallies.feasible = keyed - skewed;
            tallies.refuse(Reason::MissingTopologyKey, passing - keyed);
            tallies.refuse(Reason::Skew, skewed);
        }
        Ok(tallies)
    }

    /// The numbers behind each hard constraint.
    pub fn reports(&self, max_domains: usize) -> Result<Vec<Report<'_>>, Stopped> {
        let mut reports = Vec::with_capacity(self.hard.len());
        for hard in &self.hard {
            self.read_view.deadline.step(hard.counted.domain_count())?;
            reports.push(Report::counted(hard.active, &hard.counted, max_domains));
        }
        Ok(reports)
    }
}

/// The facts about the incoming pod that decide which nominated pods count for it.
#[derive(Debug, Clone, Default)]
pub struct Incoming {
    /// Name of the pod; empty while it has none.
    pub name: String,
    /// Uid of the pod; empty while the pod does not exist, or when unknown.
    pub uid: String,
    /// Priority of the pod.
    pub priority: i32,
    /// True if the pod evicts no pods of a lower priority.
    pub never_preempts: bool,
    /// True if the pod names a priority class and its priority is not known.
    pub has_unknown_priority: bool,
}

/// The nominated pods that count for a question.
#[derive(Clone, Default)]
pub struct Nominated<'a> {
    on: BTreeMap<Slot, NominatedOn<'a>>,
}

/// The nominated pods of one node. There is at least one.
#[derive(Clone, Default)]
pub struct NominatedOn<'a> {
    /// The pods in the namespace of the question. Constraints count only these.
    own: Vec<&'a NominatedPod>,
    /// The pods in other namespaces. They take room like the others.
    others: Vec<&'a NominatedPod>,
}

impl Incoming {
    /// The facts about a pod.
    pub fn of(metadata: &v1::ObjectMeta, spec: &v1::PodSpec) -> Self {
        Self {
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            priority: spec.priority.unwrap_or(0),
            never_preempts: spec.preemption_policy == "Never",
            has_unknown_priority: spec.priority.is_none() && !spec.priority_class_name.is_empty(),
        }
    }
}

impl<'a> Nominated<'a> {
    /// Returns the nominated pods that count for an incoming pod: those with at least its priority,
    /// except the pod itself.
    pub fn of(
        namespace: &str,
        incoming: &Incoming,
        read_view: &ReadView<'a>,
    ) -> Result<Self, Stopped> {
        let mut on: BTreeMap<Slot, NominatedOn<'a>> = BTreeMap::new();
        for (slot, pod) in read_view.nominated()? {
            let is_itself = pod.is(namespace, &incoming.name, &incoming.uid);
            if pod.priority < incoming.priority || is_itself {
                continue;
            }
            let here = on.entry(slot).or_default();
            match *pod.namespace == *namespace {
                true => here.own.push(pod),
                false => here.others.push(pod),
            }
        }
        Ok(Self { on })
    }

    /// Returns the nominated pods of a node; `None` without any.
    pub fn on(&self, slot: Slot) -> Option<&NominatedOn<'a>> {
        self.on.get(&slot)
    }

    /// Returns the positions in `slots` of the nodes with nominated pods.
    pub fn places(&self, slots: &[Slot]) -> Vec<usize> {
        if self.on.is_empty() {
            return Vec::new();
        }
        let places = slots.iter().enumerate();
        let places = places.filter(|(_, slot)| self.on(**slot).is_some());
        places.map(|(at, _)| at).collect()
    }
}

impl<'a> NominatedOn<'a> {
    /// All nominated pods.
    pub fn pods(&self) -> impl Iterator<Item = &'a NominatedPod> {
        self.own.iter().chain(&self.others).copied()
    }

    /// Returns the number of nominated pods of the node.
    pub fn count(&self) -> usize {
        self.own.len() + self.others.len()
    }

    /// Returns how many of the node's nominated pods a constraint counts, if the node is in its
    /// partition. As in kube-scheduler, an empty selector counts nominated pods, and terminating
    /// ones count. Neither is true of pods that are on a node.
    pub fn counted_by(&self, active: &Active, slot: Slot, partition: &Partition) -> u32 {
        if !partition.member(slot).is_some() {
            return 0;
        }
        let matches = |pod: &&&NominatedPod| active.selector.matches_labels(&pod.labels);
        u32::try_from(self.own.iter().filter(matches).count()).unwrap_or(u32::MAX)
    }
}
