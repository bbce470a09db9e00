//! The streams of logs, and which of them is the log of a snapshot now.
//!
//! NATS deletes a stream by its name, without a condition. So the stream of a log has a name that no
//! later log gets, and a late deletion deletes no other one. The subject of the records says which
//! stream it is: NATS gives a subject to one stream.

use std::collections::HashMap;

use async_nats::jetstream::context::GetStreamByNameErrorKind;
use parking_lot::Mutex;

use super::connection::{Connection, unreachable};
use super::names::FleetName;
use super::stream::{Keeping, make};
use crate::Error;

/// The streams with the logs of a fleet.
pub(super) struct LogStreams {
    connection: Connection,
    fleet: FleetName,
    keeping: Keeping,
    /// The known streams, by snapshot.
    known: Mutex<HashMap<String, String>>,
}

impl LogStreams {
    pub(super) fn new(connection: Connection, fleet: FleetName, keeping: Keeping) -> Self {
        Self {
            connection,
            fleet,
            keeping,
            known: Mutex::default(),
        }
    }

    /// The stream of a snapshot, as far as is known.
    ///
    /// # Errors
    /// As of [`Self::look_up`].
    pub(super) async fn stream(&self, snapshot: &str) -> Result<String, Error> {
        let known = self.known.lock().get(snapshot).cloned();
        match known {
            Some(known) => Ok(known),
            None => self.look_up(snapshot).await,
        }
    }

    /// Forgets a stream that was not found. The next call looks it up again.
    pub(super) fn note(&self, snapshot: &str, error: &Error) {
        if matches!(error, Error::NotFound(_)) {
            self.known.lock().remove(snapshot);
        }
    }

    /// The present stream of a snapshot.
    ///
    /// # Errors
    /// [`Error::NotFound`] if it has none, [`Error::Unreachable`], and [`Error::Refused`] if a
    /// stream that is no log of the fleet takes the records.
    pub(super) async fn look_up(&self, snapshot: &str) -> Result<String, Error> {
        let subject = self.fleet.log_subject(snapshot);
        let found = self.connection.streams.stream_by_subject(subject).await;
        let stream = found.map_err(|error| match error.kind() {
            GetStreamByNameErrorKind::NotFound => Error::NotFound(snapshot.to_owned()),
            _ => unreachable(error),
        });
        let stream = stream.inspect_err(|error| self.note(snapshot, error))?;
        if self.fleet.log_of(&stream).is_none() {
            let why = format!("the stream {stream} takes the records of {snapshot}");
            return Err(Error::Refused(why));
        }
        let mut known = self.known.lock();
        known.insert(snapshot.to_owned(), stream.clone());
        Ok(stream)
    }

    /// The present stream of a snapshot. Makes one if there is none, because the first record of the
    /// log is to be written.
    ///
    /// # Errors
    /// As of [`Self::look_up`], and that a stream cannot be made.
    pub(super) async fn begin(&self, snapshot: &str) -> Result<String, Error> {
        loop {
            match self.look_up(snapshot).await {
                Err(Error::NotFound(_)) => {}
                found => return found,
            }
            let (name, subject) = (
                self.fleet.new_log_stream(snapshot),
                self.fleet.log_subject(snapshot),
            );
            match make(&self.connection, &self.keeping.log(name, subject)).await {
                // Another server may be first: then it is its stream.
                Ok(()) | Err(Error::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
