//! Ranges of integers that terms of node affinity ask for with `Gt` and `Lt`.

use super::requirement::{Operator, Requirement};
use crate::account::heap;

/// The integers that a term asks for under one key, from `first` to `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Range {
    first: i64,
    last: i64,
    /// The number of the term.
    pub term: usize,
    /// How many requirements of the term it represents.
    pub requirements: usize,
}

impl Range {
    /// The narrowest of the ranges that a term asks for, with its key.
    pub fn narrowest<A: Eq>(term: usize, all: &[Requirement<A>]) -> Option<(&A, Self)> {
        // The requirements of a key are adjacent.
        let ranges = all.chunk_by(|a, b| a.key == b.key).filter_map(|of_key| {
            let mut range = Self {
                first: i64::MIN,
                last: i64::MAX,
                term,
                requirements: 0,
            };
            for requirement in of_key {
                // What no integer satisfies is an empty range, from its end on.
                match requirement.operator {
                    Operator::Gt(bound) => range.first = range.first.max(bound.saturating_add(1)),
                    Operator::Lt(bound) => range.last = range.last.min(bound.saturating_sub(1)),
                    _ => continue,
                }
                range.requirements += 1;
            }
            (range.requirements > 0).then_some((&of_key[0].key, range))
        });
        ranges.min_by_key(|(_, range)| range.last.saturating_sub(range.first))
    }
}

/// Ranges of one key, so that those that hold an integer are found without a
/// look at the others: a balanced tree, laid out in order.
#[derive(Debug, Clone)]
pub(super) struct Ranges {
    /// Ascending by first.
    ranges: Box<[Range]>,
    /// For each that is in the middle of a part, the greatest last of that part.
    greatest: Box<[i64]>,
}

impl Ranges {
    /// Those of one key, in any order.
    pub fn of(mut all: Vec<Range>) -> Self {
        all.sort_unstable();
        let mut greatest = vec![i64::MIN; all.len()].into_boxed_slice();
        note_greatest(&all, &mut greatest);
        Self {
            ranges: all.into(),
            greatest,
        }
    }

    /// Their size on the heap, in bytes.
    pub fn heap_bytes(&self) -> usize {
        heap::block(size_of_val(&*self.ranges)) + heap::block(size_of_val(&*self.greatest))
    }

    /// Whether the term of one that holds `value` `does`.
    pub fn any(&self, value: i64, does: &impl Fn(usize) -> bool) -> bool {
        any_in(&self.ranges, &self.greatest, value, does)
    }
}

/// Notes the greatest last of each part; that of all.
fn note_greatest(ranges: &[Range], greatest: &mut [i64]) -> i64 {
    let middle = ranges.len() / 2;
    let Some(range) = ranges.get(middle) else {
        return i64::MIN;
    };
    let before = note_greatest(&ranges[..middle], &mut greatest[..middle]);
    let after = note_greatest(&ranges[middle + 1..], &mut greatest[middle + 1..]);
    greatest[middle] = range.last.max(before).max(after);
    greatest[middle]
}

fn any_in(ranges: &[Range], greatest: &[i64], value: i64, does: &impl Fn(usize) -> bool) -> bool {
    let middle = ranges.len() / 2;
    let Some(range) = ranges.get(middle) else {
        return false;
    };
    if greatest[middle] < value {
        return false;
    }
    let (before, after) = (middle, middle + 1);
    any_in(&ranges[..before], &greatest[..before], value, does)
        || range.first <= value
            && (value <= range.last && does(range.term)
                || any_in(&ranges[after..], &greatest[after..], value, does))
}
