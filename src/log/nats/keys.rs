//! A few small values that change by compare-and-set: a stream that keeps the last
//! message of each subject.

use async_nats::jetstream::message::PublishMessage;
use prost::bytes::Bytes;

use super::named::NamedStream;
use crate::log::{self, Wait};

/// The keys of a fleet. NATS' own key-value store is a stream like this. Its client reads from any
/// server, also from one that is behind, and does not recognize all error codes of a conflict.
#[derive(Clone)]
pub(super) struct NatsKeys(pub NamedStream);

impl log::Keys for NatsKeys {
    fn get<'a>(&'a self, key: &'a str) -> Wait<'a, Option<(Bytes, u64)>> {
        Box::pin(async move {
            let stream = self.0.find().await?;
            let last = self.0.last(&stream, &self.0.subject(key)).await?;
            Ok(last.map(|message| (message.payload, message.sequence)))
        })
    }

    fn set_if<'a>(&'a self, key: &'a str, revision: Option<u64>, value: Bytes) -> Wait<'a, u64> {
        let message = PublishMessage::build()
            .payload(value)
            .expected_last_subject_sequence(revision.unwrap_or(0));
        Box::pin(self.0.publish(key, message))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Wait<'a, Vec<(String, Bytes)>> {
        Box::pin(self.0.list(prefix, |key, last| (key, last.payload)))
    }
}
