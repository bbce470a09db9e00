//! A leader that was cut off from the others: it goes on answering with what it had, and
//! takes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::faults::{Fate, full, lost};
use super::kept::{Append, BlobsAndKeys, StaleLeader, Stream, Streams};
use super::streams::FakeLog;
use crate::log::interface::Error;

impl FakeLog {
    /// A leader that is cut off now.
    pub fn cut_off(&self) -> StaleLeader {
        let streams = self.shared.streams.lock().by_name.clone();
        StaleLeader {
            streams: Arc::new(streams),
            keeping: Arc::new(self.shared.keeping.lock().clone()),
        }
    }

    /// Looks at the logs that the leader has which is reached.
    pub(super) fn with_logs<T>(&self, look: impl FnOnce(&BTreeMap<String, Stream>) -> T) -> T {
        match self.faults.stale_leader() {
            Some(stale) => look(&stale.streams),
            None => look(&self.shared.streams.lock().by_name),
        }
    }

    /// Looks at a log, likewise.
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

    /// Looks at blobs and keys, likewise.
    pub(super) fn with_keeping<T>(&self, look: impl FnOnce(&BlobsAndKeys) -> T) -> T {
        match self.faults.stale_leader() {
            Some(stale) => look(&stale.keeping),
            None => look(&self.shared.keeping.lock()),
        }
    }

    /// Returns what an append comes to at a leader that was cut off. It may arrive later all the
    /// same: that leader may come to lead the others again.
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
            // It looks how much it has itself, and asks nobody.
            Fate::Full => return full(),
            Fate::Late => streams.late.push(append),
            _ => {}
        }
        lost()
    }
}
