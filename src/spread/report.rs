//! The numbers behind a constraint.

use super::active::Active;
use super::skew::{GlobalMinimum, SkewRule};
use crate::snapshot::DomainCount;

/// The numbers behind one constraint.
#[derive(Debug)]
pub struct Report<'a> {
    /// The constraint.
    pub active: &'a Active,
    /// How many domains there are.
    pub domain_count: usize,
    /// The minimum from which skews are measured.
    pub global_minimum: i64,
    /// Whether there are fewer domains than `minDomains`.
    pub min_domains_unmet: bool,
    /// The first domains, ascending by count, then by value.
    pub domains: Vec<DomainReport<'a>>,
    /// Weight of a count in Score; 0 in Filter.
    pub weight: f64,
}

/// One domain of a constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DomainReport<'a> {
    /// Its counts.
    pub tally: DomainCount<'a>,
    /// Skew of the domain if the pod went there.
    pub skew: i64,
    /// Whether the constraint admits the pod in it.
    pub feasible: bool,
}

impl<'a> Report<'a> {
    /// A report of `domain_count` domains that lists these, in order. A soft
    /// constraint admits the pod everywhere.
    pub fn of(
        active: &'a Active,
        domain_count: usize,
        listed: impl IntoIterator<Item = DomainCount<'a>>,
        minimum: GlobalMinimum,
    ) -> Self {
        let rule = SkewRule::of(active, minimum.pods);
        let domain = |tally: DomainCount<'a>| DomainReport {
            tally,
            skew: rule.skew(tally.matching_pods),
            feasible: !active.constraint.is_hard() || rule.admits(tally.matching_pods),
        };
        Self {
            active,
            domain_count,
            global_minimum: minimum.pods,
            min_domains_unmet: minimum.min_domains_unmet,
            domains: listed.into_iter().map(domain).collect(),
            weight: 0.0,
        }
    }

    /// The domains with the fewest pods, ascending by value, if all are listed.
    pub fn lowest(&self) -> Vec<&'a str> {
        let pods = |domain: &DomainReport<'_>| domain.tally.matching_pods;
        let mut levels = self.domains.chunk_by(|a, b| pods(a) == pods(b));
        let lowest = levels.next().unwrap_or_default();
        lowest.iter().map(|domain| domain.tally.value).collect()
    }
}

/// The first `max` of `all`, in order.
pub fn first<T: Ord>(mut all: Vec<T>, max: usize) -> Vec<T> {
    if max < all.len() {
        all.select_nth_unstable(max);
        all.truncate(max);
    }
    all.sort_unstable();
    all
}
