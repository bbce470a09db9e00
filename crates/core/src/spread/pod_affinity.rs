//! Affinity between pods: judges nodes by the required terms of the incoming pod and of the pods
//! that run (`docs/semantics.md`, "Affinity between pods").

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::filter::NominatedOn;
use super::question::Question;
use super::verdict::{Affected, Judgement, NODES_PER_STEP, Reason};
use crate::matching::{PodAffinity, PodTerm, Selector};
use crate::snapshot::nominated::NominatedPod;
use crate::snapshot::topology::Topology;
use crate::snapshot::{
    DomainId, DomainKey, PartitionInUse, Query, ReadView, Slot, Stopped, bits, partition,
};

/// The labels of a namespace without an object.
static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

/// The counts of terms in each domain of their topology key.
#[derive(Debug, Clone)]
struct TermCounts {
    topology: Arc<Topology>,
    /// The counts, by domain. Domains beyond the end have 0.
    counts: Vec<u32>,
}

/// The terms that apply to a question, counted and ready to judge nodes.
#[derive(Clone)]
pub struct PodTerms<'a> {
    question: &'a Question,
    read_view: ReadView<'a>,
    /// For each term of the pod's affinity, by its domains: the pods that match all of the terms.
    near: Vec<TermCounts>,
    /// For each term of the pod's anti-affinity, by its domains: the pods that match the term.
    apart: Vec<TermCounts>,
    /// By topology key, the pods whose anti-affinity keeps the pod away.
    kept_away: Vec<TermCounts>,
    /// True if the pod may be the first of its group: the pod matches all terms of its affinity,
    /// and no pod on a node with one of the topology keys matches them.
    is_first: bool,
}

impl TermCounts {
    /// The counts if no domain has a pod.
    fn none(in_use: &PartitionInUse) -> Self {
        Self {
            topology: Arc::clone(&in_use.topology),
            counts: Vec::new(),
        }
    }

    fn add(&mut self, slot: Slot, pods: u32) {
        let domain = self.topology.domain_of(slot);
        if domain.is_some() {
            if self.counts.len() <= domain.index() {
                self.counts.resize(domain.index() + 1, 0);
            }
            let count = &mut self.counts[domain.index()];
            *count = count.saturating_add(pods);
        }
    }

    /// Adds the pods of a namespace that match a selector, from its view.
    fn add_counted(
        &mut self,
        selector: &Selector,
        partition: &partition::Key,
        read_view: &ReadView<'_>,
    ) -> Result<(), Stopped> {
        let counted = read_view.count(Query {
            selector,
            partition,
        })?;
        if Arc::ptr_eq(&counted.in_use().topology, &self.topology) {
            let counts = counted.counts();
            if self.counts.len() < counts.len() {
                self.counts.resize(counts.len(), 0);
            }
            for (sum, pods) in self.counts.iter_mut().zip(counts) {
                *sum = sum.saturating_add(*pods);
            }
        } else {
            // If a partition was dropped and built again, its domains may have other numbers.
            for counted in read_view.counted(selector) {
                let (slot, pods) = counted?;
                self.add(slot, pods);
            }
        }
        for terminating in read_view.terminating(selector) {
            let (slot, pods) = terminating?;
            self.add(slot, pods);
        }
        Ok(())
    }

    fn has_key(&self, slot: Slot) -> bool {
        self.topology.domain_of(slot).is_some()
    }

    /// Returns whether a node has pods in its domain.
    fn has_pods(&self, slot: Slot) -> bool {
        let domain = self.topology.domain_of(slot);
        let pods = || self.counts.get(domain.index());
        domain.is_some() && pods().is_some_and(|pods| *pods > 0)
    }

    /// The values of the domains that have pods.
    fn values<'v>(&'v self, read_view: &ReadView<'v>) -> BTreeSet<&'v str> {
        let ids = (0..).map(DomainId::at).zip(&self.counts);
        let with_pods = ids.filter(|(_, pods)| **pods > 0);
        with_pods
            .map(|(id, _)| self.topology.value(id, read_view.nodes))
            .collect()
    }
}

impl<'a> PodTerms<'a> {
    /// Counts the terms that apply to a question; `None` if the pod has no terms and no pod on a
    /// node keeps it away. kube-scheduler then skips its plugin, so the terms of nominated pods
    /// have no effect either.
    pub fn of(question: &'a Question, read_view: &ReadView<'a>) -> Result<Option<Self>, Stopped> {
        let rules = &question.affinity;
        let kept_away = kept_away(question, read_view)?;
        if rules.is_empty() && kept_away.is_empty() {
            return Ok(None);
        }
        let (near, apart) = counted_by_own(question, read_view)?;
        let is_alone = near
            .iter()
            .all(|term| term.counts.iter().all(|pods| *pods == 0));
        Ok(Some(Self {
            question,
            read_view: *read_view,
            is_first: is_alone && matches_itself(&rules.near, question, read_view),
            near,
            apart,
            kept_away,
        }))
    }

    /// Counts one more pod like that of the question on a node, and notes the nodes that its terms
    /// may refuse from now on. None that is refused passes later: affinity requires a pod in the
    /// node's domains already, or else that the pod is the first of its group.
    pub(super) fn add(&mut self, slot: Slot, affected: &mut Affected) {
        let rules = self.rules();
        if rules.near.iter().all(|term| self.matches_own(term)) {
            self.near.iter_mut().for_each(|counts| counts.add(slot, 1));
        }
        if self.is_first && self.near.iter().any(|counts| counts.has_pods(slot)) {
            self.is_first = false;
            affected.all = true;
        }
        for (at, term) in rules.apart.iter().enumerate() {
            let counts = match (
                self.matches_own(term),
                self.keeps_away(term, &self.question.namespace),
            ) {
                (true, _) => &mut self.apart[at],
                // The term does not cover the pod's own namespace, if this has no object. But as a
                // term of a running pod it covers the namespace.
                (false, true) => {
                    let topology = Arc::clone(&self.apart[at].topology);
                    let mut known = self.kept_away.iter();
                    let known = known.position(|it| Arc::ptr_eq(&it.topology, &topology));
                    if known.is_none() {
                        self.kept_away.push(TermCounts {
                            topology,
                            counts: Vec::new(),
                        });
                    }
                    let last = self.kept_away.len() - 1;
                    &mut self.kept_away[known.unwrap_or(last)]
                }
                (false, false) => continue,
            };
            if counts.has_key(slot) && !counts.has_pods(slot) {
                let domain = counts.topology.domain_of(slot);
                affected
                    .domains
                    .push((Arc::clone(&counts.topology), domain));
            }
            counts.add(slot, 1);
        }
    }

    /// Returns the number of terms.
    pub(super) fn len(&self) -> usize {
        self.near.len() + self.apart.len() + self.kept_away.len()
    }

    /// The pod's own terms.
    fn rules(&self) -> &'a PodAffinity {
        &self.question.affinity
    }

    /// Returns whether the pod matches its own term.
    fn matches_own(&self, term: &PodTerm) -> bool {
        matches_itself(std::slice::from_ref(term), self.question, &self.read_view)
    }

    /// Returns whether a term of a pod that runs in a namespace keeps this pod away.
    fn keeps_away(&self, term: &PodTerm, namespace: &str) -> bool {
        let own = &*self.question.namespace;
        let labels = self.read_view.namespace_labels(own).unwrap_or(&NO_LABELS);
        term.is_about(namespace, own, Some(labels))
            && term.selector.matches_labels(&self.question.subject.labels)
    }

    /// Returns whether a nominated pod matches all of these terms of the pod.
    fn are_about(&self, terms: &[PodTerm], pod: &NominatedPod) -> bool {
        let own = &*self.question.namespace;
        terms.iter().all(|term| {
            is_about(term, own, &pod.namespace, &self.read_view)
                && term.selector.matches_labels(&pod.labels)
        })
    }

    /// The terms of the pod's affinity, each with the domains that have a pod that matches all
    /// terms.
    pub fn near_domains(&self) -> impl Iterator<Item = (&'a PodTerm, BTreeSet<&str>)> {
        let counted = self.rules().near.iter().zip(&self.near);
        counted.map(|(term, counted)| (term, counted.values(&self.read_view)))
    }

    /// The terms of the pod's anti-affinity, each with the domains that have a pod that matches the
    /// term.
    pub fn apart_domains(&self) -> impl Iterator<Item = (&'a PodTerm, BTreeSet<&str>)> {
        let counted = self.rules().apart.iter().zip(&self.apart);
        counted.map(|(term, counted)| (term, counted.values(&self.read_view)))
    }

    /// The reason why an existing node is refused, as if nominated pods were on it.
    pub fn refusal(&self, slot: Slot, with: Option<&NominatedOn<'_>>) -> Option<Reason> {
        let nominated = || with.into_iter().flat_map(NominatedOn::pods);
        let rules = self.rules();
        let has_key = |term: &TermCounts| term.has_key(slot);
        let has_pods = |term: &TermCounts| term.has_pods(slot);
        let joins = || nominated().any(|pod| self.are_about(&rules.near, pod));
        let is_near = self.near.is_empty()
            || self.near.iter().all(has_pods)
            || self.near.iter().all(has_key) && (self.is_first || joins());
        match is_near {
            true => self.refusal_by_pods(slot, with),
            false => Some(Reason::PodAffinity),
        }
    }

    /// The reason why an existing node is refused because of anti-affinity. The node has to meet
    /// the pod's affinity.
    fn refusal_by_pods(&self, slot: Slot, with: Option<&NominatedOn<'_>>) -> Option<Reason> {
        let nominated = || with.into_iter().flat_map(NominatedOn::pods);
        let meets = |(term, counted): (&PodTerm, &TermCounts)| {
            let term = std::slice::from_ref(term);
            let joined = || nominated().any(|pod| self.are_about(term, pod));
            counted.has_pods(slot) || counted.has_key(slot) && joined()
        };
        if self.rules().apart.iter().zip(&self.apart).any(meets) {
            return Some(Reason::PodAntiAffinity);
        }
        let comes_first = |pod: &NominatedPod| {
            let terms = pod.keeps_away.iter().flat_map(|terms| &**terms);
            let mut against = terms.filter(|term| self.keeps_away(term, &pod.namespace));
            against.any(|term| self.has_label(slot, &term.topology_key))
        };
        let is_kept = self.kept_away.iter().any(|term| term.has_pods(slot));
        let is_kept = is_kept || nominated().any(comes_first);
        is_kept.then_some(Reason::ExistingAntiAffinity)
    }

    fn has_label(&self, slot: Slot, key: &Arc<str>) -> bool {
        let nodes = self.read_view.nodes;
        let key = nodes.symbols().find(key);
        let node = nodes.get(slot);
        node.zip(key)
            .is_some_and(|(node, key)| node.label(key).is_some())
    }

    /// Judges existing nodes at once, as if no pod were nominated.
    pub fn narrow(&self, slots: &[Slot], judged: &mut Judgement) -> Result<(), Stopped> {
        let (deadline, steps) = (self.read_view.deadline, 1 + slots.len() / NODES_PER_STEP);
        for term in &self.near {
            deadline.step(steps)?;
            let admits = |slot: &Slot| match self.is_first {
                true => term.has_key(*slot),
                false => term.has_pods(*slot),
            };
            judged.narrow(Reason::PodAffinity, &bits(slots, admits));
        }
        let all = [
            (Reason::PodAntiAffinity, &self.apart),
            (Reason::ExistingAntiAffinity, &self.kept_away),
        ];
        for (reason, terms) in all {
            for term in terms {
                deadline.step(steps)?;
                let without = bits(slots, |slot| !term.has_pods(*slot));
                judged.narrow(reason.clone(), &without);
            }
        }
        Ok(())
    }
}

/// Returns whether a term of the incoming pod, whose namespace is `own`, covers pods of another
/// namespace.
fn is_about(term: &PodTerm, own: &str, namespace: &str, read_view: &ReadView<'_>) -> bool {
    let labels = read_view.namespace_labels(namespace);
    term.is_about_all(read_view.defaults.rules()) || term.is_about(own, namespace, labels)
}

/// Returns whether the pod of a question matches all of these terms of its own.
fn matches_itself(terms: &[PodTerm], question: &Question, read_view: &ReadView<'_>) -> bool {
    let own = &*question.namespace;
    terms.iter().all(|term| {
        is_about(term, own, own, read_view)
            && term.selector.matches_labels(&question.subject.labels)
    })
}

/// Counts pods by domain: for each term of a pod's affinity those that match all of its terms, for each
/// term of its anti-affinity those that match the term. The namespaces are walked once, and nothing of
/// one outlasts it.
fn counted_by_own(
    question: &Question,
    read_view: &ReadView<'_>,
) -> Result<(Vec<TermCounts>, Vec<TermCounts>), Stopped> {
    let (own, PodAffinity { near, apart }) = (&*question.namespace, &question.affinity);
    let (mut near_counts, mut apart_counts) =
        (none_of(near, read_view)?, none_of(apart, read_view)?);
    let all_near = Selector::all_of(near.iter().map(|term| &term.selector));
    let terms = near.iter().chain(apart);
    let steps: usize = terms.map(|it| 1 + it.namespace_selector.len()).sum();
    let others = question.reads_others().then(|| read_view.others());
    let others = others.into_iter().flatten();
    for (name, namespace) in std::iter::once((own, *read_view)).chain(others) {
        read_view.deadline.step(steps)?;
        let covers = |term: &PodTerm| is_about(term, own, name, &namespace);
        // Only the pod's own namespace keeps views: of many namespaces, these would take more memory
        // than the pods.
        let add = match name == own {
            true => add_from_views,
            false => add_from_sets,
        };
        if near.iter().all(covers) {
            add(near, &all_near, &mut near_counts, &namespace)?;
        }
        let terms = apart.iter().zip(&mut apart_counts);
        for (term, counts) in terms.filter(|(term, _)| covers(term)) {
            let (terms, counts) = (std::slice::from_ref(term), std::slice::from_mut(counts));
            add(terms, &term.selector, counts, &namespace)?;
        }
    }
    Ok((near_counts, apart_counts))
}

/// The counts of terms, without any pod.
fn none_of(terms: &[PodTerm], read_view: &ReadView<'_>) -> Result<Vec<TermCounts>, Stopped> {
    let in_use = terms
        .iter()
        .map(|term| read_view.in_use(&everywhere(&term.topology_key)));
    in_use
        .map(|in_use| Ok(TermCounts::none(&in_use?)))
        .collect()
}

/// Adds the pods of a namespace that match a selector to the counts of some terms, from views.
fn add_from_views(
    terms: &[PodTerm],
    selector: &Selector,
    counts: &mut [TermCounts],
    namespace: &ReadView<'_>,
) -> Result<(), Stopped> {
    for (term, counts) in terms.iter().zip(counts) {
        counts.add_counted(selector, &everywhere(&term.topology_key), namespace)?;
    }
    Ok(())
}

/// As [`add_from_views`], from the label sets of the namespace.
fn add_from_sets(
    terms: &[PodTerm],
    selector: &Selector,
    counts: &mut [TermCounts],
    namespace: &ReadView<'_>,
) -> Result<(), Stopped> {
    if terms.is_empty() {
        return Ok(());
    }
    let all = namespace.counted(selector);
    for counted in all.chain(namespace.terminating(selector)) {
        let (slot, pods) = counted?;
        namespace.deadline.step(terms.len())?;
        for counts in &mut *counts {
            counts.add(slot, pods);
        }
    }
    Ok(())
}

/// By topology key, the pods whose anti-affinity keeps the pod of a question away from a domain.
fn kept_away<'a>(
    question: &'a Question,
    read_view: &ReadView<'a>,
) -> Result<Vec<TermCounts>, Stopped> {
    let mut by_key: BTreeMap<&str, TermCounts> = BTreeMap::new();
    for held in read_view.keeping_away(&question.subject.labels, &question.namespace)? {
        read_view.deadline.step(held.node_count())?;
        let key = &held.term().topology_key;
        let counted = match by_key.entry(key) {
            Entry::Occupied(counted) => counted.into_mut(),
            Entry::Vacant(place) => {
                place.insert(TermCounts::none(&read_view.in_use(&everywhere(key))?))
            }
        };
        for (slot, pods) in held.counts() {
            counted.add(slot, pods);
        }
    }
    let counted = by_key.into_values();
    Ok(counted.filter(|term| !term.counts.is_empty()).collect())
}

/// All nodes that have a label, by its value.
fn everywhere(topology_key: &Arc<str>) -> partition::Key {
    partition::Key::everywhere(DomainKey::Label(Arc::clone(topology_key)))
}
