//! The use of a replica's own state directory: it holds all that the replica has read of the logs,
//! each record in one transaction with its place. A server that starts again reads the directory,
//! and then only later records of the logs. No promise depends on it: records that it lacks are
//! read from the log.

use std::time::Duration;

use prost::Message;

use super::directory::FoundSnapshot;
use super::server::Replica;
use super::track::{CheckpointRow, Reading, Track};
use crate::Error;
use crate::store::StoreError;
use evenkeel_core::snapshot::{Aside, Batch, Entry, Journal, Standing};

/// The reason why a state directory cannot be used beside a log.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The log cannot be asked now. The same may be tried again.
    #[error("{0}")]
    Unreachable(Error),
    /// The state directory cannot be read.
    #[error("{0}")]
    Unreadable(StoreError),
    /// A server without a log has written it.
    #[error(
        "the state directory holds snapshot {0:?} of a server without a log: save it with \
         `evenkeel snapshot save`, or give an empty directory"
    )]
    Foreign(String),
}

impl Replica {
    /// Finds out which snapshots of the state directory are continued by their logs. The
    /// others are read from the logs.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn examine_local(&self) -> Result<(), Unusable> {
        let Some(local) = &self.local else {
            return Ok(());
        };
        let mut found = Vec::new();
        for kept in local.store.kept().map_err(Unusable::Unreadable)? {
            let Some(place) = &kept.place else {
                return Err(Unusable::Foreign(kept.name));
            };
            let row = CheckpointRow::decode(&**place).unwrap_or_default();
            match self.continued(&kept.name, &row) {
                Ok(Some(age)) => found.push(FoundSnapshot {
                    stored: kept,
                    place: row,
                    age,
                }),
                Ok(None) => {
                    tracing::warn!(
                        snapshot = kept.name,
                        "its log does not continue the state directory: it is read anew"
                    );
                    local.note_behind(&kept.name);
                }
                Err(error) => return Err(Unusable::Unreachable(error)),
            }
        }
        *local.found.lock() = found;
        Ok(())
    }

    /// The time since the last record that the directory has of a snapshot; `None` if its log does
    /// not go on there.
    fn continued(&self, name: &str, row: &CheckpointRow) -> Result<Option<Duration>, Error> {
        let Some(mut reading) = row.reading(&*self.log, name) else {
            return Ok(None);
        };
        let track = self.track(name);
        match self.waiting.until(self.log.bounds(name)) {
            Ok(bounds) if self.continues(&track, row, &bounds)? => {
                let last = reading.at;
                Ok(Some(self.age_of(&track, &mut reading, last)))
            }
            Ok(_) | Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether a snapshot is to be restored from the state directory.
    pub fn is_local(&self, snapshot: &str) -> bool {
        let local = self.local.as_ref();
        local.is_some_and(|local| {
            let found = local.found.lock();
            found.iter().any(|found| found.stored.name == snapshot)
        })
    }

    /// Follows the logs of the snapshots that were restored, each from its place.
    pub fn resume(&self) {
        let Some(local) = &self.local else { return };
        for FoundSnapshot { stored, place, age } in std::mem::take(&mut *local.found.lock()) {
            let restored = self.registry().map(|registry| registry.get(&stored.name));
            if let Some(Ok(snapshot)) = restored {
                snapshot.grow_older(age);
            }
            if let Some(mut reading) = place.reading(&*self.log, &stored.name) {
                reading.stand_at(&stored.epoch, stored.sequence, stored.revision);
                Self::read_from(&self.track(&stored.name), reading);
            }
        }
    }

    /// Keeps the entries of a record that was read, or appended.
    pub(super) fn keep(&self, track: &Track, reading: &Reading, entries: &[Entry<'_>]) {
        let Some(local) = &self.local else { return };
        if entries.is_empty() || local.is_behind(&track.name) {
            return;
        }
        let place = CheckpointRow::of(reading).encode_to_vec();
        if let Err(error) = local.store.append_at(entries, place) {
            tracing::warn!(
                snapshot = track.name,
                %error,
                "the state directory is behind the log; it is written anew"
            );
            local.note_behind(&track.name);
        }
    }

    /// Begins a state aside in the state directory; `None` without one, or if the snapshot has to be
    /// written whole anyway, or the store fails.
    pub(super) fn open_local(&self, snapshot: &str) -> Option<Aside> {
        let local = self.local.as_ref()?;
        match local.is_behind(snapshot) {
            true => None,
            false => local.store.open_aside().ok(),
        }
    }

    /// Adds to a state aside in the state directory, if there is one. A failure shows when the
    /// state is to become a snapshot's.
    pub(super) fn add_local(&self, aside: Option<Aside>, batch: &Batch) {
        if let Some((local, aside)) = self.local.as_ref().zip(aside)
            && local.store.write_aside(aside, batch).is_err()
        {
            local.store.drop_aside(aside);
        }
    }

    /// Gives up a state aside in the state directory, if there is one.
    pub(super) fn drop_local(&self, aside: Option<Aside>) {
        if let Some((local, aside)) = self.local.as_ref().zip(aside) {
            local.store.drop_aside(aside);
        }
    }

    /// Returns whether the state directory has a snapshot only in part.
    pub fn is_local_behind(&self, name: &str) -> bool {
        self.local.as_ref().is_some_and(|it| it.is_behind(name))
    }

    /// Writes a snapshot whole to the state directory, if that is behind. Changes wait
    /// meanwhile; decisions do not.
    pub fn mend_local(&self, name: &str) {
        let Some(local) = self.local.as_ref().filter(|local| local.is_behind(name)) else {
            return;
        };
        let Some(snapshot) = self.registry().and_then(|registry| registry.get(name).ok()) else {
            return;
        };
        let track = self.track(name);
        let mended = snapshot.with_whole(|at: Standing<'_>, whole| {
            let place = self.place_of(&track, at)?;
            let mended = local.rewrite(&whole, &place);
            if mended.is_ok() {
                local.behind.lock().remove(name);
            }
            Some(mended)
        });
        match mended.flatten() {
            Some(Err(error)) => tracing::warn!(snapshot = name, %error, "no state is kept"),
            Some(Ok(())) => tracing::info!(snapshot = name, "the state directory is up to date"),
            // There are entries to apply first.
            None => {}
        }
    }
}
