//! Replaces the live state by one that a client built aside, or the whole snapshot by one that was
//! built beside it, while it answers.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::commit::check_room;
use super::journal::{Aside, Change, Entry, Journal, NewState, Restoring, Whole};
use super::named::{Snapshot, Surroundings, Unobserved};
use super::offer::{Error, FeedSign, Fence, Update, check_revision};
use super::registry::Registry;
use super::turn::{WriteTurn, follow};
use crate::account::Purpose;
use crate::limits::Limits;
use crate::matching::{KubernetesVersion, VersionRules};
use crate::snapshot::clock::Moment;
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::resource_versions::{OtherCluster, ResourceVersions};
use crate::snapshot::state::revision::{Applied, State};

impl Snapshot {
    /// Puts a new state in place. `None` when the snapshot was deleted
    /// meanwhile.
    ///
    /// # Errors
    /// [`Error::Superseded`], [`Error::RevisionMismatch`], [`Error::OtherCluster`],
    /// [`Error::Contended`] and [`Error::NotStored`].
    pub(super) fn replace(
        &self,
        new: &Staged,
        (expected_revision, fence): (Option<i64>, Option<&Fence>),
        arrived: Moment,
    ) -> Result<Option<Update>, Error> {
        let Some(mut turn) = WriteTurn::take_unless_deleted(self) else {
            return Ok(None);
        };
        turn.attempt(|turn| {
            Fence::check(fence, self.name())?;
            let at = self.now();
            let before = turn.live.revision;
            check_revision(self.name(), before, expected_revision)?;
            let other = |other| Error::OtherCluster(self.name().to_owned(), other);
            let read = turn.live.resource_versions();
            let read = read.replaced_by(&new.resource_versions).map_err(other)?;
            let constraints = new.defaults.clone().or_else(|| Defaults::first(before));
            let known = turn.live.defaults();
            let defaults = known.after(constraints.as_ref(), new.version, &read);
            let mut entry = turn.entry();
            entry.after.revision = before + 1;
            entry.after.updated = at.wall;
            entry.after.synced = true;
            entry.after.defaults = Some(defaults.unwrap_or_else(|| Arc::clone(known)));
            entry.after.resource_versions = Some(Arc::new(read));
            let confirmed = turn.live.reservations.confirmed();
            entry.ended = new.new.state.arrived(confirmed);
            entry.change = Change::Replaced(Box::new(new.new.clone()));
            let feed = FeedSign {
                arrived,
                age: Duration::ZERO,
            };
            turn.change(entry, at, Some(feed))
        })
    }
}

/// A new state that is built aside, to be swapped in whole.
pub struct Staged {
    pub(super) new: NewState,
    pub(super) defaults: Option<Arc<Defaults>>,
    /// The version of Kubernetes to set.
    pub(super) version: Option<KubernetesVersion>,
    /// The versions up to which the feed has read its cluster.
    pub(super) resource_versions: ResourceVersions,
    /// The snapshot that the state will replace, if it exists.
    replaced: Weak<Snapshot>,
    /// The same state in the journal, if there is one.
    written: Option<WrittenAside>,
}

/// A state aside in a journal, given up unless it is taken.
struct WrittenAside {
    journal: Arc<dyn Journal>,
    aside: Aside,
    is_kept: bool,
}

impl Staged {
    /// An empty state, which is written to a journal as well if there is one, to replace that of a
    /// snapshot.
    ///
    /// # Errors
    /// [`Error::OverLimit`] and [`Error::NotStored`].
    pub(super) fn new(
        empty: State,
        journal: Option<&Arc<dyn Journal>>,
        replaced: Option<&Arc<Snapshot>>,
    ) -> Result<Self, Error> {
        // An empty state is small, but there may be many.
        empty.upkeep.account().check(Purpose::Objects, 0)?;
        let written = journal.map(|journal| {
            journal.open_aside().map(|aside| WrittenAside {
                journal: Arc::clone(journal),
                aside,
                is_kept: false,
            })
        });
        let written = written.transpose().map_err(Error::NotStored)?;
        let mut new = NewState::new(empty);
        new.aside = written.as_ref().map(|written| written.aside);
        Ok(Self {
            new,
            defaults: None,
            version: None,
            resource_versions: ResourceVersions::default(),
            replaced: replaced.map(Arc::downgrade).unwrap_or_default(),
            written,
        })
    }

    /// Notes that the state became that of a snapshot: the journal keeps its own copy of it.
    pub(super) fn keep(mut self) {
        if let Some(written) = &mut self.written {
            written.is_kept = true;
        }
    }

    /// Sets the version of Kubernetes for later batches, if one is given.
    pub fn set_version(&mut self, version: Option<KubernetesVersion>) {
        self.version = version.or(self.version);
    }

    /// Adds versions up to which the feed has read.
    ///
    /// # Errors
    /// They are of another cluster than those before, or than those of the snapshot.
    pub fn read_up_to(&mut self, versions: &ResourceVersions) -> Result<(), OtherCluster> {
        self.resource_versions = self.resource_versions.after(versions)?;
        match self.replaced.upgrade() {
            Some(snapshot) => {
                let read = Arc::clone(snapshot.state().resource_versions());
                read.replaced_by(versions).map(drop)
            }
            None => Ok(()),
        }
    }

    /// The rules for requests of pods: those of the version that is set, else of the snapshot that
    /// the state will replace.
    fn rules(&self) -> &'static VersionRules {
        let replaced = self.replaced.upgrade();
        let kept = || replaced.and_then(|snapshot| snapshot.state().defaults().version);
        VersionRules::of(self.version.or_else(kept))
    }

    /// Applies a batch to the state.
    ///
    /// # Errors
    /// [`Error::OverLimit`] when the state would grow too large, and [`Error::NotStored`].
    pub fn apply(
        &mut self,
        batch: &Batch,
        defaults: Option<Arc<Defaults>>,
        limits: &Limits,
    ) -> Result<Applied, Error> {
        let batch = &*batch.under(self.rules());
        check_room(&self.new.state, batch, limits)?;
        if let Some(WrittenAside { journal, aside, .. }) = &self.written {
            let written = journal.write_aside(*aside, batch);
            written.map_err(Error::NotStored)?;
        }
        let revision = self.new.state.revision + 1;
        let applied = self.new.state.apply(batch, revision);
        self.new.applied.add(applied);
        self.defaults = defaults.or(self.defaults.take());
        Ok(applied)
    }
}

impl Drop for WrittenAside {
    fn drop(&mut self) {
        if !self.is_kept {
            self.journal.drop_aside(self.aside);
        }
    }
}

/// An unpublished snapshot. [`Registry::supersede`] replaces the current one of its name by it.
pub struct Successor {
    /// The snapshot, with the services of the registry except its observer.
    snapshot: Snapshot,
}

impl Successor {
    /// Begins with the next snapshot of the name: this one is over.
    pub fn begin_again(&mut self) {
        let (name, expected) = (self.snapshot.name(), self.snapshot.is_expected());
        self.snapshot = Snapshot::new(name, expected, Arc::clone(&self.snapshot.around));
    }

    /// Applies entries. An entry that ends the snapshot is the last one.
    ///
    /// # Errors
    /// The reason why an entry does not fit. Then the successor is useless.
    pub fn apply(&mut self, entries: Vec<Entry>) -> Result<(), String> {
        let mut turn = WriteTurn::take(&self.snapshot);
        follow(&mut turn, entries)?;
        let is_over = turn.position.deleted;
        drop(turn);
        if is_over {
            self.begin_again();
        }
        Ok(())
    }

    /// A copy of everything; `None` where there is no snapshot.
    pub fn whole(&self) -> Option<Whole> {
        self.has_begun()
            .then(|| WriteTurn::take(&self.snapshot).whole())
    }

    fn has_begun(&self) -> bool {
        !self.snapshot.epoch().is_empty()
    }
}

impl Registry {
    /// Begins a snapshot that is built beside the one of this name: from a restored one, or without
    /// any history.
    pub fn successor(&self, name: &str, restoring: Option<Restoring>) -> Successor {
        let expected = self.expected.read().contains(name);
        let around = Arc::new(Surroundings {
            observer: Arc::new(Unobserved),
            ..Surroundings::clone(&self.around)
        });
        let snapshot = match restoring {
            Some(restoring) => Snapshot::restored(restoring, expected, around),
            None => Snapshot::new(name, expected, around),
        };
        Successor { snapshot }
    }

    /// Replaces the snapshot of its name, which is over. `then` is called before the old or the new
    /// snapshot can change.
    pub fn supersede(&self, successor: Successor, then: impl FnOnce()) {
        let has_begun = successor.has_begun();
        let mut snapshot = successor.snapshot;
        snapshot.around = Arc::clone(&self.around);
        let (name, synced) = (snapshot.name().to_owned(), snapshot.is_synced());
        let snapshot = Arc::new(snapshot);
        let old = self.get(&name).ok();
        let turn = old.as_deref().map(WriteTurn::take);
        let own = WriteTurn::take(&snapshot);
        if has_begun {
            self.snapshots.insert(name.clone(), Arc::clone(&snapshot));
            self.around.observer.snapshot_changed(&name, synced);
        }
        then();
        drop(own);
        if let Some(mut turn) = turn.filter(|turn| has_begun || !turn.snapshot.epoch().is_empty()) {
            turn.position.deleted = true;
            match has_begun {
                true => turn.snapshot.note_replaced(),
                false => turn.snapshot.note_deleted(),
            }
        }
        if let Some(old) = old.filter(|old| !has_begun && !old.epoch().is_empty()) {
            self.remove(&old);
        }
    }
}
