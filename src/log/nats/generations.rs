//! Which of the streams that a snapshot had one after the other has its log now.
//!
//! NATS deletes a stream by its name, and on no condition. So the stream of a log that
//! is made anew has another name, with the next number: what is deleted late is never
//! the new one. The number is a key, which changes before the stream is deleted.

use std::collections::HashMap;

use parking_lot::Mutex;
use prost::bytes::Bytes;

use super::connection::Connection;
use super::keys::NatsKeys;
use super::names::FleetName;
use super::stream::names;
use crate::log::{Error, Keys};

/// The generations of all snapshots of a fleet.
pub(super) struct Generations {
    connection: Connection,
    fleet: FleetName,
    keys: NatsKeys,
    /// The highest that is known to be the present one.
    known: Mutex<HashMap<String, u64>>,
}

/// A generation as it was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Generation {
    /// The number of the generation, from 0.
    pub number: u64,
    /// The revision of the key.
    revision: Option<u64>,
}

impl Generations {
    pub(super) fn new(connection: Connection, fleet: FleetName, keys: NatsKeys) -> Self {
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
    /// [`Error::Unreachable`], where nothing is known yet.
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

    /// Asks for the present generation anew where its stream was not found.
    pub(super) fn note_missing(&self, snapshot: &str) {
        self.known.lock().remove(snapshot);
    }

    /// Returns whether a generation is known to have ended.
    pub(super) fn has_ended(&self, snapshot: &str, number: u64) -> bool {
        let known = self.known.lock();
        known.get(snapshot).is_some_and(|known| *known > number)
    }

    /// The present generation.
    ///
    /// # Errors
    /// [`Error::Unreachable`], also of a key that this version cannot read.
    pub(super) async fn read(&self, snapshot: &str) -> Result<Generation, Error> {
        let found = self.keys.get(&self.fleet.generation_key(snapshot)).await?;
        let (number, revision) = match found {
            None => (self.newest(snapshot).await?, None),
            Some((value, revision)) => (parse(&value)?, Some(revision)),
        };
        self.note(snapshot, number);
        Ok(Generation { number, revision })
    }

    /// The generation of the newest stream that a snapshot has, where no key tells it: all of
    /// them may be lost. 0 without a stream.
    async fn newest(&self, snapshot: &str) -> Result<u64, Error> {
        let streams = names(&self.connection, &self.fleet.log_subjects()).await?;
        let generation = |stream: &String| {
            let generation = self.fleet.log_of(stream)?.generation;
            let is_its = self.fleet.log_stream(snapshot, generation) == *stream;
            is_its.then_some(generation)
        };
        Ok(streams.iter().filter_map(generation).max().unwrap_or(0))
    }

    /// Says which generation is the present one: that which was read, still, or the
    /// next one, so that the former has ended.
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
                self.note(snapshot, number);
                Ok(())
            }
            // Whether it was set is read when it is tried again.
            Err(Error::UnknownFate(why)) => Err(Error::Unreachable(why)),
            Err(error) => Err(error),
        }
    }

    fn note(&self, snapshot: &str, number: u64) {
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
