//! The log on NATS JetStream: a stream for each snapshot, one for blobs and one for keys (`named`).
//! No other module knows of NATS.
//!
//! `generations` knows which stream is the log of a snapshot now. Only `publish` writes messages, and
//! `follower` reads them. `fullness` finds full disks.

mod access;
mod connection;
mod follower;
mod generations;
mod named;
mod names;
mod stream;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::Stream;
use futures::TryStreamExt;
use prost::bytes::Bytes;
use tokio::time::timeout;
use tracing::warn;

use self::connection::{Connection, Fullness, unreachable};
use self::follower::{FollowedLog, NatsFollower};

use self::generations::Generations;
use self::named::NamedStream;
use self::stream::{bounds, find, time};
use super::Error;
use super::interface::{self, Bounds, FleetBounds, Log, Message, Wait};

pub use self::access::{Access, ConnectError};
pub use self::names::{BadFleet, FleetName};
pub use self::stream::Keeping;

/// The logs of a fleet on its nats-servers.
pub struct Nats {
    connection: Connection,
    fleet: FleetName,
    keeping: Keeping,
    blobs: NamedStream,
    keys: NamedStream,
    generations: Arc<Generations>,
    fullness: Fullness,
}

impl Nats {
    /// Connects, and makes the streams that the fleet shares if they are absent. The nats-servers
    /// list the connection as `name`.
    ///
    /// # Errors
    /// [`ConnectError`]; some are temporary, see [`ConnectError::is_temporary`].
    pub async fn connect(
        access: Access,
        fleet: FleetName,
        keeping: Keeping,
        name: &str,
    ) -> Result<Self, ConnectError> {
        let connection = Connection::open(&access, name).await?;
        let is_new = is_new(&connection, &fleet, keeping).await?;
        connection.check_permission(&fleet.probe()).await?;
        let blobs = NamedStream::open(&connection, &fleet, &keeping, "blobs").await?;
        let keys = NamedStream::open(&connection, &fleet, &keeping, "keys").await?;
        if is_new {
            warn!(%fleet, "the fleet is new: nothing was kept for it");
        }
        let generations = Generations::new(connection.clone(), fleet.clone(), keys.clone());
        Ok(Self {
            generations: Arc::new(generations),
            fullness: Fullness::new(access, connection.clone(), keeping.replicas),
            connection,
            fleet,
            keeping,
            blobs,
            keys,
        })
    }

    /// The generation of a snapshot's log. Makes its stream if it is absent, because the first record
    /// of the log is to be written.
    async fn begin(&self, name: &str) -> Result<u64, Error> {
        loop {
            let generation = self.generations.read(name).await?;
            let number = generation.number;
            let stream = self.fleet.log_stream(name, number);
            match find(&self.connection, &stream).await {
                Err(Error::NotFound(_)) => {}
                found => return found.map(|_| number),
            }
            // If this succeeds, the generation has not ended: its stream was never there.
            match self.generations.set(name, generation, number).await {
                Ok(()) => {
                    let subject = self.fleet.log_subject(name, number);
                    let config = self.keeping.log(stream, subject, name);
                    stream::make(&self.connection, &config).await?;
                    return Ok(number);
                }
                Err(Error::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn append(&self, name: &str, after: u64, message: Bytes) -> Result<u64, Error> {
        let number = match after {
            0 => self.begin(name).await?,
            _ => self.generations.number(name).await?,
        };
        let message = PublishMessage::build()
            .payload(message)
            .expected_stream(self.fleet.log_stream(name, number))
            .expected_last_sequence(after);
        let subject = self.fleet.log_subject(name, number);
        let sent = stream::publish(&self.connection, subject, message).await;
        if matches!(sent, Err(Error::UnknownFate(_))) {
            // If the stream is gone, another one may be the log by now.
            if let Err(gone @ Error::NotFound(_)) = self.find(name).await {
                return Err(gone);
            }
        }
        sent
    }

    /// The stream of a snapshot.
    async fn find(&self, name: &str) -> Result<Stream, Error> {
        let stream = self.generations.stream(name).await?;
        let found = find(&self.connection, &stream).await;
        found.inspect_err(|error| self.generations.note(name, error))
    }

    /// Deletes the stream of a snapshot if it ends with the message `last`. From then on the next
    /// generation is the log of the snapshot, even if the deletion fails.
    async fn remove(&self, name: &str, last: &Message) -> Result<(), Error> {
        let generation = self.generations.read(name).await?;
        let stream = self.fleet.log_stream(name, generation.number);
        let found = find(&self.connection, &stream).await?;
        let is_last = bounds(found.cached_info()).last == last.sequence;
        if !is_last || read_of_leader(&found, last.sequence).await?.bytes != last.bytes {
            return Err(Error::Conflict);
        }
        let next = generation.number + 1;
        self.generations.set(name, generation, next).await?;
        stream::delete(&self.connection, &stream).await
    }

    /// The names of all snapshots that have a log. A stream whose generation has ended was not
    /// deleted then: it is left out, and deleted now.
    async fn all_names(&self) -> Result<Vec<String>, Error> {
        let mut names = BTreeSet::new();
        for stream in stream::all_names(&self.connection).await? {
            let Some(log) = self.fleet.log_of(&stream) else {
                continue;
            };
            let name = match log.snapshot {
                Some(name) => Some(name),
                None => match find(&self.connection, &stream).await {
                    Ok(found) => stream::snapshot_of(found.cached_info()),
                    Err(Error::NotFound(_)) => None,
                    Err(error) => return Err(error),
                },
            };
            let Some(name) = name else { continue };
            if self.generations.has_ended(&name, log.generation) {
                stream::delete(&self.connection, &stream).await?;
            } else {
                names.insert(name);
            }
        }
        Ok(names.into_iter().collect())
    }

    async fn look_at_all(&self) -> Result<FleetBounds, Error> {
        let mut found = FleetBounds::default();
        let mut streams = self.connection.lists.streams();
        while let Some(info) = streams.try_next().await.map_err(unreachable)? {
            let (bounds, stream) = (bounds(&info), &info.config.name);
            match self.fleet.log_of(stream) {
                Some(log) => {
                    let name = stream::snapshot_of(&info).unwrap_or_default();
                    if !self.generations.has_ended(&name, log.generation) {
                        found.logs.insert(name, bounds);
                    }
                }
                None if [&self.blobs, &self.keys]
                    .iter()
                    .any(|it| it.name() == stream) =>
                {
                    found.beside.insert(stream.clone(), bounds);
                }
                None => {}
            }
        }
        for stream in [&self.blobs, &self.keys] {
            if !found.beside.contains_key(stream.name()) {
                stream.find().await?;
            }
        }
        Ok(found)
    }
}

/// Returns whether nothing is kept for a fleet yet.
///
/// # Errors
/// [`ConnectError::NoFleet`] if it may not be made, and that this cannot be found out.
async fn is_new(
    connection: &Connection,
    fleet: &FleetName,
    keeping: Keeping,
) -> Result<bool, ConnectError> {
    match find(connection, &fleet.stream("keys")).await {
        Ok(_) => return Ok(false),
        Err(Error::NotFound(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let streams = stream::all_names(connection).await?;
    let others: Vec<_> = streams
        .iter()
        .filter_map(|it| names::fleet_of(it))
        .collect();
    match keeping.replicas {
        0 => Err(ConnectError::NoFleet {
            fleet: fleet.to_string(),
            others: others.join(", "),
        }),
        _ => {
            if !others.is_empty() {
                warn!(%fleet, others = others.join(", "), "other fleets are kept here");
            }
            Ok(true)
        }
    }
}

/// Reads a message from the leader of a stream.
async fn read_of_leader(stream: &Stream, sequence: u64) -> Result<Message, Error> {
    let read = stream::of_leader(stream.get_raw_message(sequence).await)?;
    let read = read.ok_or_else(|| Error::NotFound("no message found".to_owned()))?;
    Ok(Message {
        sequence: read.sequence,
        at: SystemTime::from(read.time),
        bytes: read.payload,
    })
}

impl Log for Nats {
    fn names(&self) -> Wait<'_, Vec<String>> {
        Box::pin(self.all_names())
    }

    fn append_if<'a>(
        &'a self,
        name: &'a str,
        after: u64,
        message: Bytes,
        within: Duration,
    ) -> Wait<'a, u64> {
        Box::pin(async move {
            // Without a connection the client would send the message later, after the caller's
            // limit.
            self.connection.check_up()?;
            match timeout(within, self.append(name, after, message)).await {
                Ok(Err(error)) => Err(self.fullness.explain(error).await),
                Ok(appended) => appended,
                Err(elapsed) => Err(Error::UnknownFate(elapsed.to_string())),
            }
        })
    }

    fn follow(&self, name: &str, after: u64) -> Arc<dyn interface::Follower> {
        let log = FollowedLog {
            connection: self.connection.clone(),
            generations: Arc::clone(&self.generations),
            snapshot: name.to_owned(),
        };
        Arc::new(NatsFollower::new(log, after))
    }

    fn connection(&self) -> u64 {
        self.connection.number()
    }

    fn bounds<'a>(&'a self, name: &'a str) -> Wait<'a, Bounds> {
        Box::pin(async move {
            match self.find(name).await {
                Ok(stream) => Ok(bounds(stream.cached_info())),
                Err(error) => Err(self.fullness.explain(error).await),
            }
        })
    }

    fn time<'a>(&'a self, name: &'a str) -> Wait<'a, SystemTime> {
        Box::pin(async move {
            let told = async {
                let stream = self.generations.stream(name).await?;
                let told = time(&self.connection, &stream).await;
                told.inspect_err(|error| self.generations.note(name, error))
            };
            match told.await {
                Err(error) => Err(self.fullness.explain(error).await),
                told => told,
            }
        })
    }

    fn read<'a>(&'a self, name: &'a str, sequence: u64) -> Wait<'a, Message> {
        Box::pin(async move { read_of_leader(&self.find(name).await?, sequence).await })
    }

    fn survey(&self) -> Wait<'_, FleetBounds> {
        Box::pin(async move {
            match self.look_at_all().await {
                Err(error) => Err(self.fullness.explain(error).await),
                found => found,
            }
        })
    }

    fn troubles(&self) -> Vec<String> {
        self.connection.denied()
    }

    fn trim<'a>(&'a self, name: &'a str, before: u64) -> Wait<'a, ()> {
        Box::pin(async move {
            let stream = self.find(name).await?;
            let purged = stream.purge().sequence(before).await;
            purged.map(drop).map_err(unreachable)
        })
    }

    fn remove_if<'a>(&'a self, name: &'a str, last: &'a Message) -> Wait<'a, ()> {
        Box::pin(self.remove(name, last))
    }

    fn blobs(&self) -> &dyn interface::Blobs {
        &self.blobs
    }

    fn keys(&self) -> &dyn interface::Keys {
        &self.keys
    }
}
