//! The follower of a log: a task reads ahead, and readers take the messages that it has read.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_nats::jetstream;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use futures::StreamExt;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::select;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::debug;

use super::connection::{Connection, unreachable};
use super::generations::Generations;
use super::stream::{bounds, find};
use crate::backoff::Backoff;
use crate::tasks;
use crate::{Error, Message, Wait};

/// The time that a request for messages waits for them at the server.
const EXPIRES: Duration = Duration::from_secs(30);

/// The interval of the server's heartbeats, all that a log costs to which nothing is added. Two
/// missing heartbeats end a session.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// The longest wait for the extent of the log, and for a new consumer.
const ANSWER: Duration = Duration::from_secs(2);

/// The pauses before the next session.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The time without a request after which the server forgets a consumer.
const INACTIVE: Duration = Duration::from_secs(30);

/// The bytes that are read ahead, and that are asked for at a time.
const READ_AHEAD_BYTES: usize = 8 << 20;
const REQUEST_BYTES: usize = 8 << 20;

/// The number of messages that are asked for at a time. When half of them have come, as many again
/// are requested.
const REQUEST_MESSAGES: usize = 256;

/// A follower of one log.
pub(super) struct NatsFollower {
    shared: Arc<FollowerState>,
    task: AbortHandle,
}

/// The state that the task and the readers share.
#[derive(Default)]
struct FollowerState {
    ahead: Mutex<Ahead>,
    /// A message or an error has come.
    arrived: Notify,
    /// Messages were taken.
    taken: Notify,
    /// The place to read on from has moved forward.
    moved: Notify,
    /// A reader wants to know whether the last error still holds.
    asked: Notify,
}

/// Messages that were read and not taken.
#[derive(Default)]
struct Ahead {
    messages: VecDeque<Message>,
    bytes: usize,
    /// The sequence of the last message that was read, or that no reader wants any more.
    read: u64,
    /// The time when the stream was created.
    created: Option<SystemTime>,
    /// The reason why nothing comes at present.
    error: Option<Error>,
    /// The number of errors so far.
    errors: u64,
}

impl NatsFollower {
    /// Follows the log of a snapshot from the message after a sequence.
    pub(super) fn start(
        connection: Connection,
        (generations, snapshot): (Arc<Generations>, String),
        after: u64,
        runtime: &Handle,
    ) -> Self {
        let shared = Arc::new(FollowerState::default());
        shared.ahead.lock().read = after;
        let reading = Arc::clone(&shared);
        let task = tasks::spawn_on(runtime, async move {
            let mut pauses = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
            loop {
                let stream = generations.stream(&snapshot).await;
                let ended = match &stream {
                    Ok(stream) => reading.session(&connection, stream).await,
                    Err(error) => Err(error.clone()),
                };
                debug!(snapshot, ?ended, "following a log begins again");
                let Err(error) = ended else {
                    sleep(pauses.before_attempt()).await;
                    continue;
                };
                if matches!(error, Error::NotFound(_)) {
                    generations.note_missing(&snapshot);
                }
                reading.fail(error);
                let pause = pauses.after_failure();
                sleep(pause.min(SHORTEST_PAUSE)).await;
                // A reader that asks ends the pause, so that it learns the present state.
                let _ = timeout(pause, reading.asked.notified()).await;
            }
        });
        Self {
            shared,
            task: task.abort_handle(),
        }
    }
}

impl Drop for NatsFollower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl crate::Follower for NatsFollower {
    fn next(&self, after: u64, within: Duration) -> Wait<'_, Option<Message>> {
        Box::pin(async move {
            let deadline = Instant::now() + within;
            let old = self.shared.ask();
            loop {
                let mut arrived = std::pin::pin!(self.shared.arrived.notified());
                arrived.as_mut().enable();
                if let Some(found) = self.shared.take(after, old) {
                    return found.map(Some);
                }
                if timeout_at(deadline, arrived).await.is_err() {
                    let error = self.shared.ahead.lock().error.clone();
                    return error.map_or(Ok(None), Err);
                }
            }
        })
    }
}

impl FollowerState {
    /// Begins the next session at once if there was an error. Returns the number of errors so far.
    fn ask(&self) -> u64 {
        let ahead = self.ahead.lock();
        if ahead.error.is_some() {
            self.asked.notify_one();
        }
        ahead.errors
    }

    /// The first message after a sequence, or else the error, if it came after the first `old`
    /// errors.
    fn take(&self, after: u64, old: u64) -> Option<Result<Message, Error>> {
        let mut ahead = self.ahead.lock();
        while let Some(message) = ahead.messages.pop_front_if(|first| first.sequence <= after) {
            ahead.bytes -= message.bytes.len();
            self.taken.notify_one();
        }
        if after > ahead.read {
            ahead.read = after;
            self.moved.notify_one();
            self.asked.notify_one();
        }
        match (ahead.messages.front(), &ahead.error) {
            (Some(message), _) => Some(Ok(message.clone())),
            (None, Some(error)) if ahead.errors > old => Some(Err(error.clone())),
            (None, _) => None,
        }
    }

    fn fail(&self, error: Error) {
        let mut ahead = self.ahead.lock();
        ahead.error = Some(error);
        ahead.errors += 1;
        drop(ahead);
        self.arrived.notify_waiters();
    }

    /// Adds a message, once there is room for it.
    async fn push(&self, message: Message) {
        loop {
            {
                let mut ahead = self.ahead.lock();
                if message.sequence <= ahead.read {
                    return;
                }
                if ahead.bytes < READ_AHEAD_BYTES {
                    ahead.bytes += message.bytes.len();
                    ahead.read = message.sequence;
                    ahead.messages.push_back(message);
                    break;
                }
            }
            self.taken.notified().await;
        }
        self.arrived.notify_waiters();
    }

    /// Reads until something is wrong. If it returns no error, the next session may succeed.
    async fn session(&self, connection: &Connection, stream: &str) -> Result<(), Error> {
        let read = self.place(connection, stream).await?;
        let mut messages = open(connection, stream, read).await?;
        self.ahead.lock().error = None;
        let mut delivered = 0;
        loop {
            let next = select! {
                next = messages.next() => next,
                () = self.moved.notified() => return Ok(()),
            };
            match next {
                Some(Ok(message)) => {
                    let (number, message) = received(message)?;
                    if number != delivered + 1 {
                        return Ok(());
                    }
                    delivered = number;
                    self.push(message).await;
                }
                Some(Err(error)) => return Err(unreachable(error)),
                None => return Ok(()),
            }
        }
    }

    /// The sequence of the last message that was read; an error if the log does not continue after
    /// it.
    async fn place(&self, connection: &Connection, stream: &str) -> Result<u64, Error> {
        let found = timeout(ANSWER, find(connection, stream)).await;
        let found = found.map_err(|elapsed| connection.unanswered(elapsed))??;
        let info = found.cached_info();
        let bounds = bounds(info);
        let mut ahead = self.ahead.lock();
        let read = ahead.read;
        // A stream that was made anew may end at the same sequence.
        let created = SystemTime::from(info.created);
        let is_other = read > 0 && ahead.created.is_some_and(|before| before != created);
        if !is_other {
            ahead.created = Some(created);
        }
        if bounds.last < read || is_other {
            Err(Error::Shorter(bounds.last))
        } else if bounds.first > read + 1 {
            Err(Error::Trimmed(bounds.first))
        } else {
            Ok(read)
        }
    }
}

/// Asks for the messages after a sequence. If the server that keeps the consumer is lost, the next
/// session makes another consumer.
async fn open(connection: &Connection, stream: &str, after: u64) -> Result<pull::Stream, Error> {
    // One server keeps the consumer, in memory.
    let config = pull::Config {
        deliver_policy: DeliverPolicy::ByStartSequence {
            start_sequence: after + 1,
        },
        ack_policy: AckPolicy::None,
        num_replicas: 1,
        memory_storage: true,
        inactive_threshold: INACTIVE,
        ..pull::Config::default()
    };
    let made = connection.streams.create_consumer_on_stream(config, stream);
    let consumer = timeout(ANSWER, made).await.map_err(unreachable)?;
    let consumer = consumer.map_err(unreachable)?;
    let messages = consumer
        .stream()
        .max_messages_per_batch(REQUEST_MESSAGES)
        .max_bytes_per_batch(REQUEST_BYTES)
        .expires(EXPIRES)
        .heartbeat(HEARTBEAT)
        .messages();
    messages.await.map_err(unreachable)
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
