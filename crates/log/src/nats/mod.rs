//! The log on NATS JetStream: a stream for each snapshot, one for blobs and one for keys (`named`).
//! No other module knows of NATS.
//!
//! `logs` knows which stream is the log of a snapshot now. Only `publish` writes messages, and
//! `follower` reads them. `fullness` finds full disks.

mod access;
mod connection;
mod follower;
mod logs;
mod named;
mod names;
mod stream;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Info, Stream};
use futures::TryStreamExt;
use prost::bytes::Bytes;
use tokio::time::timeout;
use tracing::warn;

use self::connection::{Connection, Fullness, unreachable};
use self::follower::{FollowedLog, NatsFollower};
use self::logs::LogStreams;
use self::named::NamedStream;
use self::stream::{bounds, find, timed_bounds};
use super::Error;
use super::interface::{self, Bounds, FleetBounds, Log, Message, Wait};

pub use self::access::{Access, ConnectError};
pub use self::names::{BadFleet, FleetName};
pub use self::stream::Keeping;

/// The logs of a fleet on its nats-servers.
pub struct Nats {
    connection: Connection,
    fleet: FleetName,
    blobs: NamedStream,
    keys: NamedStream,
    logs: Arc<LogStreams>,
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
        let logs = LogStreams::new(connection.clone(), fleet.clone(), keeping);
        Ok(Self {
            logs: Arc::new(logs),
            fullness: Fullness::new(access, connection.clone(), keeping.replicas),
            connection,
            fleet,
            blobs,
            keys,
        })
    }

    async fn append(&self, name: &str, after: u64, message: Bytes) -> Result<u64, Error> {
        let stream = match after {
            0 => self.logs.begin(name).await?,
            _ => self.logs.stream(name).await?,
        };
        let message = PublishMessage::build()
            .payload(message)
            .expected_stream(stream)
            .expected_last_sequence(after);
        let subject = self.fleet.log_subject(name);
        let sent = stream::publish(&self.connection, subject, message).await;
        if matches!(sent, Err(Error::UnknownFate(_))) {
            // If the stream is gone, another one may be the log by now.
            if let Err(gone @ Error::NotFound(_)) = self.find(name).await {
                return Err(gone);
            }
        }
        sent.inspect_err(|error| self.logs.note(name, error))
    }

    /// Does a call. Its error says if the disks of the nats-servers are full.
    async fn explained<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        match call.await {
            Err(error) => Err(self.fullness.explain(error).await),
            done => done,
        }
    }

    /// The stream of a snapshot.
    async fn find(&self, name: &str) -> Result<Stream, Error> {
        let stream = self.logs.stream(name).await?;
        let found = find(&self.connection, &stream).await;
        found.inspect_err(|error| self.logs.note(name, error))
    }

    /// Deletes the stream of a snapshot if it ends with the message `last`.
    async fn remove(&self, name: &str, last: &Message) -> Result<(), Error> {
        let stream = self.logs.look_up(name).await?;
        let found = find(&self.connection, &stream).await?;
        let is_last = bounds(found.cached_info()).last == last.sequence;
        if !is_last || read_of_leader(&found, last.sequence).await?.bytes != last.bytes {
            return Err(Error::Conflict);
        }
        stream::delete(&self.connection, &stream).await
    }

    /// The names of all snapshots that have a log.
    async fn all_names(&self) -> Result<Vec<String>, Error> {
        let mut names = BTreeSet::new();
        for stream in stream::all_names(&self.connection).await? {
            match self.fleet.log_of(&stream) {
                None => {}
                Some(Some(name)) => {
                    names.insert(name);
                }
                Some(None) => match find(&self.connection, &stream).await {
                    Ok(found) => names.extend(self.snapshot_of(found.cached_info())),
                    Err(Error::NotFound(_)) => {}
                    Err(error) => return Err(error),
                },
            }
        }
        Ok(names.into_iter().collect())
    }

    /// The snapshot whose log a stream is.
    fn snapshot_of(&self, info: &Info) -> Option<String> {
        let subject = info.config.subjects.first()?;
        self.fleet.name_of("log", subject)
    }

    async fn look_at_all(&self) -> Result<FleetBounds, Error> {
        let mut found = FleetBounds::default();
        let mut streams = self.connection.lists.streams();
        while let Some(info) = streams.try_next().await.map_err(unreachable)? {
            let (bounds, stream) = (bounds(&info), &info.config.name);
            if self.fleet.log_of(stream).is_some() {
                let name = self.snapshot_of(&info);
                found.logs.extend(name.map(|name| (name, bounds)));
            } else if [self.blobs.name(), self.keys.name()].contains(&&**stream) {
                found.beside.insert(stream.clone(), bounds);
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
            let append = async {
                let appended = timeout(within, self.append(name, after, message)).await;
                appended.unwrap_or_else(|elapsed| Err(Error::UnknownFate(elapsed.to_string())))
            };
            self.explained(append).await
        })
    }

    fn follow(&self, name: &str, after: u64) -> Arc<dyn interface::Follower> {
        let log = FollowedLog {
            connection: self.connection.clone(),
            streams: Arc::clone(&self.logs),
            snapshot: name.to_owned(),
        };
        Arc::new(NatsFollower::new(log, after))
    }

    fn connection(&self) -> u64 {
        self.connection.number()
    }

    fn bounds<'a>(&'a self, name: &'a str) -> Wait<'a, Bounds> {
        Box::pin(self.explained(async {
            let stream = self.logs.stream(name).await?;
            let told = timed_bounds(&self.connection, &stream).await;
            told.inspect_err(|error| self.logs.note(name, error))
        }))
    }

    fn read<'a>(&'a self, name: &'a str, sequence: u64) -> Wait<'a, Message> {
        Box::pin(async move { read_of_leader(&self.find(name).await?, sequence).await })
    }

    fn survey(&self) -> Wait<'_, FleetBounds> {
        Box::pin(self.explained(self.look_at_all()))
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

    fn blobs(&self) -> &dyn interface::Values {
        &self.blobs
    }

    fn keys(&self) -> &dyn interface::Values {
        &self.keys
    }
}
