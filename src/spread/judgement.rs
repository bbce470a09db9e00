//! Which of some nodes pass, and why the others fail.

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;

use super::verdict::{NodeRefusal, Reason};

/// How many nodes pass, and how many fail for which reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tallies {
    /// Nodes that were judged.
    pub judged: usize,
    /// Those that pass.
    pub feasible: usize,
    /// Those that fail, by reason; one that has too little of several things for
    /// each of them.
    pub refused: BTreeMap<Reason, usize>,
}

impl Tallies {
    /// Notes nodes that fail for a reason.
    pub fn refuse(&mut self, reason: Reason, nodes: usize) {
        if nodes > 0 {
            *self.refused.entry(reason).or_default() += nodes;
        }
    }

    /// Puts another verdict in place of that of one node.
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

/// Which of some nodes pass, and why the others fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// A bit per node: whether it passes.
    pub pass: FixedBitSet,
    /// How many pass, and how many fail for which reason.
    pub tallies: Tallies,
}

impl Judgement {
    /// This number of nodes, all of which still pass.
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

    /// Refuses the nodes that are not among `passing` and were not refused
    /// before: the first reason decides.
    pub(super) fn narrow(&mut self, reason: Reason, passing: &FixedBitSet) {
        self.pass.intersect_with(passing);
        let left = self.pass.count_ones(..);
        let refused = std::mem::replace(&mut self.tallies.feasible, left) - left;
        self.tallies.refuse(reason, refused);
    }

    /// Refuses one node that was not refused before, for all that there is too
    /// little of.
    pub(super) fn refuse(&mut self, at: usize, reasons: impl IntoIterator<Item = Reason>) {
        self.pass.remove(at);
        self.tallies.feasible -= 1;
        for reason in reasons {
            self.tallies.refuse(reason, 1);
        }
    }
}
