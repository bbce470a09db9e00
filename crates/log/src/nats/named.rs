//! A stream that keeps a message under each name: the blobs or the keys of a fleet.
//!
//! NATS' object store and key-value store are streams like this. They are not used: the object
//! store leaves a message behind for each blob that was dropped, the client of both reads from any
//! server, also from one that is behind, and tells the cause of an error only as text.

use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, Stream};
use futures::StreamExt;
use prost::bytes::Bytes;
use tracing::warn;

use super::connection::{Connection, unreachable};
use super::names::FleetName;
use super::stream::publish;
use super::stream::{Keeping, find, find_checked, make, of_leader};
use crate::{Error, Values, Wait};

/// The stream with all blobs or all keys of a fleet.
#[derive(Clone)]
pub(super) struct NamedStream {
    connection: Connection,
    fleet: FleetName,
    kind: &'static str,
    config: Config,
}

impl NamedStream {
    /// Opens the stream, and makes it if it is absent.
    pub(super) async fn open(
        connection: &Connection,
        fleet: &FleetName,
        keeping: &Keeping,
        kind: &'static str,
    ) -> Result<Self, Error> {
        let config = keeping.named(fleet.stream(kind), fleet.subjects(kind));
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
    fn subject(&self, name: &str) -> String {
        self.fleet.subject(self.kind, name)
    }
}

impl Values for NamedStream {
    fn get<'a>(&'a self, name: &'a str) -> Wait<'a, Option<(Bytes, u64)>> {
        Box::pin(async move {
            let stream = self.find().await?;
            let subject = self.subject(name);
            let last = of_leader(stream.get_last_raw_message_by_subject(&subject).await)?;
            Ok(last.map(|message| (message.payload, message.sequence)))
        })
    }

    fn set_if<'a>(&'a self, name: &'a str, revision: Option<u64>, value: Bytes) -> Wait<'a, u64> {
        let message = PublishMessage::build()
            .payload(value)
            .expected_stream(self.name())
            .expected_last_subject_sequence(revision.unwrap_or(0));
        Box::pin(async move {
            let sent = publish(&self.connection, self.subject(name), message).await;
            if matches!(sent, Err(Error::UnknownFate(_))) {
                // The stream may be gone. It is made again, so that the next attempt finds it.
                self.find().await?;
            }
            sent
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Wait<'a, Vec<String>> {
        Box::pin(async move {
            let stream = self.find().await?;
            let subjects = self.fleet.subjects(self.kind);
            let subjects = stream.info_with_subjects(subjects).await;
            let mut subjects = subjects.map_err(unreachable)?;
            let mut found = Vec::new();
            while let Some(subject) = subjects.next().await {
                let (subject, _) = subject.map_err(unreachable)?;
                let name = self.fleet.name_of(self.kind, &subject);
                found.extend(name.filter(|name| name.starts_with(prefix)));
            }
            Ok(found)
        })
    }

    fn remove<'a>(&'a self, name: &'a str) -> Wait<'a, ()> {
        Box::pin(async move {
            let stream = self.find().await?;
            let purged = stream.purge().filter(self.subject(name)).await;
            purged.map(drop).map_err(unreachable)
        })
    }
}
