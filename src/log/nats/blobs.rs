//! What is too large for messages, in parts: a stream with a subject for each blob.
//!
//! NATS' object store is not used: it leaves a message behind for each blob that
//! was dropped, reads from servers that are behind, and its client tells why
//! something failed in words alone.

use std::time::{Duration, SystemTime};

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::Stream;
use data_encoding::HEXLOWER;
use futures::StreamExt;
use futures::stream::{self, TryStreamExt};
use prost::bytes::{Bytes, BytesMut};
use tokio::time::timeout;

use super::connection::unreachable;
use super::named::NamedStream;
use crate::log::record::digest;
use crate::log::{self, Blob, Error, Wait};

/// The size of a part. Each is on the disks before it is acknowledged, so small
/// parts are slow.
const PART_BYTES: usize = 512 << 10;

/// How many parts are under way at a time.
const IN_FLIGHT: usize = 4;

/// How long it may take to read the parts of a blob.
const READING: Duration = Duration::from_secs(20);

/// How often a blob is read that arrives damaged: another server may send it whole.
const TRIES: usize = 3;

/// Headers of a part: its number from 0, how many there are, and the size and the
/// SHA-256 of the blob.
const PART: &str = "Evk-Part";
const PARTS: &str = "Evk-Parts";
const BYTES: &str = "Evk-Bytes";
const SHA256: &str = "Evk-Sha256";

/// The blobs of a fleet.
pub(super) struct NatsBlobs(pub NamedStream);

/// What each part says of its blob.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BlobHead {
    parts: usize,
    bytes: usize,
    sha256: String,
}

impl NatsBlobs {
    /// Reads the parts of a blob, from whichever server they come.
    async fn read(&self, stream: &Stream, subject: &str, head: &BlobHead) -> Result<Bytes, Error> {
        let config = pull::Config {
            filter_subject: subject.to_owned(),
            ack_policy: AckPolicy::None,
            inactive_threshold: READING,
            num_replicas: 1,
            memory_storage: true,
            ..pull::Config::default()
        };
        let consumer = stream.create_consumer(config).await.map_err(unreachable)?;
        let messages = consumer
            .stream()
            .heartbeat(Duration::from_secs(2))
            .messages();
        let mut messages = messages.await.map_err(unreachable)?;
        let mut parts = vec![None; head.parts];
        let mut missing = head.parts;
        while missing > 0 {
            let Some(message) = messages.next().await else {
                return Err(Error::Unreachable("the parts of a blob end early".into()));
            };
            let message = message.map_err(unreachable)?.message;
            let headers = message.headers.unwrap_or_default();
            let number: Option<usize> = number(&headers, PART);
            // A part that was sent again, or of which nobody knows what it is.
            let Some(part @ None) = number.and_then(|number| parts.get_mut(number)) else {
                continue;
            };
            *part = Some(message.payload);
            missing -= 1;
        }
        let mut blob = BytesMut::with_capacity(head.bytes);
        parts
            .into_iter()
            .flatten()
            .for_each(|part| blob.extend_from_slice(&part));
        Ok(blob.freeze())
    }
}

impl log::Blobs for NatsBlobs {
    fn put<'a>(&'a self, name: &'a str, blob: Bytes) -> Wait<'a, ()> {
        Box::pin(async move {
            let head = BlobHead::of(&blob);
            let send = |number: usize| {
                let end = blob.len().min((number + 1) * PART_BYTES);
                let part = blob.slice(number * PART_BYTES..end);
                let message = PublishMessage::build()
                    .payload(part)
                    .header(PART, number.to_string())
                    .header(PARTS, head.parts.to_string())
                    .header(BYTES, head.bytes.to_string())
                    .header(SHA256, head.sha256.as_str());
                self.0.publish(name, message)
            };
            // The last one is sent when the others are there: it says that they are.
            let (others, last) = (0..head.parts - 1, head.parts - 1);
            stream::iter(others.map(send))
                .buffer_unordered(IN_FLIGHT)
                .try_for_each(|_| async { Ok(()) })
                .await?;
            send(last).await.map(drop)
        })
    }

    fn get<'a>(&'a self, name: &'a str) -> Wait<'a, Bytes> {
        Box::pin(async move {
            let subject = self.0.subject(name);
            let stream = self.0.find().await?;
            let last = self.0.last(&stream, &subject).await?;
            let last = last.ok_or_else(|| Error::NotFound(subject.clone()))?;
            let head = BlobHead::read(&last.headers).filter(|head| head.is_last(&last.headers));
            // It is being put, or was given up.
            let head = head.ok_or_else(|| Error::NotFound(name.to_owned()))?;
            for _ in 0..TRIES {
                let read = timeout(READING, self.read(&stream, &subject, &head)).await;
                let blob = read.map_err(unreachable)??;
                if BlobHead::of(&blob) == head {
                    return Ok(blob);
                }
            }
            Err(Error::Refused(format!("the blob {name} is damaged")))
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Wait<'a, Vec<Blob>> {
        Box::pin(self.0.list(prefix, |name, last| Blob {
            name,
            bytes: number(&last.headers, BYTES).unwrap_or(0),
            at: SystemTime::from(last.time),
        }))
    }

    fn drop_blob<'a>(&'a self, name: &'a str) -> Wait<'a, ()> {
        Box::pin(async move {
            let stream = self.0.find().await?;
            let purged = stream.purge().filter(self.0.subject(name)).await;
            purged.map(drop).map_err(unreachable)
        })
    }
}

impl BlobHead {
    fn of(blob: &Bytes) -> Self {
        Self {
            parts: blob.len().div_ceil(PART_BYTES).max(1),
            bytes: blob.len(),
            sha256: HEXLOWER.encode(&digest(&[blob])),
        }
    }

    fn read(headers: &HeaderMap) -> Option<Self> {
        let head = Self {
            parts: number(headers, PARTS)?,
            bytes: number(headers, BYTES)?,
            sha256: headers.get(SHA256)?.as_str().to_owned(),
        };
        // What is wrong here would ask for memory.
        (head.parts == head.bytes.div_ceil(PART_BYTES).max(1)).then_some(head)
    }

    /// Returns whether these headers are of the last part.
    fn is_last(&self, headers: &HeaderMap) -> bool {
        number(headers, PART) == Some(self.parts - 1)
    }
}

fn number<T: std::str::FromStr>(headers: &HeaderMap, name: &str) -> Option<T> {
    headers.get(name)?.as_str().parse().ok()
}
