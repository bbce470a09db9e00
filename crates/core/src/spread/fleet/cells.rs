//! The clusters that can still be picked, in groups, so that a pick need not check all of them.
//!
//! Clusters with the same domain under every constraint are a *cell*: they always have the same
//! score, so only the best ranked cluster of a cell matters. Cells whose domains have the same
//! [`Class`] under every constraint have the same score, too. They form a group, ordered by their
//! best clusters. A pick checks each group once, and then moves the cells of the few domains whose
//! class changed.

use std::collections::{BTreeSet, HashMap};

use super::holders::{Class, HolderSpread};
use crate::snapshot::{DomainId, Slot};

/// The rank of a candidate. Among candidates of equal score the smallest rank wins.
pub type Rank = u32;

type CellClasses = Box<[Class]>;

/// The candidates of a placement, by cell and by the class of the cells.
#[derive(Debug)]
pub struct CandidateCells {
    cells: Vec<Cell>,
    cell_of: Vec<usize>,
    /// The cells in each domain of each constraint.
    by_domain: Vec<HashMap<DomainId, Vec<usize>>>,
    /// The cells that are not empty, each with its best candidate.
    alike: HashMap<CellClasses, BTreeSet<(Rank, usize)>>,
}

#[derive(Debug)]
struct Cell {
    domains: Box<[DomainId]>,
    classes: CellClasses,
    waiting: BTreeSet<Rank>,
}

impl CandidateCells {
    /// The cells of these candidates, which come best ranked first.
    pub fn of(candidates: impl Iterator<Item = Slot>, spreads: &[HolderSpread]) -> Self {
        let mut cells = Self {
            cells: Vec::new(),
            cell_of: Vec::new(),
            by_domain: vec![HashMap::new(); spreads.len()],
            alike: HashMap::new(),
        };
        let mut known: HashMap<Box<[DomainId]>, usize> = HashMap::new();
        for (rank, slot) in (0..).zip(candidates) {
            let domains: Box<[DomainId]> = spreads.iter().map(|s| s.domain_of(slot)).collect();
            let index = *known
                .entry(domains)
                .or_insert_with_key(|domains| cells.add_cell(domains, spreads));
            cells.cells[index].waiting.insert(rank);
            cells.cell_of.push(index);
        }
        for index in 0..cells.cells.len() {
            cells.enter(index);
        }
        cells
    }

    fn add_cell(&mut self, domains: &[DomainId], spreads: &[HolderSpread]) -> usize {
        let index = self.cells.len();
        for (by_domain, domain) in self.by_domain.iter_mut().zip(domains) {
            by_domain.entry(*domain).or_default().push(index);
        }
        let class = |(spread, domain): (&HolderSpread, &DomainId)| spread.class(*domain);
        self.cells.push(Cell {
            classes: spreads.iter().zip(domains).map(class).collect(),
            domains: domains.into(),
            waiting: BTreeSet::new(),
        });
        index
    }

    /// The best candidate and its score; `None` when every candidate is refused.
    pub fn best(&self, spreads: &[HolderSpread]) -> Option<(Rank, i64)> {
        let mut best: Option<(Rank, i64)> = None;
        for (classes, cells) in &self.alike {
            let Some(((rank, _), score)) = cells.first().zip(score(classes, spreads)) else {
                continue;
            };
            let wins =
                |(other, least): (Rank, i64)| score > least || score == least && *rank < other;
            if best.is_none_or(wins) {
                best = Some((*rank, score));
            }
        }
        best
    }

    /// Takes a candidate out and counts it as a holder.
    pub fn pick(&mut self, rank: Rank, spreads: &mut [HolderSpread]) {
        let index = self.cell_of[rank as usize];
        self.leave(index);
        self.cells[index].waiting.remove(&rank);
        self.enter(index);
        for (i, spread) in spreads.iter_mut().enumerate() {
            for domain in spread.add(self.cells[index].domains[i]) {
                self.reclassify(i, domain, spread.class(domain));
            }
        }
    }

    /// Moves the cells of a domain of constraint `i` to its new class.
    fn reclassify(&mut self, i: usize, domain: DomainId, class: Class) {
        let cells = self.by_domain[i].remove(&domain).unwrap_or_default();
        for index in &cells {
            if self.cells[*index].classes[i] != class {
                self.leave(*index);
                self.cells[*index].classes[i] = class;
                self.enter(*index);
            }
        }
        if !cells.is_empty() {
            self.by_domain[i].insert(domain, cells);
        }
    }

    fn enter(&mut self, index: usize) {
        let cell = &self.cells[index];
        if let Some(best) = cell.waiting.first() {
            let alike = self.alike.entry(cell.classes.clone()).or_default();
            alike.insert((*best, index));
        }
    }

    fn leave(&mut self, index: usize) {
        let cell = &self.cells[index];
        if let Some(best) = cell.waiting.first()
            && let Some(alike) = self.alike.get_mut(&cell.classes)
        {
            alike.remove(&(*best, index));
            if alike.is_empty() {
                self.alike.remove(&cell.classes);
            }
        }
    }
}

/// The score of clusters whose domains have these classes; `None` when a hard
/// constraint refuses them.
fn score(classes: &[Class], spreads: &[HolderSpread]) -> Option<i64> {
    let effects = spreads.iter().zip(classes);
    effects.map(|(spread, class)| spread.effect(*class)).sum()
}
