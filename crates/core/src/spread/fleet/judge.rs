//! The verdicts on clusters: admission by the checks and the hard constraints, and the score.

use super::super::active::NO_CONSTRAINTS;
use super::super::filter::Filter;
use super::super::question::NodeChecks;
use super::super::report::Report;
use super::super::verdict::NodeRefusal;
use super::holders::HolderSpread;
use super::placement::PlacementSpec;
use crate::snapshot::{ReadView, Slot, Stopped};

/// A placement's constraints, counted and ready to judge clusters.
pub struct Judge<'a> {
    /// The constraints, hard ones first.
    pub spreads: Vec<HolderSpread>,
    /// The checks of a cluster other than the constraints.
    pub checks: Filter<'a>,
}

/// A cluster that a hard constraint does not admit.
#[derive(Debug, Clone, Copy)]
pub struct OverSkew<'a> {
    /// The constraint.
    pub spread: &'a HolderSpread,
    /// Holders in the cluster's domain.
    pub holders: u32,
    /// The skew that would result.
    pub skew: i64,
}

impl<'a> Judge<'a> {
    /// Makes the counts for a question.
    pub fn of(
        question: &'a PlacementSpec,
        checks: NodeChecks,
        read_view: &ReadView<'a>,
    ) -> Result<Self, Stopped> {
        let spreads = question.constraints.iter();
        let spreads = spreads.map(|active| HolderSpread::of(active, read_view));
        Ok(Self {
            spreads: spreads.collect::<Result<_, _>>()?,
            checks: Filter::of(&question.pod, &NO_CONSTRAINTS, checks, read_view)?,
        })
    }

    /// The topology spread score of a cluster that passes the checks and the hard constraints. The
    /// first check or constraint that fails decides.
    ///
    /// # Errors
    /// The deadline has passed; inside, the refusal.
    pub fn judge(&self, slot: Slot) -> Result<Result<i64, NodeRefusal>, Stopped> {
        let judged = self.checks.judge(slot)?;
        let score = || score(&self.spreads, slot).map_err(|over| over.refusal());
        Ok(judged.and_then(|()| score()))
    }

    /// The numbers behind the constraints, hard ones first.
    pub fn reports(&self, max_domains: usize) -> Vec<Report<'_>> {
        let spreads = self.spreads.iter();
        spreads.map(|spread| spread.report(max_domains)).collect()
    }
}

/// The topology spread score of a cluster.
///
/// # Errors
/// The first refusal.
pub fn score(spreads: &[HolderSpread], slot: Slot) -> Result<i64, OverSkew<'_>> {
    let mut sum = 0;
    for spread in spreads {
        let domain = spread.domain_of(slot);
        let class = spread.class(domain);
        sum += spread.effect(class).ok_or_else(|| OverSkew {
            spread,
            holders: spread.holders(domain),
            skew: spread.after(class),
        })?;
    }
    Ok(sum)
}

impl OverSkew<'_> {
    /// Returns the refusal, without the constraint's index.
    pub fn refusal(&self) -> NodeRefusal {
        NodeRefusal::by_constraint(
            self.spread.violation(),
            self.spread.active.index,
            self.holders.into(),
            self.skew,
        )
    }
}
