//! A snapshot as it would be after imagined changes.

use std::collections::{BTreeSet, HashSet};

use super::named::Snapshot;
use crate::proto::v1;
use crate::proto::v1::change::Object;
use crate::snapshot::deadline::{Deadline, Stopped};
use crate::snapshot::objects::change::{Batch, Form, ObjectId};
use crate::snapshot::objects::reservation::{Hold, Serial};
use crate::snapshot::state::read_view::ReadView;
use crate::snapshot::state::revision::State;

/// A state and its imagined changes. It is dropped with the question for which it was made.
pub struct Imagined<'s> {
    state: State,
    deadline: &'s Deadline<'s>,
    names: Vec<Box<str>>,
    /// The number of picks that count in it.
    held: Serial,
}

/// A state with an overlay.
pub(super) struct Overlaid {
    /// The state.
    pub state: State,
    /// The deletes of the overlay that hit nothing, in its order.
    pub unknown_deletes: Vec<v1::ObjectReference>,
}

/// The number of the first pick in a plan: higher than that of any reservation that is made.
const FIRST_SERIAL: Serial = 1 << 63;

impl State {
    /// A clone to which an overlay was applied.
    ///
    /// # Errors
    /// [`Stopped`].
    pub(super) fn overlaid(
        &self,
        overlay: &Batch,
        deadline: &Deadline<'_>,
    ) -> Result<Overlaid, Stopped> {
        deadline.holds(self.copied_bytes(overlay))?;
        let reservations = &self.reservations;
        let ended = reservations.deletions(&reservations.taken_over(overlay));
        let with_ended = (!ended.is_empty()).then(|| overlay.clone().and(ended));
        let overlay = with_ended.as_ref().unwrap_or(overlay);
        let overlay = &*overlay.under(self.defaults().rules());
        let mut state = self.clone();
        let mut missed: HashSet<ObjectId<'_>> = HashSet::new();
        state.apply_until(overlay, 0, deadline, |change, changed| {
            if !changed && matches!(change.form, Form::Delete(_)) {
                missed.insert(change.id);
            }
        })?;
        state.revision = self.revision;
        let unknown = overlay.changes().filter_map(|change| match change.form {
            Form::Delete(uid) if missed.contains(&change.id) => change.id.reference(uid),
            _ => None,
        });
        let unknown_deletes = unknown.collect();
        Ok(Overlaid {
            state,
            unknown_deletes,
        })
    }
}

impl Snapshot {
    /// Runs a plan on a clone of one revision, which the plan may change, until `is_given_up`. It
    /// has the namespaces that hold something, those that are named, and those of an overlay, which
    /// is applied first. Its memory is on the account.
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
        let live = self.state();
        let deadline = live.deadline(is_given_up);
        let mut names: BTreeSet<Box<str>> = live.namespace_names().into_iter().collect();
        names.extend(namespaces.iter().map(|name| Box::from(*name)));
        let changed = overlay.changes().map(|change| change.id);
        let changed = changed.filter(|id| id.kind.is_kept_with_namespace());
        names.extend(changed.map(|id| Box::from(id.namespace)));
        if names.is_empty() {
            names.insert("default".into());
        }
        let state = match overlay.is_empty() {
            true => State::clone(&live),
            false => live.overlaid(overlay, &deadline)?.state,
        };
        plan(&mut Imagined {
            state,
            deadline: &deadline,
            names: names.into_iter().collect(),
            held: 0,
        })
    }
}

impl Imagined<'_> {
    /// The names of the namespaces, ascending.
    pub fn namespaces(&self) -> Vec<Box<str>> {
        self.names.clone()
    }

    /// Reads a namespace with the imagined changes; `None` if no namespace has this name.
    pub fn read<T>(&self, namespace: &str, read: impl FnOnce(ReadView<'_>) -> T) -> Option<T> {
        let at = self.names.binary_search_by(|name| (**name).cmp(namespace));
        let name = &self.names[at.ok()?];
        let others = Some(&*self.names);
        Some(read(self.state.read_view(name, others, self.deadline)))
    }

    /// Reads what all namespaces share.
    pub fn read_any<T>(&self, read: impl FnOnce(ReadView<'_>) -> T) -> T {
        let name = self.names.first().map_or("", |name| &**name);
        read(
            self.state
                .read_view(name, Some(&*self.names), self.deadline),
        )
    }

    /// Changes objects, which must be valid and in existing namespaces.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn change(&mut self, objects: impl IntoIterator<Item = Object>) -> Result<(), Stopped> {
        let changes = Batch::trusted(objects);
        self.deadline.holds(self.state.copied_bytes(&changes))?;
        let revision = self.state.revision;
        self.state
            .apply_until(&changes, revision, self.deadline, |_, _| {})
    }

    /// Tries changes. They are undone unless `run` returns that they are kept.
    ///
    /// # Errors
    /// Those of `run`.
    pub fn attempt<T>(
        &mut self,
        run: impl FnOnce(&mut Self) -> Result<(T, bool), Stopped>,
    ) -> Result<T, Stopped> {
        let before = (self.state.clone(), self.held);
        let (tried, is_kept) = run(self)?;
        if !is_kept {
            (self.state, self.held) = before;
        }
        Ok(tried)
    }

    /// The deadline of the plan.
    pub fn deadline(&self) -> &Deadline<'_> {
        self.deadline
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
}
