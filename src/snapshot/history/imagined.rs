//! A snapshot as it would be after changes that nobody makes.

use super::named::Snapshot;
use crate::proto::v1::change::Object;
use crate::snapshot::budget::{Budget, Delay};
use crate::snapshot::objects::change::Batch;
use crate::snapshot::state::fork::Fork;
use crate::snapshot::state::read_view::ReadView;

/// All namespaces of one revision, and what is changed in them. It goes with the
/// question for which it was made.
pub struct Imagined<'s> {
    fork: Fork<'s>,
    budget: &'s Budget<'s>,
    names: Vec<Box<str>>,
    is_changed: bool,
}

impl Snapshot {
    /// Runs a plan on a copy of one revision, which the plan may change, until
    /// `is_given_up`. Its memory is on the account.
    ///
    /// # Errors
    /// Those of [`Self::read_until`].
    pub fn imagine<T>(
        &self,
        is_given_up: &dyn Fn() -> bool,
        plan: impl FnOnce(&mut Imagined<'_>) -> T,
    ) -> Result<T, Delay> {
        let live = self.live();
        let budget = live.budget(is_given_up);
        let (names, mut forks) = self.at_one_revision(&live, |live| {
            let mut names = live.namespace_names();
            if names.is_empty() {
                names.push("default".into());
            }
            let names: Vec<_> = names
                .into_iter()
                .take_while(|_| budget.holds(Fork::BYTES))
                .collect();
            let forks: Vec<_> = names.iter().map(|name| live.fork(name, false)).collect();
            (names, forks)
        });
        let first = forks.pop();
        let planned = first.map(|first| {
            let mut imagined = Imagined {
                fork: first.with_others(forks.into_iter()),
                budget: &budget,
                names,
                is_changed: false,
            };
            plan(&mut imagined)
        });
        live.upkeep.discarded().drop_all();
        match (budget.delay(), planned) {
            (None, Some(planned)) => Ok(planned),
            (delay, _) => Err(delay.unwrap_or(Delay::Long)),
        }
    }
}

impl Imagined<'_> {
    /// The namespaces, ascending by name.
    pub fn namespaces(&self) -> Vec<Box<str>> {
        self.names.clone()
    }

    /// Reads one of the namespaces as it would be; `None` where there is none of this
    /// name.
    pub fn read<T>(&mut self, namespace: &str, read: impl FnOnce(ReadView<'_>) -> T) -> Option<T> {
        let is_there = self.fork.turn_to(namespace);
        is_there.then(|| read(self.fork.read_view(self.budget)))
    }

    /// Changes objects, all of which are valid and in namespaces that are there.
    pub fn change(&mut self, objects: impl IntoIterator<Item = Object>) {
        let is_first = !std::mem::replace(&mut self.is_changed, true);
        self.fork
            .step(&Batch::trusted(objects), is_first, self.budget);
    }
}
