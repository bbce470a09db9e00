//! Plans picks level by level. As long as no smallest count changes, the picks that constraints
//! accept are a flow, and their order does not matter. So each part of a plan is a flow that raises
//! a smallest count, and the last part is as large as possible.
//!
//! Flows go through classes of cells, because many hosts are alike. The cells of a class have the same
//! room. For each constraint they are in the same domain, or each is in a domain of its own with the
//! same count. So the many hosts of a zone make only a few classes.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};

use super::network::{Cells, PlanCost, SINK, SOURCE, Sides, TreeNetwork};
use crate::snapshot::{Deadline, Stopped};
use crate::spread::place::Outlook;
use crate::spread::{ChangingCounts, SkewRule};

/// A cost that is less than all costs whose first part is 0, and more than those with a negative
/// first part.
const LESS_THAN_NOTHING: PlanCost = PlanCost([0, i64::MIN, i64::MIN]);

/// The number of arcs after which flows end, which is reached after some tenths of a second.
const ARCS: usize = 10_000_000;

/// The numbers of picks of cells that are accepted in any order.
pub type PlanPart = Vec<(usize, usize)>;

/// The data of all flows of a plan.
pub struct LevelFlows<'o> {
    outlook: &'o Outlook,
    start: LevelProgress<'o>,
    sides: Sides,
    /// The number of arcs that were looked at.
    looked_at: Cell<usize>,
    deadline: &'o Deadline<'o>,
}

/// The progress of a plan, with the classes at this point.
#[derive(Clone)]
struct LevelProgress<'o> {
    progress: PickProgress<'o>,
    classes: PickClasses<'o>,
}

/// A flow of picks through the classes that can be picked.
struct ClassFlow<'c> {
    classes: Vec<&'c PickClass>,
    trees: TreeNetwork,
}

impl<'o> LevelFlows<'o> {
    /// Returns the flows for an outlook.
    pub fn of(outlook: &'o Outlook, deadline: &'o Deadline<'o>) -> Self {
        let progress = PickProgress::of(outlook);
        let classes = PickClasses::of(outlook, &progress);
        let all = classes.all.iter();
        let domains: Vec<_> = all.map(|class| class.domains.clone()).collect();
        let cells = Cells {
            domains: &domains,
            domain_count: classes.domains.len(),
            constraints: outlook.constraints.len(),
        };
        Self {
            sides: Sides::of(cells),
            start: LevelProgress { progress, classes },
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
        while is_plan && at.progress.left > 0 && !self.is_exhausted() {
            let rules = at.progress.rules();
            let (part, is_last) = match self.all_left(&at, &rules)? {
                Some(part) => (part, true),
                None => match self.raising(&mut at, &rules)? {
                    Some(part) => (part, false),
                    None => (self.most(&at, &rules)?, true),
                },
            };
            for (cell, times) in &part {
                at.progress.pick(*cell, *times);
                at.classes.put(*cell, &at.progress);
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
        Ok(self.is_exhausted() || gained >= self.start.progress.lacks(constraint, smallest))
    }

    /// Returns the most picks that constraints accept by these rules.
    fn most(&self, at: &LevelProgress<'_>, rules: &[SkewRule]) -> Result<PlanPart, Stopped> {
        let none = vec![None; rules.len()];
        Ok(self.flow(at, rules, &none)?.part())
    }

    /// Returns all picks that are left, if constraints accept them without a higher smallest count.
    fn all_left(
        &self,
        at: &LevelProgress<'_>,
        rules: &[SkewRule],
    ) -> Result<Option<PlanPart>, Stopped> {
        let left = at.progress.left;
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
        at: &mut LevelProgress<'_>,
        rules: &[SkewRule],
    ) -> Result<Option<PlanPart>, Stopped> {
        let next: Vec<_> = (0..rules.len()).map(|it| at.progress.next(it)).collect();
        let each = (0..rules.len()).map(|constraint| {
            let mut targets = vec![None; rules.len()];
            targets[constraint] = next[constraint];
            targets
        });
        for targets in std::iter::once(next.clone()).chain(each) {
            let part = self.flow(at, rules, &targets)?.part();
            for (cell, times) in &part {
                at.progress.pick(*cell, *times);
            }
            let raised = at.progress.rules() != rules;
            for (cell, times) in &part {
                at.progress.take_back(*cell, *times);
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
        at: &'c LevelProgress<'_>,
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
        let mut left = at.progress.left;
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
    fn network<'c>(&self, at: &'c LevelProgress<'_>, rules: &[SkewRule]) -> ClassFlow<'c> {
        let admits = |class: &&PickClass| {
            let first = class.cells.first();
            first.is_some_and(|cell| at.progress.admits(rules, *cell))
        };
        let classes: Vec<_> = at.classes.all.iter().filter(admits).collect();
        let sizes = classes.iter().map(|class| {
            let size = class.cells.len().saturating_mul(class.takes_each(rules));
            size.min(at.progress.left)
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
            let count = at.progress.count(constraint, value);
            arc.capacity = arc.capacity.min(rules[constraint].takes(count));
        }
        ClassFlow { classes, trees }
    }
}

impl LevelProgress<'_> {
    /// Returns how many pods a shared domain lacks to reach the target of its constraint.
    fn lacks(&self, domain: usize, targets: &[Option<u32>]) -> usize {
        let (constraint, value) = self.classes.domains[domain];
        let count = self.progress.count(constraint, value);
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
    fn gained(&self, at: &LevelProgress<'_>, targets: &[Option<u32>]) -> usize {
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

/// The cells of an outlook by class. The classes follow the picks.
#[derive(Debug, Clone)]
pub struct PickClasses<'o> {
    outlook: &'o Outlook,
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
    pub fn of(outlook: &'o Outlook, start: &PickProgress<'_>) -> Self {
        let mut domains = Vec::new();
        let constraints = outlook.constraints.iter().enumerate();
        let shared = constraints.map(|(index, constraint)| {
            let mut cells = vec![0_usize; constraint.counts.value_count()];
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

    /// Puts a cell into the class to which it belongs after the picks of `progress`.
    pub fn put(&mut self, cell: usize, progress: &PickProgress<'_>) {
        let marks = self.marks(cell, progress);
        let room = progress.room[cell];
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
    fn marks(&self, cell: usize, progress: &PickProgress<'_>) -> Vec<(DomainMark, bool)> {
        let cell = &self.outlook.cells[cell];
        let constraints = cell.judged_by.iter().zip(&cell.counts).enumerate();
        let marks = constraints.map(|(index, (value, counts))| {
            let mark = match self.shared[index][*value] {
                Some(domain) => DomainMark::Shared(domain),
                None => DomainMark::Own(progress.count(index, *value)),
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

/// The counts and the room after some picks.
#[derive(Debug, Clone)]
pub struct PickProgress<'o> {
    outlook: &'o Outlook,
    /// For each constraint, the counts of its values.
    counts: Vec<ChangingCounts>,
    /// For each cell, the number of further pods that fit.
    pub room: Vec<usize>,
    /// The number of further pods that are wanted.
    pub left: usize,
}

impl<'o> PickProgress<'o> {
    /// The progress before the first pick.
    pub fn of(outlook: &'o Outlook) -> Self {
        let constraints = outlook.constraints.iter();
        Self {
            counts: constraints.map(|it| it.counts.clone()).collect(),
            room: outlook.cells.iter().map(|cell| cell.room).collect(),
            left: outlook.wanted,
            outlook,
        }
    }

    /// Returns the rules of the constraints at their present smallest counts.
    pub fn rules(&self) -> Vec<SkewRule> {
        let constraints = self.outlook.constraints.iter().enumerate();
        let rules = constraints.map(|(index, it)| it.rule_at(self.smallest(index)));
        rules.collect()
    }

    /// The smallest count of a constraint.
    fn smallest(&self, constraint: usize) -> Option<u32> {
        self.counts[constraint].smallest()
    }

    /// The count that all domains of a constraint have to reach before its rule accepts more.
    /// `None` if no smallest count changes the rule.
    pub fn next(&self, constraint: usize) -> Option<u32> {
        let of = &self.outlook.constraints[constraint];
        let smallest = self.smallest(constraint)?;
        let next = smallest + 1;
        (of.rule_at(Some(next)) != of.rule_at(Some(smallest))).then_some(next)
    }

    /// The number of matching pods in a domain.
    pub fn count(&self, constraint: usize, domain: usize) -> u32 {
        self.counts[constraint].count(domain)
    }

    /// Returns the number of pods that all domains of a constraint together lack to reach a count.
    pub fn lacks(&self, constraint: usize, count: u32) -> usize {
        self.counts[constraint].below(count)
    }

    /// Returns whether a cell takes one more pod.
    pub fn admits(&self, rules: &[SkewRule], cell: usize) -> bool {
        let judged_by = self.outlook.cells[cell].judged_by.iter().enumerate();
        let mut all = judged_by.zip(rules);
        self.left > 0
            && self.room[cell] > 0
            && all.all(|((index, domain), rule)| rule.takes(self.count(index, *domain)) > 0)
    }

    /// Counts picks of a cell.
    pub fn pick(&mut self, cell: usize, times: usize) {
        self.room[cell] -= times;
        self.left -= times;
        let more = u32::try_from(times).unwrap_or(u32::MAX);
        self.recount(cell, |count| count.saturating_add(more));
    }

    /// Takes back picks of a cell.
    pub fn take_back(&mut self, cell: usize, times: usize) {
        self.room[cell] += times;
        self.left += times;
        let less = u32::try_from(times).unwrap_or(u32::MAX);
        self.recount(cell, |count| count.saturating_sub(less));
    }

    /// Changes the counts of the domains in which picks of a cell count.
    fn recount(&mut self, cell: usize, change: impl Fn(u32) -> u32) {
        let cell = &self.outlook.cells[cell];
        for (index, counts) in self.counts.iter_mut().enumerate() {
            if cell.counts[index] {
                counts.change(cell.judged_by[index], &change);
            }
        }
    }
}
