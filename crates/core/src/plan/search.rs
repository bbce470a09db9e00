//! Tries all orders of picks, if there are few orders.

use std::collections::HashSet;

use super::standing::PickStanding;
use crate::snapshot::{Deadline, Stopped};
use crate::spread::place::Outlook;

/// The most picks, and the most cells, with which all orders are tried.
const MOST: usize = 64;

/// The most standings that are looked at.
const STANDINGS: usize = 20_000;

struct OrderSearch<'s> {
    deadline: &'s Deadline<'s>,
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
    /// There are too many standings.
    TooMany,
    /// The deadline has passed.
    Stopped(Stopped),
}

impl From<Stopped> for SearchEnd {
    fn from(stopped: Stopped) -> Self {
        Self::Stopped(stopped)
    }
}

/// The cells of the longest order of picks; `None` if there are too many orders to try.
pub fn longest(
    outlook: &Outlook<'_>,
    bound: usize,
    deadline: &Deadline<'_>,
) -> Result<Option<Vec<usize>>, Stopped> {
    if outlook.wanted > MOST || outlook.cells.len() > MOST {
        return Ok(None);
    }
    let mut search = OrderSearch {
        deadline,
        seen: HashSet::new(),
        now: vec![0; outlook.cells.len()].into(),
        path: Vec::new(),
        longest: Vec::new(),
        bound,
    };
    match search.from(&mut PickStanding::of(outlook)) {
        Err(SearchEnd::Stopped(stopped)) => Err(stopped),
        Err(SearchEnd::TooMany) => Ok(None),
        Err(SearchEnd::Found) | Ok(()) => Ok(Some(search.longest)),
    }
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
                if self.seen.len() > STANDINGS {
                    return Err(SearchEnd::TooMany);
                }
                self.deadline.step(self.now.len())?;
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
