//! The log on NATS JetStream: a stream for each snapshot, one for blobs and one for keys. No other
//! module knows of NATS.
//!
//! `generations` knows which stream is the log of a snapshot now. Only `publish` writes messages,
//! `follower` reads ahead of its readers, and `fullness` finds full disks. `blobs` and keys are
//! streams too (`named`), because the stores of NATS read from servers that may be behind.

mod access;
mod blobs;
mod connection;
mod follower;
mod fullness;
mod generations;
mod named;
mod names;
mod publish;
mod stream;
mod version;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, Stream};
use parking_lot::Mutex;
use prost::bytes::Bytes;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tracing::warn;

use self::blobs::NatsBlobs;
use self::connection::{Connection, unreachable};
use self::follower::NatsFollower;
use self::fullness::Fullness;
use self::generations::Generations;
use self::named::{NamedStream, NatsKeys};
use self::stream::{bounds, find, time};
use super::Error;
use super::interface::{self, Bounds, FleetBounds, Log, Message, Wait};

pub use self::access::{Access, ConnectError};
pub use self::names::{BadFleet, FleetName};
pub use self::stream::Keeping;
pub use self::version::TooOld;

/// The logs of a fleet on its nats-servers.
pub struct Nats {
    connection: Connection,
    fleet: FleetName,
    keeping: Keeping,
    blobs: NatsBlobs,
    keys: NatsKeys,
    generations: Arc<Generations>,
    /// Names of the streams whose settings were checked.
    checked: Mutex<HashSet<String>>,
    fullness: Fullness,
    runtime: Handle,
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
        let open = |kind| NamedStream::open(&connection, &fleet, &keeping, kind);
        let blobs = NatsBlobs(open(("blobs", 0)).await?);
        let keys = NatsKeys(open(("keys", 1)).await?);
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
            checked: Mutex::default(),
            runtime: Handle::current(),
        })
    }

    /// Returns the settings that the stream of a snapshot has to have in a generation.
    fn config(&self, name: &str, generation: u64) -> Config {
        let stream = self.fleet.log_stream(name, generation);
        let subject = self.fleet.log_subject(name, generation);
        self.keeping.log(stream, subject, name)
    }

    /// The settings of the stream of a snapshot, which are checked once.
    async fn prepare(&self, name: &str) -> Result<Config, Error> {
        let config = self.config(name, self.generations.number(name).await?);
        let is_checked = self.checked.lock().contains(&config.name);
        if !is_checked {
            let found = stream::find_checked(&self.connection, &config).await;
            found.inspect_err(|error| self.note(name, error))?;
            self.checked.lock().insert(config.name.clone());
        }
        Ok(config)
    }

    /// The settings of the stream of a snapshot. Makes the stream if it is absent, because the
    /// first record of the log is to be written.
    async fn begin(&self, name: &str) -> Result<Config, Error> {
        loop {
            let generation = self.generations.read(name).await?;
            let config = self.config(name, generation.number);
            match stream::find_checked(&self.connection, &config).await {
                Err(Error::NotFound(_)) => {}
                found => return found.map(|()| config),
            }
            // If this succeeds, the generation has not ended: its stream was never there.
            match self
                .generations
                .set(name, generation, generation.number)
                .await
            {
                Ok(()) => {
                    stream::make(&self.connection, &config).await?;
                    return Ok(config);
                }
                Err(Error::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn append(&self, name: &str, after: u64, message: Bytes) -> Result<u64, Error> {
        let config = match after {
            0 => self.begin(name).await?,
            _ => self.prepare(name).await?,
        };
        let message = PublishMessage::build()
            .payload(message)
            .expected_stream(&config.name)
            .expected_last_sequence(after);
        let subject = config.subjects.into_iter().next().unwrap_or_default();
        publish::publish(&self.connection, subject, message).await
    }

    /// The stream of a snapshot.
    async fn find(&self, name: &str) -> Result<Stream, Error> {
        let stream = self.generations.stream(name).await?;
        let found = find(&self.connection, &stream).await;
        found.inspect_err(|error| self.note(name, error))
    }

    /// Notes that the stream of a snapshot is missing, if the error says so.
    fn note(&self, name: &str, error: &Error) {
        if matches!(error, Error::NotFound(_)) {
            self.generations.note_missing(name);
        }
    }

    /// Deletes the stream of a snapshot if it ends with the message `last`. From then on the next
    /// generation is the log of the snapshot, even if the deletion fails.
    async fn remove(&self, name: &str, last: &Message) -> Result<(), Error> {
        let generation = self.generations.read(name).await?;
        let stream = self.fleet.log_stream(name, generation.number);
        let found = find(&self.connection, &stream).await?;
        if bounds(found.cached_info()).last != last.sequence {
            return Err(Error::Conflict);
        }
        if read_of_leader(&found, last.sequence).await?.bytes != last.bytes {
            return Err(Error::Conflict);
        }
        let next = generation.number + 1;
        self.generations.set(name, generation, next).await?;
        self.checked.lock().remove(&stream);
        stream::delete(&self.connection, &stream).await
    }

    /// The snapshots whose logs these streams are. A stream whose generation has ended was not
    /// deleted then: it is left out, and deleted now.
    async fn snapshots(&self, streams: &[String]) -> Result<BTreeSet<String>, Error> {
        let mut names = BTreeSet::new();
        for stream in streams {
            let Some(log) = self.fleet.log_of(stream) else {
                continue;
            };
            let Some(name) = self.snapshot_of(stream, log.snapshot).await? else {
                continue;
            };
            if self.generations.has_ended(&name, log.generation) {
                stream::delete(&self.connection, stream).await?;
            } else {
                names.insert(name);
            }
        }
        Ok(names)
    }

    async fn look_at_all(&self) -> Result<FleetBounds, Error> {
        let mut found = FleetBounds::default();
        for info in stream::list(&self.connection, &self.fleet.all_subjects()).await? {
            let bounds = bounds(&info);
            match self.fleet.log_of(&info.config.name) {
                Some(log) => {
                    let told = info.config.metadata.get(stream::SNAPSHOT).cloned();
                    let name = log.snapshot.or(told).unwrap_or_default();
                    if !self.generations.has_ended(&name, log.generation) {
                        found.logs.insert(name, bounds);
                    }
                }
                None => {
                    found.beside.insert(info.config.name, bounds);
                }
            }
        }
        for stream in [&self.blobs.0, &self.keys.0] {
            if !found.beside.contains_key(stream.name()) {
                stream.find().await?;
            }
        }
        Ok(found)
    }

    /// The name of the snapshot whose log a stream is. The metadata tells it if the name of the
    /// stream does not.
    async fn snapshot_of(
        &self,
        stream: &str,
        told: Option<String>,
    ) -> Result<Option<String>, Error> {
        if told.is_some() {
            return Ok(told);
        }
        match find(&self.connection, stream).await {
            Ok(stream) => {
                let metadata = &stream.cached_info().config.metadata;
                Ok(metadata.get(stream::SNAPSHOT).cloned())
            }
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
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
    let streams = stream::names(connection, "evk.*.keys.*").await?;
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
        Box::pin(async move {
            let subjects = self.fleet.log_subjects();
            let streams = stream::names(&self.connection, &subjects).await?;
            Ok(self.snapshots(&streams).await?.into_iter().collect())
        })
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
        let log = (Arc::clone(&self.generations), name.to_owned());
        let connection = self.connection.clone();
        Arc::new(NatsFollower::start(connection, log, after, &self.runtime))
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
                told.inspect_err(|error| self.note(name, error))
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
        Box::pin(self.look_at_all())
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
