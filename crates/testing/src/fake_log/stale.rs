//! A leader that was cut off from the other servers. It goes on answering with the state that it
//! had, and takes no changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::faults::{Fate, full, lost};
use super::kept::{Append, StaleLeader, StoredValues, Stream, Streams};
use super::streams::FakeLog;
use evenkeel::log::interface::Error;

impl FakeLog {
    /// Returns a leader that is cut off from now on.
    pub fn cut_off(&self) -> StaleLeader {
        let streams = self.shared.streams.lock().by_name.clone();
        StaleLeader {
            streams: Arc::new(streams),
            values: Arc::new(self.shared.values.lock().clone()),
        }
    }

    /// Looks at the logs of the leader that this server reaches.
    pub(super) fn with_logs<T>(&self, look: impl FnOnce(&BTreeMap<String, Stream>) -> T) -> T {
        match self.faults.stale_leader() {
            Some(stale) => look(&stale.streams),
            None => look(&self.shared.streams.lock().by_name),
        }
    }

    /// Looks at one log of that leader.
    pub(super) fn with_log<T>(
        &self,
        name: &str,
        look: impl FnOnce(&Stream) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.with_logs(|logs| match logs.get(name) {
            Some(log) => look(log),
            None => Err(Error::NotFound(name.to_owned())),
        })
    }

    /// Looks at the blobs and keys of that leader.
    pub(super) fn with_values<T>(&self, look: impl FnOnce(&StoredValues) -> T) -> T {
        match self.faults.stale_leader() {
            Some(stale) => look(&stale.values),
            None => look(&self.shared.values.lock()),
        }
    }

    /// Returns the error of an append to a leader that was cut off. The append may still arrive
    /// later: that leader may lead the other servers again.
    pub(super) fn refuse(
        stale: &StaleLeader,
        append: Append,
        fate: Fate,
        streams: &mut Streams,
    ) -> Error {
        let last = stale.streams.get(&append.name).map_or(0, Stream::last);
        if last != append.after {
            return Error::Conflict;
        }
        match fate {
            // The leader checks its own space, and asks no other server.
            Fate::Full => return full(),
            Fate::Late => streams.late.push(append),
            _ => {}
        }
        lost()
    }
}
