//! Tries all orders of picks, if there are few orders.

use std::collections::HashSet;

use super::standing::PickStanding;
use crate::spread::place::Outlook;

/// The most picks, and the most cells, with which all orders are tried.
const MOST: usize = 64;

/// The most standings that are looked at.
const STANDINGS: usize = 20_000;

struct OrderSearch<'s> {
    cancelled: &'s dyn Fn() -> bool,
    /// The numbers of picks of cells that were looked at.
    seen: HashSet<Box<[u8]>>,
    now: Box<[u8]>,
    path: Vec<usize>,
    longest: Vec<usize>,
    /// An upper bound of the picks of any order.
    bound: usize,
}

/// The reason why a search ended early.
enum SearchEnd {
    /// An order as long as the bound was found.
    Found,
    /// There are too many standings, or the caller cancelled.
    Gave,
}

/// The cells of the longest order of picks. The inner `None` means that there are too many orders
/// to try, the outer that `cancelled` returned true.
pub fn longest(
    outlook: &Outlook<'_>,
    bound: usize,
    cancelled: &dyn Fn() -> bool,
) -> Option<Option<Vec<usize>>> {
    if outlook.wanted > MOST || outlook.cells.len() > MOST {
        return Some(None);
    }
    let mut search = OrderSearch {
        cancelled,
        seen: HashSet::new(),
        now: vec![0; outlook.cells.len()].into(),
        path: Vec::new(),
        longest: Vec::new(),
        bound,
    };
    let ended = search.from(&mut PickStanding::of(outlook));
    if cancelled() {
        return None;
    }
    Some(match ended {
        Err(SearchEnd::Gave) => None,
        Err(SearchEnd::Found) | Ok(()) => Some(search.longest),
    })
}

impl OrderSearch<'_> {
    fn from(&mut self, standing: &mut PickStanding<'_>) -> Result<(), SearchEnd> {
        if self.path.len() > self.longest.len() {
            self.longest.clone_from(&self.path);
        }
        if self.longest.len() >= self.bound {
            return Err(SearchEnd::Found);
        }
        let rules = standing.rules();
        for cell in 0..self.now.len() {
            if !standing.admits(&rules, cell) {
                continue;
            }
            self.now[cell] += 1;
            if self.seen.insert(self.now.clone()) {
                if self.seen.len() > STANDINGS || (self.cancelled)() {
                    return Err(SearchEnd::Gave);
                }
                standing.pick(cell, 1);
                self.path.push(cell);
                self.from(standing)?;
                self.path.pop();
                standing.take_back(cell, 1);
            }
            self.now[cell] -= 1;
        }
        Ok(())
    }
}
