//! Which clusters the hard constraints admit, and how good each is.

use super::super::active::Constraints;
use super::super::filter::Filter;
use super::super::question::NodeChecks;
use super::super::report::Report;
use super::super::verdict::NodeRefusal;
use super::holders::{HolderSpread, PickEffect};
use super::placement::PlacementSpec;
use crate::snapshot::{ReadView, Slot};

/// A placement's constraints, counted and ready to judge clusters.
pub struct Judge<'a> {
    spreads: Vec<HolderSpread>,
    checks: Filter<'a>,
}

/// What keeps a placement off a cluster.
#[derive(Debug, Clone)]
pub enum RefusedBy<'a> {
    /// A check of the cluster itself.
    ByCheck(NodeRefusal),
    /// A hard constraint.
    BySpread(OverSkew<'a>),
}

/// A cluster that a hard constraint does not admit.
#[derive(Debug, Clone, Copy)]
pub struct OverSkew<'a> {
    /// The constraint.
    pub spread: &'a HolderSpread,
    /// Holders in the cluster's domain.
    pub holders: u32,
    /// What the skew would become.
    pub skew: i64,
}

/// No constraints: the checks do not look at them.
static NO_CONSTRAINTS: Constraints = Constraints {
    all: Vec::new(),
    all_keys_required: true,
};

impl<'a> Judge<'a> {
    /// Makes the counts for a question.
    pub fn of(question: &'a PlacementSpec, checks: NodeChecks, read_view: &ReadView<'a>) -> Self {
        let spread = |active| HolderSpread::of(active, read_view);
        Self {
            spreads: question.constraints.iter().map(spread).collect(),
            checks: Filter::of(&question.pod, &NO_CONSTRAINTS, checks, read_view),
        }
    }

    /// The topology spread score of a cluster that passes the checks and the
    /// hard constraints. The first that fails decides.
    ///
    /// # Errors
    /// The refusal.
    pub fn judge(&self, slot: Slot) -> Result<i64, RefusedBy<'_>> {
        self.check(slot).map_err(RefusedBy::ByCheck)?;
        self.score(slot).map_err(RefusedBy::BySpread)
    }

    /// The checks of a cluster itself, without the constraints.
    ///
    /// # Errors
    /// The refusal.
    pub fn check(&self, slot: Slot) -> Result<(), NodeRefusal> {
        self.checks.judge(slot)
    }

    /// The same as [`Self::judge`] without the checks.
    ///
    /// # Errors
    /// The refusal of a constraint.
    pub fn score(&self, slot: Slot) -> Result<i64, OverSkew<'_>> {
        score(&self.spreads, slot)
    }

    /// The constraints, hard ones first.
    pub fn spreads(&self) -> &[HolderSpread] {
        &self.spreads
    }

    /// The numbers behind the constraints, hard ones first.
    pub fn reports(&self, max_domains: usize) -> Vec<Report<'_>> {
        let spreads = self.spreads.iter();
        spreads.map(|spread| spread.report(max_domains)).collect()
    }

    /// Only the constraints, for picking.
    pub fn into_spreads(self) -> Vec<HolderSpread> {
        self.spreads
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
        match spread.effect(class) {
            PickEffect::Scores(score) => sum += score,
            PickEffect::Refuses => {
                return Err(OverSkew {
                    spread,
                    holders: spread.holders(domain),
                    skew: spread.after(class),
                });
            }
        }
    }
    Ok(sum)
}

impl RefusedBy<'_> {
    /// What it says, apart from the constraint.
    pub fn refusal(&self) -> NodeRefusal {
        match self {
            Self::ByCheck(refusal) => refusal.clone(),
            Self::BySpread(over) => over.refusal(),
        }
    }
}

impl OverSkew<'_> {
    /// What it says, apart from the constraint.
    pub fn refusal(&self) -> NodeRefusal {
        NodeRefusal::by_constraint(
            self.spread.violation(),
            self.spread.active.index,
            self.holders.into(),
            self.skew,
        )
    }
}
