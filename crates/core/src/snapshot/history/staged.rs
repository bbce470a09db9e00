//! A state that is built aside.

use std::sync::{Arc, Weak};

use super::capacity::check_room;
use super::error::Error;
use super::journal::{Aside, Journal, NewState};
use super::named::Snapshot;
use crate::account::Purpose;
use crate::limits::Limits;
use crate::matching::{KubernetesVersion, VersionRules};
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::resource_versions::{OtherCluster, ResourceVersions};
use crate::snapshot::state::revision::{Applied, State};

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
