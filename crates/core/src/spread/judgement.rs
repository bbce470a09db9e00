//! Verdicts on nodes: those that pass, and reasons why the others fail.

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;

use super::verdict::{NodeRefusal, Reason};
use crate::snapshot::{Deadline, Stopped};

/// The number of nodes that a step judges where each has a bit.
pub(super) const NODES_PER_STEP: usize = 16;

/// The number of nodes that pass, and of those that fail, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tallies {
    /// The number of nodes that were judged.
    pub judged: usize,
    /// The number of nodes that pass.
    pub feasible: usize,
    /// The number of nodes that fail, by reason. A node that has too little of several resources
    /// counts for each of them.
    pub refused: BTreeMap<Reason, usize>,
}

impl Tallies {
    /// Counts nodes that fail for a reason.
    pub fn refuse(&mut self, reason: Reason, nodes: usize) {
        if nodes > 0 {
            *self.refused.entry(reason).or_default() += nodes;
        }
    }

    /// Replaces the verdict on one node by another.
    pub(super) fn revise(
        &mut self,
        before: &Result<(), NodeRefusal>,
        after: &Result<(), NodeRefusal>,
    ) {
        match before {
            Ok(()) => self.feasible -= 1,
            Err(refusal) => refusal.reasons().for_each(|reason| self.take_back(reason)),
        }
        match after {
            Ok(()) => self.feasible += 1,
            Err(refusal) => {
                let reasons = refusal.reasons().cloned();
                reasons.for_each(|reason| self.refuse(reason, 1));
            }
        }
    }

    fn take_back(&mut self, reason: &Reason) {
        if let Some(nodes) = self.refused.get_mut(reason) {
            *nodes -= 1;
            if *nodes == 0 {
                self.refused.remove(reason);
            }
        }
    }
}

/// Verdicts on nodes: those that pass, and reasons why the others fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// A bit per node: set if it passes.
    pub pass: FixedBitSet,
    /// The number of nodes that pass, and of those that fail, by reason.
    pub tallies: Tallies,
}

impl Judgement {
    /// A judgement of this number of nodes, which all pass at first.
    pub(super) fn new(nodes: usize) -> Self {
        let mut pass = FixedBitSet::with_capacity(nodes);
        pass.insert_range(..);
        Self {
            pass,
            tallies: Tallies {
                judged: nodes,
                feasible: nodes,
                ..Tallies::default()
            },
        }
    }

    /// Refuses the nodes that are not among `passing`. A node that was refused before keeps its
    /// first reason.
    pub(super) fn narrow(&mut self, reason: Reason, passing: &FixedBitSet) {
        self.pass.intersect_with(passing);
        let left = self.pass.count_ones(..);
        let refused = std::mem::replace(&mut self.tallies.feasible, left) - left;
        self.tallies.refuse(reason, refused);
    }

    /// Judges each node that was not refused before, by its position.
    pub(super) fn narrow_each(
        &mut self,
        deadline: &Deadline<'_>,
        judge: impl Fn(usize) -> Result<Result<(), NodeRefusal>, Stopped>,
    ) -> Result<(), Stopped> {
        let left = self.pass.clone();
        for at in deadline.each(left.ones()) {
            let at = at?;
            // A refusal may have a reason for each resource of the pod, so only one is held at a
            // time.
            if let Err(refusal) = judge(at)? {
                self.pass.remove(at);
                self.tallies.feasible -= 1;
                for reason in refusal.reasons() {
                    self.tallies.refuse(reason.clone(), 1);
                }
            }
        }
        Ok(())
    }
}
