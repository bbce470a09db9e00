//! Blobs: data that is too large for one message. One stream keeps them, with a subject for each
//! blob and a message for each part of it.
//!
//! NATS' object store is not used: it leaves a message behind for each blob that was dropped, reads
//! from servers that are behind, and its client reports the cause of an error only as text.

use std::collections::BTreeMap;
use std::time::SystemTime;

use async_nats::HeaderMap;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::Stream;
use data_encoding::HEXLOWER;
use futures::StreamExt;
use futures::stream::{self, TryStreamExt};
use prost::bytes::{Bytes, BytesMut};

use super::connection::unreachable;
use super::named::NamedStream;
use super::stream::of_leader;
use crate::record::digest;
use crate::{Blob, Error, Wait};

/// The size of a part. Each part is on the disks before it is acknowledged, so small parts are
/// slow.
const PART_BYTES: usize = 512 << 10;

/// The number of parts that are under way at a time.
const IN_FLIGHT: usize = 4;

/// Headers of a part: its number from 0, the number of parts, and the size and the SHA-256 of the
/// blob.
const PART: &str = "Evk-Part";
const PARTS: &str = "Evk-Parts";
const BYTES: &str = "Evk-Bytes";
const SHA256: &str = "Evk-Sha256";

/// The blobs of a fleet.
pub(super) struct NatsBlobs(pub NamedStream);

/// The headers of a part that describe its blob.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BlobHead {
    parts: usize,
    bytes: usize,
    sha256: String,
}

/// The parts of a blob in their order in the stream. Some may be missing: the blob is still being
/// put, or its put was given up.
#[derive(Default)]
struct BlobParts {
    begun: Option<(BlobHead, BTreeMap<usize, Bytes>)>,
    /// The last blob that was whole.
    whole: Option<Bytes>,
}

impl BlobParts {
    fn add(&mut self, headers: &HeaderMap, payload: Bytes) {
        let Some((head, part)) = BlobHead::read(headers).zip(number(headers, PART)) else {
            return;
        };
        let (head, parts) = match &mut self.begun {
            Some((begun, parts)) if *begun == head => (head, parts),
            begun => (head.clone(), &mut begun.insert((head, BTreeMap::new())).1),
        };
        parts.insert(part, payload);
        if parts.len() == head.parts {
            let mut blob = BytesMut::with_capacity(head.bytes);
            parts.values().for_each(|part| blob.extend_from_slice(part));
            let blob = Some(blob.freeze()).filter(|blob| BlobHead::of(blob) == head);
            self.whole = blob.or(self.whole.take());
        }
    }
}

/// Reads a blob from the leader of the stream; `None` if it is not whole there.
async fn read_of_leader(stream: &Stream, subject: &str) -> Result<Option<Bytes>, Error> {
    let mut parts = BlobParts::default();
    let mut from = 1;
    while let Some(part) = of_leader(stream.get_first_raw_message_by_subject(subject, from).await)?
    {
        from = part.sequence + 1;
        parts.add(&part.headers, part.payload);
    }
    Ok(parts.whole)
}

impl crate::Blobs for NatsBlobs {
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
            // The last part is sent after the others have arrived: its presence tells that all are
            // there.
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
            let stream = self.0.find().await?;
            let blob = read_of_leader(&stream, &self.0.subject(name)).await?;
            blob.ok_or_else(|| Error::NotFound(name.to_owned()))
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
        // Wrong numbers could make a reader reserve too much memory.
        (head.parts == head.bytes.div_ceil(PART_BYTES).max(1)).then_some(head)
    }
}

fn number<T: std::str::FromStr>(headers: &HeaderMap, name: &str) -> Option<T> {
    headers.get(name)?.as_str().parse().ok()
}
