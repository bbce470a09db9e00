//! Finds the domains with the fewest matching pods, as many as a report lists. There may be as many
//! domains as nodes.

use std::collections::BTreeMap;

use super::domain::DomainId;
use super::topology::Ascending;

/// The number of counts that are skipped at once where all of them are too large.
const STRIDE: usize = 32;

/// The end of the wanted domains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// The number of wanted domains, at most that of all.
    pub total: usize,
    /// The largest count among them.
    pub count: u32,
    /// The number of wanted domains with that count: the first by value.
    pub at_count: usize,
}

/// The bound after `max` of the domains, given the number of domains at each
/// count.
pub fn by_levels(levels: &BTreeMap<u32, u32>, max: usize) -> Bound {
    let mut at_count = max;
    for (count, domains) in levels {
        let domains = *domains as usize;
        if domains >= at_count {
            return Bound {
                total: max,
                count: *count,
                at_count,
            };
        }
        at_count -= domains;
    }
    unreachable!("each domain stands at a count")
}

/// The bound after `max` of the domains with nodes in `nodes_in`, or after all of them.
pub fn by_counts(counts: &[u32], nodes_in: &[u32], max: usize) -> Bound {
    let domains = nodes_in.iter().enumerate().filter(|(_, nodes)| **nodes > 0);
    let mut counts: Vec<u32> = domains
        .map(|(i, _)| counts.get(i).copied().unwrap_or(0))
        .collect();
    let total = max.min(counts.len());
    if total == counts.len() || total == 0 {
        return Bound {
            total,
            count: u32::MAX,
            at_count: total,
        };
    }
    let (below, count, _) = counts.select_nth_unstable(total - 1);
    let count = *count;
    Bound {
        total,
        count,
        at_count: total - below.iter().filter(|below| **below < count).count(),
    }
}

/// The domains before a bound, ascending by count, then by value. Both lists are by
/// domain: past the end of `counts` they have 0. A value that is 0 in `nodes_in` or
/// past its end is no domain.
pub fn before(
    bound: Bound,
    counts: &[u32],
    nodes_in: &[u32],
    ascending: &Ascending,
) -> Vec<DomainId> {
    let mut search = Search {
        counts,
        nodes_in,
        bound,
        domains: Vec::with_capacity(bound.total),
    };
    match ascending {
        Ascending::Listed(ids) => search.look_at(ids.iter().copied()),
        Ascending::ByNumber(count) => {
            for start in (0..*count).step_by(STRIDE) {
                let end = (start + STRIDE).min(*count);
                if search.is_full() {
                    break;
                }
                if search.may_be_in(start..end) {
                    search.look_at((start..end).map(DomainId::at));
                }
            }
        }
    }
    let mut domains = search.domains;
    // The sort is stable: domains of one count stay ascending by value.
    domains.sort_by_key(|(count, _)| *count);
    domains.into_iter().map(|(_, id)| id).collect()
}

/// The best result so far.
struct Search<'a> {
    counts: &'a [u32],
    nodes_in: &'a [u32],
    /// The wanted domains; `at_count` is the number of those with the largest count that are still
    /// missing.
    bound: Bound,
    domains: Vec<(u32, DomainId)>,
}

impl Search<'_> {
    fn is_full(&self) -> bool {
        self.domains.len() >= self.bound.total
    }

    /// Returns whether a domain with one of these numbers may be wanted.
    fn may_be_in(&self, numbers: std::ops::Range<usize>) -> bool {
        let most = match self.bound.at_count {
            // Only smaller counts are wanted now. Some are left, because the list is not full.
            0 => self.bound.count.saturating_sub(1),
            _ => self.bound.count,
        };
        match self.counts.get(numbers) {
            Some(counts) => counts
                .iter()
                .fold(false, |any, count| any | (*count <= most)),
            None => true,
        }
    }

    fn look_at(&mut self, ids: impl Iterator<Item = DomainId>) {
        let Bound { total, count, .. } = self.bound;
        for id in ids {
            if self.domains.len() >= total {
                return;
            }
            let own = self.counts.get(id.index()).copied().unwrap_or(0);
            let is_domain = || self.nodes_in.get(id.index()).is_some_and(|n| *n > 0);
            if own > count || (own == count && self.bound.at_count == 0) || !is_domain() {
                continue;
            }
            self.bound.at_count -= usize::from(own == count);
            self.domains.push((own, id));
        }
    }
}
