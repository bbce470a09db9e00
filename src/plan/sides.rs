//! Which domains contain which: constraints whose domains are disjoint or contain one
//! another make a tree. Two trees make a flow problem.

use std::collections::HashMap;

use super::cells::Choice;

/// Constraints as trees of domains.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sides {
    /// The constraints of one tree, and of another.
    pub trees: [Vec<usize>; 2],
    /// Those that are in neither: they cross constraints of both.
    pub left_out: Vec<usize>,
}

impl Sides {
    /// Those of a choice; each constraint is in the first tree that it fits.
    pub fn of(choice: &Choice) -> Self {
        let mut cells_of = vec![0_usize; choice.domains.len()];
        for cell in &choice.cells {
            for domain in cell.domains.iter().flatten() {
                cells_of[*domain] += 1;
            }
        }
        let nests = |one: usize, other: usize| {
            let mut shared: HashMap<(usize, usize), usize> = HashMap::new();
            for cell in &choice.cells {
                if let (Some(a), Some(b)) = (cell.domains[one], cell.domains[other]) {
                    *shared.entry((a, b)).or_default() += 1;
                }
            }
            let mut shared = shared.into_iter();
            shared.all(|((a, b), cells)| cells == cells_of[a] || cells == cells_of[b])
        };
        let mut sides = Self::default();
        for constraint in 0..choice.constraints {
            let mut trees = sides.trees.iter_mut();
            let tree = trees.find(|tree| tree.iter().all(|other| nests(constraint, *other)));
            tree.unwrap_or(&mut sides.left_out).push(constraint);
        }
        sides
    }
}
