//! A stream that keeps blobs or keys by name, with a subject for each name; and the keys.

use async_nats::jetstream::message::{PublishMessage, StreamMessage};
use async_nats::jetstream::stream::{Config, Stream};
use futures::StreamExt;
use prost::bytes::Bytes;
use tracing::warn;

use super::connection::{Connection, unreachable};
use super::names::FleetName;
use super::publish::publish;
use super::stream::{Keeping, check_count, find, find_checked, make, of_leader};
use crate::{Error, Wait};

/// The stream with all blobs or all keys of a fleet.
#[derive(Clone)]
pub(super) struct NamedStream {
    connection: Connection,
    fleet: FleetName,
    kind: &'static str,
    config: Config,
}

impl NamedStream {
    /// Opens the stream, and makes it if it is absent. It keeps the last `most` messages of each
    /// name; with 0 all of them.
    pub(super) async fn open(
        connection: &Connection,
        fleet: &FleetName,
        keeping: &Keeping,
        (kind, most): (&'static str, i64),
    ) -> Result<Self, Error> {
        let config = keeping.named(fleet.stream(kind), fleet.subjects(kind), most);
        match find_checked(connection, &config).await {
            Err(Error::NotFound(_)) => make(connection, &config).await?,
            found => found?,
        }
        Ok(Self {
            connection: connection.clone(),
            fleet: fleet.clone(),
            kind,
            config,
        })
    }

    /// The name of the stream.
    pub(super) fn name(&self) -> &str {
        &self.config.name
    }

    /// Looks up the stream. It is made again if it is gone.
    pub(super) async fn find(&self) -> Result<Stream, Error> {
        match find(&self.connection, self.name()).await {
            Err(Error::NotFound(_)) => {
                make(&self.connection, &self.config).await?;
                warn!(
                    stream = self.name(),
                    "somebody has deleted what the fleet keeps: it begins anew"
                );
                find(&self.connection, self.name()).await
            }
            found => found,
        }
    }

    /// The subject of a name.
    pub(super) fn subject(&self, name: &str) -> String {
        self.fleet.subject(self.kind, name)
    }

    /// Sends a message under a name, and waits for its sequence number.
    pub(super) async fn publish(&self, name: &str, message: PublishMessage) -> Result<u64, Error> {
        let message = message.expected_stream(self.name());
        let sent = publish(&self.connection, self.subject(name), message).await;
        if matches!(sent, Err(Error::UnknownFate(_))) {
            // The stream may be gone. It is made again, so that the next attempt finds it.
            self.find().await?;
        }
        sent
    }

    /// The names that begin with `prefix`, each as `told` by its last message.
    pub(super) async fn list<T>(
        &self,
        prefix: &str,
        told: impl Fn(String, StreamMessage) -> T,
    ) -> Result<Vec<T>, Error> {
        let stream = self.find().await?;
        let subjects = stream
            .info_with_subjects(self.fleet.subjects(self.kind))
            .await;
        let mut subjects = subjects.map_err(unreachable)?;
        let mut found = Vec::new();
        let mut listed = 0;
        while let Some(subject) = subjects.next().await {
            listed += 1;
            check_count(listed)?;
            let (subject, _) = subject.map_err(unreachable)?;
            let name = self.fleet.name_of(self.kind, &subject);
            let Some(name) = name.filter(|name| name.starts_with(prefix)) else {
                continue;
            };
            let last = stream.get_last_raw_message_by_subject(&subject).await;
            if let Some(last) = of_leader(last)? {
                found.push(told(name, last));
            }
        }
        Ok(found)
    }
}

/// The keys of a fleet: small values that change by compare-and-set. NATS' own key-value store is a
/// stream like this. Its client reads from any server, also from one that is behind, and does not
/// recognize all error codes of a conflict.
#[derive(Clone)]
pub(super) struct NatsKeys(pub NamedStream);

impl crate::Keys for NatsKeys {
    fn get<'a>(&'a self, key: &'a str) -> Wait<'a, Option<(Bytes, u64)>> {
        Box::pin(async move {
            let stream = self.0.find().await?;
            let subject = self.0.subject(key);
            let last = of_leader(stream.get_last_raw_message_by_subject(&subject).await)?;
            Ok(last.map(|message| (message.payload, message.sequence)))
        })
    }

    fn set_if<'a>(&'a self, key: &'a str, revision: Option<u64>, value: Bytes) -> Wait<'a, u64> {
        let message = PublishMessage::build()
            .payload(value)
            .expected_last_subject_sequence(revision.unwrap_or(0));
        Box::pin(self.0.publish(key, message))
    }
}
