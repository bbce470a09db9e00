//! A few small values that change by compare-and-set: a stream that keeps the last
//! message of each subject.

use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use futures::StreamExt;
use prost::bytes::Bytes;

use super::connection::{Connection, unreachable};
use super::names::FleetName;
use super::publish::publish;
use super::stream::{Keeping, find, find_or_make};
use crate::log::{self, Error, Wait};

/// The keys of a fleet. NATS' own key-value store is a stream like this. Its client
/// reads from any server, also from one that is behind, and does not tell all
/// codes of a conflict.
#[derive(Clone)]
pub(super) struct NatsKeys {
    connection: Connection,
    fleet: FleetName,
}

impl NatsKeys {
    /// The keys, which are made if they are absent.
    pub(super) async fn open(
        connection: Connection,
        fleet: FleetName,
        keeping: &Keeping,
    ) -> Result<Self, Error> {
        let config = keeping.keys(fleet.keys_stream(), fleet.key_subjects());
        find_or_make(&connection, &config).await?;
        Ok(Self { connection, fleet })
    }

    async fn read(&self, stream: &Stream, subject: &str) -> Result<Option<(Bytes, u64)>, Error> {
        match stream.get_last_raw_message_by_subject(subject).await {
            Ok(message) => Ok(Some((message.payload, message.sequence))),
            Err(error) => match error.kind() {
                LastRawMessageErrorKind::NoMessageFound => Ok(None),
                _ => Err(unreachable(&error)),
            },
        }
    }
}

impl log::Keys for NatsKeys {
    fn get<'a>(&'a self, key: &'a str) -> Wait<'a, Option<(Bytes, u64)>> {
        Box::pin(async move {
            let stream = find(&self.connection, &self.fleet.keys_stream()).await?;
            self.read(&stream, &self.fleet.key_subject(key)).await
        })
    }

    fn set_if<'a>(&'a self, key: &'a str, revision: Option<u64>, value: Bytes) -> Wait<'a, u64> {
        Box::pin(async move {
            let message = PublishMessage::build()
                .payload(value)
                .expected_stream(self.fleet.keys_stream())
                .expected_last_subject_sequence(revision.unwrap_or(0));
            publish(&self.connection, self.fleet.key_subject(key), message).await
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Wait<'a, Vec<(String, Bytes)>> {
        Box::pin(async move {
            let stream = find(&self.connection, &self.fleet.keys_stream()).await?;
            let subjects = stream.info_with_subjects(self.fleet.key_subjects()).await;
            let mut subjects = subjects.map_err(|error| unreachable(&error))?;
            let mut found = Vec::new();
            while let Some(subject) = subjects.next().await {
                let (subject, _) = subject.map_err(|error| unreachable(&error))?;
                let Some(key) = self.fleet.key_of(&subject) else {
                    continue;
                };
                if !key.starts_with(prefix) {
                    continue;
                }
                if let Some((value, _)) = self.read(&stream, &subject).await? {
                    found.push((key, value));
                }
            }
            Ok(found)
        })
    }
}
