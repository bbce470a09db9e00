//! Classes of cells that a plan treats alike. They have the same room. For each constraint they are
//! in the same domain, or each is in a domain of its own with the same count. So the many hosts of
//! a zone make only a few classes.

use std::collections::{BTreeSet, HashMap};

use super::standing::PickStanding;
use crate::spread::SkewRule;
use crate::spread::place::Outlook;

/// The cells of an outlook by class. The classes follow the picks.
#[derive(Debug, Clone)]
pub struct PickClasses<'o> {
    outlook: &'o Outlook<'o>,
    /// For each constraint and value, the number of the domain if several cells are judged by it.
    shared: Vec<Vec<Option<usize>>>,
    /// The constraint and the value of each shared domain, by its number.
    pub domains: Vec<(usize, usize)>,
    by_key: HashMap<(usize, Vec<(DomainMark, bool)>), usize>,
    /// The classes, including those that have no cells any more.
    pub all: Vec<PickClass>,
    /// The class of each cell.
    class_of: Vec<usize>,
}

/// Cells that a plan treats alike.
#[derive(Debug, Clone)]
pub struct PickClass {
    /// For each constraint, the shared domain in which picks count, if any.
    pub domains: Vec<Option<usize>>,
    /// For each constraint, the count of the domain that each cell has of its own, if picks count
    /// in such a domain.
    own: Vec<Option<u32>>,
    /// The number of further pods that fit on each cell.
    pub room: usize,
    /// The cells.
    pub cells: BTreeSet<usize>,
}

/// The mark that all nodes of a class share for one constraint: their domain, or the count of the
/// domain that each of them has of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum DomainMark {
    Shared(usize),
    Own(u32),
}

impl<'o> PickClasses<'o> {
    /// Returns the classes before the first pick.
    pub fn of(outlook: &'o Outlook<'o>, start: &PickStanding<'_>) -> Self {
        let mut domains = Vec::new();
        let constraints = outlook.constraints.iter().enumerate();
        let shared = constraints.map(|(index, constraint)| {
            let mut cells = vec![0_usize; constraint.counts.len()];
            for cell in &outlook.cells {
                cells[cell.judged_by[index]] += 1;
            }
            let numbers = cells.into_iter().enumerate().map(|(value, cells)| {
                (cells > 1).then(|| {
                    domains.push((index, value));
                    domains.len() - 1
                })
            });
            numbers.collect()
        });
        let mut classes = Self {
            shared: shared.collect(),
            domains,
            by_key: HashMap::new(),
            all: Vec::new(),
            class_of: vec![usize::MAX; outlook.cells.len()],
            outlook,
        };
        for cell in 0..outlook.cells.len() {
            classes.put(cell, start);
        }
        classes
    }

    /// Puts a cell into the class to which it belongs after the picks of `standing`.
    pub fn put(&mut self, cell: usize, standing: &PickStanding<'_>) {
        let marks = self.marks(cell, standing);
        let room = standing.room[cell];
        let next = self.all.len();
        let key = (room, marks);
        let class = match self.by_key.get(&key) {
            Some(known) => *known,
            None => {
                self.all.push(PickClass::of(room, &key.1));
                self.by_key.insert(key, next);
                next
            }
        };
        if let Some(before) = self.all.get_mut(self.class_of[cell]) {
            before.cells.remove(&cell);
        }
        self.all[class].cells.insert(cell);
        self.class_of[cell] = class;
    }

    /// The class of a cell.
    pub fn of_cell(&self, cell: usize) -> &PickClass {
        &self.all[self.class_of[cell]]
    }

    /// For each constraint, the mark of a cell, and true if a pick in the cell counts.
    fn marks(&self, cell: usize, standing: &PickStanding<'_>) -> Vec<(DomainMark, bool)> {
        let cell = &self.outlook.cells[cell];
        let constraints = cell.judged_by.iter().zip(&cell.counts).enumerate();
        let marks = constraints.map(|(index, (value, counts))| {
            let mark = match self.shared[index][*value] {
                Some(domain) => DomainMark::Shared(domain),
                None => DomainMark::Own(standing.count(index, *value)),
            };
            (mark, *counts)
        });
        marks.collect()
    }
}

impl PickClass {
    fn of(room: usize, marks: &[(DomainMark, bool)]) -> Self {
        let shared = marks.iter().map(|mark| match mark {
            (DomainMark::Shared(domain), true) => Some(*domain),
            _ => None,
        });
        let own = marks.iter().map(|mark| match mark {
            (DomainMark::Own(count), true) => Some(*count),
            _ => None,
        });
        Self {
            domains: shared.collect(),
            own: own.collect(),
            room,
            cells: BTreeSet::new(),
        }
    }

    /// Returns how many more pods each cell takes by these rules, if only its own domains and its
    /// room limit it.
    pub fn takes_each(&self, rules: &[SkewRule]) -> usize {
        let own = self.own.iter().zip(rules);
        let takes = own.filter_map(|(count, rule)| count.map(|count| rule.takes(count)));
        takes.fold(self.room, usize::min)
    }

    /// Returns for how many constraints a cell's own domain is still below the constraint's target
    /// after `picks` picks of the cell.
    pub fn wanted_by(&self, targets: &[Option<u32>], picks: usize) -> usize {
        let own = self.own.iter().zip(targets);
        let wanting = own.filter(|(count, target)| {
            let lacks = count
                .zip(**target)
                .map(|(count, it)| it.saturating_sub(count));
            lacks.is_some_and(|lacks| picks < lacks as usize)
        });
        wanting.count()
    }

    /// Distributes picks over the cells as evenly as possible.
    pub fn share(&self, picks: usize) -> impl Iterator<Item = (usize, usize)> {
        let (each, more) = (picks / self.cells.len(), picks % self.cells.len());
        let shares = self.cells.iter().enumerate();
        let shares = shares.map(move |(at, cell)| (*cell, each + usize::from(at < more)));
        shares.take_while(|(_, times)| *times > 0)
    }
}
