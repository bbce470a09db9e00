//! The terms of affinity between pods, with counts that follow the picks.

use std::collections::HashMap;

use super::super::nominated::Nominated;
use super::super::pod_affinity::{PodTerms, TermCounts};
use super::super::verdict::Reason;
use crate::snapshot::{DomainId, ReadView, Slot};

/// The terms that apply to a pod, for some nodes. They keep no reference to the snapshot.
#[derive(Debug, Clone)]
pub struct TrackedPodTerms {
    near: Vec<TrackedTerm>,
    apart: Vec<TrackedTerm>,
    kept_away: Vec<TrackedTerm>,
    is_first: bool,
    /// The reasons why nodes are refused because of the pods nominated to them. Picks do not change
    /// these.
    by_nominated: HashMap<u32, Reason>,
    nodes: u32,
}

/// A term, with its counts.
#[derive(Debug, Clone)]
struct TrackedTerm {
    /// The counts, by domain.
    counts: Vec<u32>,
    /// The domain of each node.
    domains: Vec<DomainId>,
    /// The nodes of each domain.
    members: Vec<Vec<u32>>,
    /// True if the term counts the picks.
    counts_picks: bool,
}

impl TrackedTerm {
    fn of(counted: &TermCounts, nodes: &[Slot], counts_picks: bool) -> Self {
        let len = counted.topology.id_bound();
        let mut counts = counted.counts.clone();
        counts.resize(len.max(counts.len()), 0);
        let domains = nodes.iter().map(|slot| counted.topology.domain_of(*slot));
        let domains: Vec<DomainId> = domains.collect();
        let mut members = Vec::new();
        if counts_picks {
            members.resize_with(counts.len(), Vec::new);
            for (node, domain) in (0..).zip(&domains) {
                if domain.is_some() {
                    members[domain.index()].push(node);
                }
            }
        }
        Self {
            counts,
            domains,
            members,
            counts_picks,
        }
    }

    fn has_key(&self, node: u32) -> bool {
        self.domains[node as usize].is_some()
    }

    fn has_pods(&self, node: u32) -> bool {
        let domain = self.domains[node as usize];
        domain.is_some() && self.counts[domain.index()] > 0
    }

    /// Counts a pick on a node. Returns the nodes of the node's domain, if the pick is the first
    /// pod in the domain.
    fn pick(&mut self, node: u32) -> &[u32] {
        let domain = self.domains[node as usize];
        if !self.counts_picks || !domain.is_some() {
            return &[];
        }
        let count = &mut self.counts[domain.index()];
        *count += 1;
        match *count {
            1 => &self.members[domain.index()],
            _ => &[],
        }
    }
}

impl TrackedPodTerms {
    /// The terms that apply to a pod, for these nodes.
    pub fn of(
        terms: &PodTerms<'_>,
        nodes: &[Slot],
        nominated: &Nominated<'_>,
        read_view: &ReadView<'_>,
    ) -> Self {
        let rules = terms.rules();
        let joins = rules.near.iter().all(|term| terms.matches_own(term));
        let near = terms.near.iter();
        let apart = rules.apart.iter().zip(&terms.apart);
        let mut kept_away: Vec<TrackedTerm> = terms
            .kept_away
            .iter()
            .map(|counted| TrackedTerm::of(counted, nodes, false))
            .collect();
        // A term of the incoming pod may not cover the pod's own namespace, if this has no object.
        // But as a term of a running pod it covers the namespace, so a pick keeps the next pod
        // away.
        let one_sided = apart
            .clone()
            .filter(|(term, _)| terms.keeps_own_away(term) && !terms.matches_own(term));
        kept_away.extend(one_sided.map(|(_, counted)| {
            let none = TermCounts {
                topology: counted.topology.clone(),
                counts: Vec::new(),
            };
            TrackedTerm::of(&none, nodes, true)
        }));
        let places = nominated.places(nodes, read_view.nodes).into_iter();
        let by_nominated = places.filter_map(|at| {
            let on = nominated.on(nodes[at])?;
            let reason = terms.refusal_by_pods(nodes[at], Some(on))?;
            Some((u32::try_from(at).ok()?, reason))
        });
        Self {
            near: near
                .map(|counted| TrackedTerm::of(counted, nodes, joins))
                .collect(),
            apart: apart
                .map(|(term, counted)| TrackedTerm::of(counted, nodes, terms.matches_own(term)))
                .collect(),
            kept_away,
            is_first: terms.is_first,
            by_nominated: by_nominated.collect(),
            nodes: u32::try_from(nodes.len()).unwrap_or(u32::MAX),
        }
    }

    /// The reason why a node takes no pod at present.
    pub fn refusal(&self, node: u32) -> Option<Reason> {
        let is_near = self.near.iter().all(|term| term.has_pods(node))
            || self.is_first && self.near.iter().all(|term| term.has_key(node));
        if !is_near {
            return Some(Reason::PodAffinity);
        }
        if self.apart.iter().any(|term| term.has_pods(node)) {
            return Some(Reason::PodAntiAffinity);
        }
        let is_kept = self.kept_away.iter().any(|term| term.has_pods(node));
        let by_pods = is_kept.then_some(Reason::ExistingAntiAffinity);
        by_pods.or_else(|| self.by_nominated.get(&node).cloned())
    }

    /// Counts a pick on a node. Returns the nodes whose verdict it may change.
    pub fn pick(&mut self, node: u32) -> Vec<u32> {
        let mut changed = Vec::new();
        for term in &mut self.near {
            changed.extend_from_slice(term.pick(node));
        }
        // The first pod of the group is placed now, so the next pods must go to its domains.
        if self.is_first && self.near.iter().any(|term| term.has_pods(node)) {
            self.is_first = false;
            changed.extend(0..self.nodes);
        }
        for term in self.apart.iter_mut().chain(&mut self.kept_away) {
            changed.extend_from_slice(term.pick(node));
        }
        changed.sort_unstable();
        changed.dedup();
        changed
    }
}
