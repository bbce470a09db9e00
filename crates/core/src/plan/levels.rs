//! Plans picks level by level. As long as no smallest count changes, the picks that constraints
//! accept are a flow, and their order does not matter. So each part of a plan is a flow that raises
//! a smallest count, and the last part is as large as possible. Flows go through classes of cells,
//! because many hosts are alike.

use std::cell::Cell;

use super::classes::{PickClass, PickClasses};
use super::network::PlanCost;
use super::sides::{Cells, SINK, SOURCE, Sides, TreeNetwork};
use super::standing::PickStanding;
use crate::snapshot::{Deadline, Stopped};
use crate::spread::SkewRule;
use crate::spread::place::Outlook;

/// A cost that is less than all costs whose first part is 0, and more than those with a negative
/// first part.
const LESS_THAN_NOTHING: PlanCost = PlanCost([0, i64::MIN, i64::MIN]);

/// The number of arcs after which flows end, which is reached after some tenths of a second.
const ARCS: usize = 10_000_000;

/// The numbers of picks of cells that are accepted in any order.
pub type PlanPart = Vec<(usize, usize)>;

/// The data of all flows of a plan.
pub struct LevelFlows<'o> {
    outlook: &'o Outlook<'o>,
    start: LevelStanding<'o>,
    sides: Sides,
    /// The number of arcs that were looked at.
    looked_at: Cell<usize>,
    deadline: &'o Deadline<'o>,
}

/// The progress of a plan, with the classes at this point.
#[derive(Clone)]
struct LevelStanding<'o> {
    standing: PickStanding<'o>,
    classes: PickClasses<'o>,
}

/// A flow of picks through the classes that can be picked.
struct ClassFlow<'c> {
    classes: Vec<&'c PickClass>,
    trees: TreeNetwork,
}

impl<'o> LevelFlows<'o> {
    /// Returns the flows for an outlook.
    pub fn of(outlook: &'o Outlook<'o>, deadline: &'o Deadline<'o>) -> Self {
        let standing = PickStanding::of(outlook);
        let classes = PickClasses::of(outlook, &standing);
        let all = classes.all.iter();
        let domains: Vec<_> = all.map(|class| class.domains.clone()).collect();
        let cells = Cells {
            domains: &domains,
            domain_count: classes.domains.len(),
            constraints: outlook.constraints.len(),
        };
        Self {
            sides: Sides::of(cells),
            start: LevelStanding { standing, classes },
            looked_at: Cell::new(0),
            deadline,
            outlook,
        }
    }

    /// Returns whether the limit of arcs is reached, so that a flow may be incomplete.
    fn is_exhausted(&self) -> bool {
        self.looked_at.get() > ARCS
    }

    /// Plans picks part by part, as far as flows can.
    pub fn plan(&self) -> Result<Vec<PlanPart>, Stopped> {
        let mut parts = Vec::new();
        let mut at = self.start.clone();
        // If constraints are in neither tree, flows ignore these. Then flows are only bounds, not
        // plans.
        let is_plan = self.sides.left_out.is_empty();
        while is_plan && at.standing.left > 0 && !self.is_exhausted() {
            let rules = at.standing.rules();
            let (part, is_last) = match self.all_left(&at, &rules)? {
                Some(part) => (part, true),
                None => match self.raising(&mut at, &rules)? {
                    Some(part) => (part, false),
                    None => (self.most(&at, &rules)?, true),
                },
            };
            for (cell, times) in &part {
                at.standing.pick(*cell, *times);
                at.classes.put(*cell, &at.standing);
            }
            parts.push(part);
            if is_last {
                break;
            }
        }
        Ok(parts)
    }

    /// Returns the most picks that constraints accept by these rules, or the wanted number if that
    /// takes too long.
    pub fn fitting(&self, rules: &[SkewRule]) -> Result<usize, Stopped> {
        let part = self.most(&self.start, rules)?;
        Ok(match self.is_exhausted() {
            true => self.outlook.wanted,
            false => part.iter().map(|(_, times)| times).sum(),
        })
    }

    /// Returns whether picks that constraints accept by these rules may raise all counts of one
    /// constraint to at least `smallest`.
    pub fn reaches(
        &self,
        rules: &[SkewRule],
        constraint: usize,
        smallest: u32,
    ) -> Result<bool, Stopped> {
        if self.sides.left_out.contains(&constraint) {
            return Ok(true);
        }
        let mut targets = vec![None; self.outlook.constraints.len()];
        targets[constraint] = Some(smallest);
        let flow = self.flow(&self.start, rules, &targets)?;
        let gained = flow.gained(&self.start, &targets);
        Ok(self.is_exhausted() || gained >= self.start.standing.lacks(constraint, smallest))
    }

    /// Returns the most picks that constraints accept by these rules.
    fn most(&self, at: &LevelStanding<'_>, rules: &[SkewRule]) -> Result<PlanPart, Stopped> {
        let none = vec![None; rules.len()];
        Ok(self.flow(at, rules, &none)?.part())
    }

    /// Returns all picks that are left, if constraints accept them without a higher smallest count.
    fn all_left(
        &self,
        at: &LevelStanding<'_>,
        rules: &[SkewRule],
    ) -> Result<Option<PlanPart>, Stopped> {
        let left = at.standing.left;
        if self.network(at, rules).trees.network.most(SOURCE, SINK) < left {
            return Ok(None);
        }
        let part = self.most(at, rules)?;
        let picks: usize = part.iter().map(|(_, times)| times).sum();
        Ok((picks == left).then_some(part))
    }

    /// Returns picks that change the rule of some constraint by raising its smallest count.
    fn raising(
        &self,
        at: &mut LevelStanding<'_>,
        rules: &[SkewRule],
    ) -> Result<Option<PlanPart>, Stopped> {
        let next: Vec<_> = (0..rules.len()).map(|it| at.standing.next(it)).collect();
        let each = (0..rules.len()).map(|constraint| {
            let mut targets = vec![None; rules.len()];
            targets[constraint] = next[constraint];
            targets
        });
        for targets in std::iter::once(next.clone()).chain(each) {
            let part = self.flow(at, rules, &targets)?.part();
            for (cell, times) in &part {
                at.standing.pick(*cell, *times);
            }
            let raised = at.standing.rules() != rules;
            for (cell, times) in &part {
                at.standing.take_back(*cell, *times);
            }
            if raised {
                return Ok(Some(part));
            }
        }
        Ok(None)
    }

    /// Returns picks that constraints accept by these rules: as many as possible, or with `targets`
    /// those that raise the counts of a constraint to its target.
    fn flow<'c>(
        &self,
        at: &'c LevelStanding<'_>,
        rules: &[SkewRule],
        targets: &[Option<u32>],
    ) -> Result<ClassFlow<'c>, Stopped> {
        let mut flow = self.network(at, rules);
        let ClassFlow { classes, trees } = &mut flow;
        let TreeNetwork { network, domain_of } = trees;
        let lacking = domain_of.iter().map(|domain| at.lacks(*domain, targets));
        let lacking: Vec<usize> = lacking.collect();
        let cost = |arc: usize, flow: usize| match arc.checked_sub(domain_of.len()) {
            Some(class) => {
                let class = classes[class];
                let picks = flow / class.cells.len();
                let [wanted, picks, room] = [class.wanted_by(targets, picks), picks, class.room]
                    .map(|it| i64::try_from(it).unwrap_or(i64::MAX));
                // Classes with much room are preferred.
                PlanCost([-wanted, picks - room, 0])
            }
            None if flow < lacking[arc] => PlanCost([-1, 0, 0]),
            None => PlanCost::default(),
        };
        let below = match targets.iter().all(Option::is_none) {
            true => PlanCost::MOST,
            false => LESS_THAN_NOTHING,
        };
        let mut left = at.standing.left;
        while left > 0 && !self.is_exhausted() {
            self.deadline.step(network.arcs.len())?;
            let before = network.looked_at;
            let sent = network.send((SOURCE, SINK), left, &cost, below);
            self.looked_at
                .set(self.looked_at.get() + network.looked_at - before);
            match sent {
                0 => break,
                sent => left -= sent,
            }
        }
        Ok(flow)
    }

    /// The network of the picks that constraints accept by these rules, without a flow.
    fn network<'c>(&self, at: &'c LevelStanding<'_>, rules: &[SkewRule]) -> ClassFlow<'c> {
        let admits = |class: &&PickClass| {
            let first = class.cells.first();
            first.is_some_and(|cell| at.standing.admits(rules, *cell))
        };
        let classes: Vec<_> = at.classes.all.iter().filter(admits).collect();
        let sizes = classes.iter().map(|class| {
            let size = class.cells.len().saturating_mul(class.takes_each(rules));
            size.min(at.standing.left)
        });
        let sizes: Vec<usize> = sizes.collect();
        let domains: Vec<_> = classes.iter().map(|class| class.domains.clone()).collect();
        let cells = Cells {
            domains: &domains,
            domain_count: at.classes.domains.len(),
            constraints: rules.len(),
        };
        let mut trees = self.sides.network(cells, &sizes);
        for (number, arc) in trees.domain_of.iter().zip(&mut trees.network.arcs) {
            let (constraint, value) = at.classes.domains[*number];
            let count = at.standing.count(constraint, value);
            arc.capacity = arc.capacity.min(rules[constraint].takes(count));
        }
        ClassFlow { classes, trees }
    }
}

impl LevelStanding<'_> {
    /// Returns how many pods a shared domain lacks to reach the target of its constraint.
    fn lacks(&self, domain: usize, targets: &[Option<u32>]) -> usize {
        let (constraint, value) = self.classes.domains[domain];
        let count = self.standing.count(constraint, value);
        targets[constraint].map_or(0, |target| target.saturating_sub(count) as usize)
    }
}

impl ClassFlow<'_> {
    /// The picks of the flow.
    fn part(&self) -> PlanPart {
        let flows = self.classes.iter().zip(self.trees.flows());
        flows.flat_map(|(class, flow)| class.share(flow)).collect()
    }

    /// Returns how many picks of the flow bring domains closer to the targets of their constraints.
    fn gained(&self, at: &LevelStanding<'_>, targets: &[Option<u32>]) -> usize {
        let arcs = self.trees.domain_of.iter().zip(&self.trees.network.arcs);
        let shared = arcs.map(|(domain, arc)| arc.flow.min(at.lacks(*domain, targets)));
        let own = self.part().into_iter().map(|(cell, times)| {
            let class = at.classes.of_cell(cell);
            (0..times)
                .map(|it| class.wanted_by(targets, it))
                .sum::<usize>()
        });
        shared.sum::<usize>() + own.sum::<usize>()
    }
}
