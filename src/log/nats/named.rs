//! A stream that keeps blobs or keys by name, with a subject for each name.

use async_nats::jetstream::message::{PublishMessage, StreamMessage};
use async_nats::jetstream::stream::{Config, Stream};
use futures::StreamExt;
use tracing::warn;

use super::connection::{Connection, unreachable};
use super::names::FleetName;
use super::publish::publish;
use super::stream::{Keeping, check_count, find, find_or_make, make, of_leader};
use crate::log::Error;

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
        find_or_make(connection, &config).await?;
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

    /// The last message of a subject that the leader has.
    pub(super) async fn last(
        &self,
        stream: &Stream,
        subject: &str,
    ) -> Result<Option<StreamMessage>, Error> {
        of_leader(stream.get_last_raw_message_by_subject(subject).await)
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
            if let Some(last) = self.last(&stream, &subject).await? {
                found.push(told(name, last));
            }
        }
        Ok(found)
    }
}
