//! What is too large for messages, in parts: a stream with a subject for each blob.
//!
//! NATS' object store is not used: it leaves a message behind for each blob that
//! was dropped, reads from servers that are behind, and its client tells why
//! something failed in words alone.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use async_nats::jetstream::message::PublishMessage;
use async_nats::{HeaderMap, jetstream};
use data_encoding::HEXLOWER;
use futures::StreamExt;
use futures::stream::{self, TryStreamExt};
use prost::bytes::{Bytes, BytesMut};
use tokio::time::timeout;

use super::connection::unreachable;
use super::copies::StreamCopies;
use super::damages::Damages;
use super::named::NamedStream;
use crate::log::record::digest;
use crate::log::{self, Blob, Error, Wait};

/// The size of a part. Each is on the disks before it is acknowledged, so small
/// parts are slow.
const PART_BYTES: usize = 512 << 10;

/// The number of parts that are under way at a time.
const IN_FLIGHT: usize = 4;

/// The longest time that it may take to read the parts of a blob from one server.
const READING: Duration = Duration::from_secs(20);

/// Headers of a part: its number from 0, how many there are, and the size and the
/// SHA-256 of the blob.
const PART: &str = "Evk-Part";
const PARTS: &str = "Evk-Parts";
const BYTES: &str = "Evk-Bytes";
const SHA256: &str = "Evk-Sha256";

/// The blobs of a fleet.
pub(super) struct NatsBlobs {
    pub stream: NamedStream,
    pub damages: Damages,
}

/// The header of a part: the blob that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BlobHead {
    parts: usize,
    bytes: usize,
    sha256: String,
}

/// The blob whose parts these are; none where some are missing or damaged: it is being
/// put, was given up, or the copy is not whole.
fn whole(messages: Vec<jetstream::Message>) -> Option<Bytes> {
    let mut found = None;
    let mut begun: Option<(BlobHead, BTreeMap<usize, Bytes>)> = None;
    for message in messages {
        let headers = message.message.headers.unwrap_or_default();
        let payload = message.message.payload;
        let Some((head, part)) = BlobHead::read(&headers).zip(number(&headers, PART)) else {
            continue;
        };
        let (head, parts) = match &mut begun {
            Some((begun, parts)) if *begun == head => (head, parts),
            begun => (head.clone(), &mut begun.insert((head, BTreeMap::new())).1),
        };
        parts.insert(part, payload);
        if parts.len() == head.parts {
            let mut blob = BytesMut::with_capacity(head.bytes);
            parts.values().for_each(|part| blob.extend_from_slice(part));
            let blob = blob.freeze();
            found = Some(blob)
                .filter(|blob| BlobHead::of(blob) == head)
                .or(found);
        }
    }
    found
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
                self.stream.publish(name, message)
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
            let stream = self.stream.find().await?;
            let subject = self.stream.subject(name);
            let mut copies = StreamCopies::of_subject(&stream, subject);
            let (mut asked, mut lacks) = (0, false);
            // Any copy that proves itself is enough.
            while let Some(copy) = copies.next().await {
                asked += 1;
                match timeout(READING, copy.read(copy.has)).await {
                    Ok(Ok(messages)) => {
                        if let Some(blob) = whole(messages) {
                            if lacks {
                                let stream = stream.cached_info().config.name.clone();
                                self.damages.suspect_soon(stream);
                            }
                            return Ok(blob);
                        }
                        lacks = true;
                    }
                    Ok(Err(_)) | Err(_) => asked -= 1,
                }
            }
            match asked {
                0 => Err(Error::Unreachable("no copy can be read".to_owned())),
                _ => Err(Error::NotFound(name.to_owned())),
            }
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Wait<'a, Vec<Blob>> {
        Box::pin(self.stream.list(prefix, |name, last| Blob {
            name,
            bytes: number(&last.headers, BYTES).unwrap_or(0),
            at: SystemTime::from(last.time),
        }))
    }

    fn drop_blob<'a>(&'a self, name: &'a str) -> Wait<'a, ()> {
        Box::pin(async move {
            let stream = self.stream.find().await?;
            let purged = stream.purge().filter(self.stream.subject(name)).await;
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
}

fn number<T: std::str::FromStr>(headers: &HeaderMap, name: &str) -> Option<T> {
    headers.get(name)?.as_str().parse().ok()
}
