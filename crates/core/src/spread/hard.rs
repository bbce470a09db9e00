//! A hard constraint with its counts, which admits or refuses nodes.

use fixedbitset::FixedBitSet;

use super::active::Active;
use super::nominated::NominatedOn;
use super::report::Report;
use super::skew::{GlobalMinimum, SkewRule};
use super::verdict::{NodeRefusal, Reason};
use crate::snapshot::{DomainCounts, DomainId, Slot};

/// A hard constraint with its counts. It admits the pod in some domains and refuses it in others.
pub struct HardCount<'a> {
    /// The constraint.
    pub active: &'a Active,
    /// The counts of the domains.
    pub counted: DomainCounts<'a>,
    /// The global minimum of the counts.
    pub minimum: GlobalMinimum,
    /// The rule that decides which counts are admitted.
    pub rule: SkewRule,
}

impl<'a> HardCount<'a> {
    /// Makes the rule of a constraint from its counts.
    pub fn of(active: &'a Active, counted: DomainCounts<'a>) -> Self {
        let domains = counted.domain_count();
        let minimum = GlobalMinimum::of(Some(&active.constraint), domains, counted.smallest());
        Self {
            active,
            counted,
            minimum,
            rule: SkewRule::of(active, minimum.pods),
        }
    }

    /// Returns which of `slots` are in a domain that the pod may go to.
    pub fn admitted(&self, slots: &[Slot]) -> FixedBitSet {
        let limit = self.rule.limit();
        if limit < 0 {
            return FixedBitSet::with_capacity(slots.len());
        }
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        self.counted.at_most(slots, limit)
    }

    /// Returns how many nodes are in the domains, and how many of them the constraint
    /// refuses.
    pub fn tally(&self, nodes_in: &[u32]) -> (usize, usize) {
        let (mut keyed, mut skewed) = (0, 0);
        for (index, nodes) in nodes_in.iter().enumerate() {
            let matching_pods = self.counted.matching_pods(DomainId::at(index));
            keyed += *nodes as usize;
            if !self.rule.admits(matching_pods.into()) {
                skewed += *nodes as usize;
            }
        }
        (keyed, skewed)
    }

    /// Judges a node, as if nominated pods were on it.
    pub fn judge(&self, slot: Slot, with: Option<&NominatedOn<'_>>) -> Result<(), NodeRefusal> {
        let refusal = |reason, matching_pods, skew| {
            NodeRefusal::by_constraint(reason, self.active.index, matching_pods, skew)
        };
        let domain = self.counted.domain_of(slot);
        if domain == DomainId::NONE {
            return Err(refusal(Reason::MissingTopologyKey, 0, 0));
        }
        let partition = &self.counted.in_use().partition;
        let more = with.map_or(0, |with| with.counted_by(self.active, slot, partition));
        let rule = match more {
            0 => self.rule,
            more => self.rule_with(domain, more),
        };
        let matching_pods = i64::from(self.counted.matching_pods(domain)) + i64::from(more);
        if rule.admits(matching_pods) {
            return Ok(());
        }
        let skew = rule.skew(matching_pods);
        Err(refusal(Reason::Skew, matching_pods, skew))
    }

    /// Returns the rule that applies if a domain has `more` additional pods.
    fn rule_with(&self, domain: DomainId, more: u32) -> SkewRule {
        let smallest = self.counted.smallest_with(domain, more);
        let domains = self.counted.domain_count();
        let minimum = GlobalMinimum::of(Some(&self.active.constraint), domains, Some(smallest));
        SkewRule::of(self.active, minimum.pods)
    }

    /// Returns the numbers behind the constraint.
    pub fn report(&self, max_domains: usize) -> Report<'_> {
        let listed = self.counted.fewest(max_domains);
        let listed = listed.into_iter().map(|id| self.counted.domain(id));
        Report::of(
            self.active,
            self.counted.domain_count(),
            listed,
            self.minimum,
        )
    }
}
