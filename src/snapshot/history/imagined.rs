//! A snapshot as it would be after imagined changes.

use std::collections::BTreeSet;

use super::named::Snapshot;
use crate::proto::v1::change::Object;
use crate::snapshot::deadline::{Deadline, Stopped};
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::reservation::{Hold, Serial};
use crate::snapshot::state::fork::Fork;
use crate::snapshot::state::read_view::ReadView;

/// All namespaces of one revision, and their imagined changes. It is dropped with the question for
/// which it was made.
pub struct Imagined<'s> {
    fork: Fork<'s>,
    deadline: &'s Deadline<'s>,
    names: Vec<Box<str>>,
    is_changed: bool,
    /// The number of picks that count in it.
    held: Serial,
}

/// The number of the first pick in a plan: higher than that of any reservation that is made.
const FIRST_SERIAL: Serial = 1 << 63;

impl Snapshot {
    /// Runs a plan on a copy of one revision, which the plan may change, until
    /// `is_given_up`. It has the namespaces that hold something, those that are named, and those
    /// of an overlay, which is applied first. Its memory is on the account.
    ///
    /// # Errors
    /// Those of [`Self::read_until`], or of the plan.
    pub fn imagine<T, E: From<Stopped>>(
        &self,
        namespaces: &[&str],
        overlay: &Batch,
        is_given_up: &dyn Fn() -> bool,
        plan: impl FnOnce(&mut Imagined<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let live = self.live();
        let (names, fork, deadline) = self.at_one_revision(&live, |live| {
            let mut names: BTreeSet<Box<str>> = live.namespace_names().into_iter().collect();
            names.extend(namespaces.iter().map(|name| Box::from(*name)));
            let changed = overlay.changes().map(|change| change.id);
            let changed = changed.filter(|id| id.kind.is_in_shard());
            names.extend(changed.map(|id| Box::from(id.namespace)));
            if names.is_empty() {
                names.insert("default".into());
            }
            let names: Vec<Box<str>> = names.into_iter().collect();
            let deadline = live.deadline(is_given_up);
            let fork = live.fork(&names[0], false);
            let fork = fork.with_others(names[1..].iter().cloned(), &deadline);
            (names, fork, deadline)
        });
        let mut imagined = Imagined {
            fork: fork?,
            deadline: &deadline,
            names,
            is_changed: false,
            held: 0,
        };
        if !overlay.is_empty() {
            let taken = self.reservation_table().taken_over(overlay);
            let overlay = self.with_deletions(overlay, &taken);
            imagined.step(&overlay.under(live.defaults().rules()))?;
        }
        let planned = plan(&mut imagined);
        live.upkeep.discarded.drop_all();
        planned
    }
}

impl Imagined<'_> {
    /// The names of the namespaces, ascending.
    pub fn namespaces(&self) -> Vec<Box<str>> {
        self.names.clone()
    }

    /// Reads a namespace with the imagined changes; `None` if no namespace has this name.
    pub fn read<T>(&mut self, namespace: &str, read: impl FnOnce(ReadView<'_>) -> T) -> Option<T> {
        let is_there = self.fork.turn_to(namespace);
        is_there.then(|| read(self.fork.read_view(self.deadline)))
    }

    /// Changes objects, which must be valid and in existing namespaces.
    pub fn change(&mut self, objects: impl IntoIterator<Item = Object>) -> Result<(), Stopped> {
        self.step(&Batch::trusted(objects))
    }

    /// Makes picks on nodes count as they do while they are held. Their namespace must exist.
    pub fn hold<'n>(
        &mut self,
        hold: &Hold,
        nodes: impl Iterator<Item = &'n str>,
    ) -> Result<(), Stopped> {
        let serials = FIRST_SERIAL + self.held..;
        let pods: Vec<Object> = serials
            .zip(nodes)
            .map(|(serial, node)| hold.pod(serial, node, ""))
            .collect();
        self.held += pods.len() as Serial;
        self.change(pods)
    }

    fn step(&mut self, changes: &Batch) -> Result<(), Stopped> {
        let is_first = !std::mem::replace(&mut self.is_changed, true);
        self.fork.step(changes, is_first, self.deadline)
    }
}
