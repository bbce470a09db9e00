//! The follower of a log: a consumer that is made again where the last one ended.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_nats::jetstream;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use futures::StreamExt;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::connection::{Connection, unreachable};
use super::logs::LogStreams;
use super::stream::{bounds, find};
use crate::tasks::{self, Task};
use crate::{Error, Message, Wait};

/// The time that a request for messages waits for them at the server.
const EXPIRES: Duration = Duration::from_secs(30);

/// The interval of the server's heartbeats, all that a log costs to which nothing is added. Two
/// missing heartbeats end a consumer.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// The time without a request after which the server forgets a consumer.
const INACTIVE: Duration = Duration::from_secs(30);

/// The bytes and the messages that are asked for at a time. When half of the messages have come, as
/// many again are requested.
const REQUEST_BYTES: usize = 8 << 20;
const REQUEST_MESSAGES: usize = 256;

/// A follower of one log.
pub(super) struct NatsFollower {
    log: FollowedLog,
    consumer: Mutex<Consumer>,
}

/// The log that is followed.
#[derive(Clone)]
pub(super) struct FollowedLog {
    pub connection: Connection,
    pub streams: Arc<LogStreams>,
    pub snapshot: String,
}

/// The progress of a follower.
struct Consumer {
    /// The sequence of the last message that was read, or that no reader wants any more.
    read: u64,
    /// The message that was read and not taken.
    next: Option<Message>,
    /// The stream that was followed last.
    stream: Option<String>,
    open: Open,
}

/// The present consumer.
enum Open {
    No,
    /// A task, because a caller may give up waiting before it is open.
    Soon(Task<Result<Opened, Error>>),
    Yes(Box<Opened>),
}

/// An open consumer.
struct Opened {
    stream: String,
    messages: pull::Stream,
    /// The number of its last message.
    delivered: u64,
}

impl NatsFollower {
    /// Follows a log from the message after a sequence.
    pub(super) fn new(log: FollowedLog, after: u64) -> Self {
        Self {
            log,
            consumer: Mutex::new(Consumer {
                read: after,
                next: None,
                stream: None,
                open: Open::No,
            }),
        }
    }
}

impl crate::Follower for NatsFollower {
    fn next(&self, after: u64, within: Duration) -> Wait<'_, Option<Message>> {
        Box::pin(async move {
            let next = async {
                let mut consumer = self.consumer.lock().await;
                consumer.next(&self.log, after).await
            };
            match timeout_at(Instant::now() + within, next).await {
                Ok(found) => found.map(Some),
                Err(_) => Ok(None),
            }
        })
    }
}

impl Consumer {
    /// The first message after a sequence. May be cancelled.
    async fn next(&mut self, log: &FollowedLog, after: u64) -> Result<Message, Error> {
        if let Some(next) = self.next.take_if(|next| next.sequence > after) {
            self.next = Some(next.clone());
            return Ok(next);
        }
        self.next = None;
        if after > self.read {
            self.read = after;
            self.open = Open::No;
        }
        loop {
            let opened = self.opened(log).await?;
            let received = match opened.messages.next().await {
                Some(Ok(message)) => received(message),
                Some(Err(error)) => Err(unreachable(error)),
                None => Err(Error::Unreachable("the consumer has ended".to_owned())),
            };
            match received {
                Ok((number, message)) if number == opened.delivered + 1 => {
                    opened.delivered = number;
                    self.read = message.sequence;
                    self.next = Some(message.clone());
                    return Ok(message);
                }
                // A message was lost on its way.
                Ok(_) => self.open = Open::No,
                Err(error) => {
                    self.open = Open::No;
                    return Err(error);
                }
            }
        }
    }

    /// The present consumer, which is made if there is none.
    async fn opened(&mut self, log: &FollowedLog) -> Result<&mut Opened, Error> {
        if matches!(self.open, Open::No) {
            let open = open(log.clone(), self.stream.clone(), self.read);
            self.open = Open::Soon(tasks::spawn(open));
        }
        if let Open::Soon(opening) = &mut self.open {
            let opened = opening.await.map_err(unreachable).flatten();
            self.open = Open::No;
            let opened = opened.inspect_err(|error| log.streams.note(&log.snapshot, error))?;
            self.stream = Some(opened.stream.clone());
            self.open = Open::Yes(Box::new(opened));
        }
        match &mut self.open {
            Open::Yes(opened) => Ok(opened),
            _ => Err(Error::Unreachable("there is no consumer".to_owned())),
        }
    }
}

/// Makes a consumer of the messages after a sequence; an error if the log does not continue there.
/// `before` is the stream that was followed until now.
async fn open(log: FollowedLog, before: Option<String>, read: u64) -> Result<Opened, Error> {
    let stream = log.streams.stream(&log.snapshot).await?;
    let found = find(&log.connection, &stream).await?;
    let bounds = bounds(found.cached_info());
    // A stream that was made anew may end at the same sequence.
    let is_other = read > 0 && before.is_some_and(|before| before != stream);
    if bounds.last < read || is_other {
        return Err(Error::Shorter(bounds.last));
    }
    if bounds.first > read + 1 {
        return Err(Error::Trimmed(bounds.first));
    }
    // One server keeps the consumer, in memory.
    let config = pull::Config {
        deliver_policy: DeliverPolicy::ByStartSequence {
            start_sequence: read + 1,
        },
        ack_policy: AckPolicy::None,
        num_replicas: 1,
        memory_storage: true,
        inactive_threshold: INACTIVE,
        ..pull::Config::default()
    };
    let made = found.create_consumer(config).await.map_err(unreachable)?;
    let messages = made
        .stream()
        .max_messages_per_batch(REQUEST_MESSAGES)
        .max_bytes_per_batch(REQUEST_BYTES)
        .expires(EXPIRES)
        .heartbeat(HEARTBEAT)
        .messages();
    Ok(Opened {
        stream,
        messages: messages.await.map_err(unreachable)?,
        delivered: 0,
    })
}

/// A message, and its number among those of its consumer.
fn received(message: jetstream::Message) -> Result<(u64, Message), Error> {
    let info = message
        .info()
        .map_err(|error| Error::Unreachable(error.to_string()))?;
    let number = info.consumer_sequence;
    let message = Message {
        sequence: info.stream_sequence,
        at: SystemTime::from(info.published),
        bytes: message.message.payload,
    };
    Ok((number, message))
}
