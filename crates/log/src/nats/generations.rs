//! The generations of a snapshot's log. Each generation is a stream of its own, and a key tells the
//! present one.
//!
//! NATS deletes a stream by its name, without a condition. So the stream of a log that is made anew
//! has another name, with the next number: a late deletion never deletes the new stream. A key
//! holds the number, and changes before the stream is deleted.

use std::collections::HashMap;

use parking_lot::Mutex;
use prost::bytes::Bytes;

use super::connection::Connection;
use super::named::NamedStream;
use super::names::FleetName;
use super::stream::all_names;
use crate::{Error, Keys};

/// The generations of all snapshots of a fleet.
pub(super) struct Generations {
    connection: Connection,
    fleet: FleetName,
    keys: NamedStream,
    /// The highest known generation of each snapshot.
    known: Mutex<HashMap<String, u64>>,
}

/// A generation, as its key tells it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Generation {
    /// The number of the generation, from 0.
    pub number: u64,
    /// The revision of the key.
    revision: Option<u64>,
}

impl Generations {
    pub(super) fn new(connection: Connection, fleet: FleetName, keys: NamedStream) -> Self {
        Self {
            connection,
            fleet,
            keys,
            known: Mutex::default(),
        }
    }

    /// The stream of a snapshot, as far as is known.
    ///
    /// # Errors
    /// [`Error::Unreachable`], if no generation is known yet.
    pub(super) async fn stream(&self, snapshot: &str) -> Result<String, Error> {
        let number = self.number(snapshot).await?;
        Ok(self.fleet.log_stream(snapshot, number))
    }

    /// The present generation, as far as is known.
    ///
    /// # Errors
    /// As of [`Self::stream`].
    pub(super) async fn number(&self, snapshot: &str) -> Result<u64, Error> {
        let known = self.known.lock().get(snapshot).copied();
        match known {
            Some(known) => Ok(known),
            None => Ok(self.read(snapshot).await?.number),
        }
    }

    /// Forgets the known generation if its stream was not found. The next call reads it anew.
    pub(super) fn note(&self, snapshot: &str, error: &Error) {
        if matches!(error, Error::NotFound(_)) {
            self.known.lock().remove(snapshot);
        }
    }

    /// Returns whether a generation is known to have ended.
    pub(super) fn has_ended(&self, snapshot: &str, number: u64) -> bool {
        let known = self.known.lock();
        known.get(snapshot).is_some_and(|known| *known > number)
    }

    /// Reads the present generation.
    ///
    /// # Errors
    /// [`Error::Unreachable`], also for a key that this version cannot read.
    pub(super) async fn read(&self, snapshot: &str) -> Result<Generation, Error> {
        let found = Keys::get(&self.keys, &self.fleet.generation_key(snapshot)).await?;
        let (number, revision) = match found {
            None => (self.newest(snapshot).await?, None),
            Some((value, revision)) => (parse(&value)?, Some(revision)),
        };
        self.learn(snapshot, number);
        Ok(Generation { number, revision })
    }

    /// The generation of the newest stream of a snapshot, for when no key tells it: all keys may be
    /// lost. 0 without a stream.
    async fn newest(&self, snapshot: &str) -> Result<u64, Error> {
        let streams = all_names(&self.connection).await?;
        let generation = |stream: &String| {
            let generation = self.fleet.log_of(stream)?.generation;
            let is_its = self.fleet.log_stream(snapshot, generation) == *stream;
            is_its.then_some(generation)
        };
        Ok(streams.iter().filter_map(generation).max().unwrap_or(0))
    }

    /// Sets the present generation: again the one that was read, or the next one, which ends the
    /// former.
    ///
    /// # Errors
    /// [`Error::Conflict`] if somebody else was first, and [`Error::Unreachable`].
    pub(super) async fn set(
        &self,
        snapshot: &str,
        read: Generation,
        number: u64,
    ) -> Result<(), Error> {
        let key = self.fleet.generation_key(snapshot);
        let value = Bytes::from(number.to_string());
        match self.keys.set_if(&key, read.revision, value).await {
            Ok(_) => {
                self.learn(snapshot, number);
                Ok(())
            }
            // The next attempt reads whether the key was set.
            Err(Error::UnknownFate(why)) => Err(Error::Unreachable(why)),
            Err(error) => Err(error),
        }
    }

    fn learn(&self, snapshot: &str, number: u64) {
        let mut known = self.known.lock();
        let known = known.entry(snapshot.to_owned()).or_default();
        *known = number.max(*known);
    }
}

fn parse(value: &[u8]) -> Result<u64, Error> {
    let number = std::str::from_utf8(value).ok();
    let number = number.and_then(|text| text.parse().ok());
    number.ok_or_else(|| Error::Unreachable("the key of a log is no number".to_owned()))
}
