//! The copies of a stream, read one by one. A consumer with one replica reads the copy of the
//! server that keeps the consumer. The nats-servers choose that server, so consumers are made until
//! each server has kept one. Direct reads cannot select a copy: any server answers them.

use std::collections::BTreeSet;
use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, pull};
use async_nats::jetstream::stream::{Info, Stream};
use futures::StreamExt;
use tokio::time::timeout;

use super::connection::{REQUEST_MESSAGES, Retries, unreachable};
use crate::log::Error;

/// The longest time that it may take to make a consumer.
const MAKING: Duration = Duration::from_secs(1);

/// The time without a request after which a server forgets a consumer.
const INACTIVE: Duration = Duration::from_secs(10);

/// The number of attempts to make a consumer, and the number that may fail.
const TRIES: u32 = 40;
const FAILURES: u32 = 4;

/// The longest wait for the next message of a copy.
const SILENCE: Duration = Duration::from_secs(3);

/// The copies of a stream that were not read yet.
pub(super) struct StreamCopies<'a> {
    stream: &'a Stream,
    config: pull::Config,
    is_single: bool,
    servers: BTreeSet<String>,
    tries: u32,
    failures: u32,
}

/// A copy of a stream.
pub(super) struct StreamCopy {
    /// The server that keeps it.
    pub server: String,
    /// The number of requested messages that the copy has.
    pub has: u64,
    consumer: Consumer<pull::Config>,
}

impl<'a> StreamCopies<'a> {
    /// Reads the messages that a consumer with this configuration gets: see [`reading`].
    pub(super) fn of(stream: &'a Stream, config: pull::Config) -> Self {
        let config = pull::Config {
            inactive_threshold: INACTIVE,
            ..config
        };
        let servers = servers(stream.cached_info());
        Self {
            stream,
            config,
            // A single server may not name itself as the keeper.
            is_single: servers.len() == 1,
            servers,
            tries: 0,
            failures: 0,
        }
    }

    /// Returns a copy that was not read yet; `None` once all were read, or no other can be reached.
    pub(super) async fn next(&mut self) -> Option<StreamCopy> {
        while !self.servers.is_empty() && self.tries < TRIES && self.failures < FAILURES {
            self.tries += 1;
            let made = self.stream.create_consumer(self.config.clone());
            let Ok(Ok(consumer)) = timeout(MAKING, made).await else {
                self.failures += 1;
                continue;
            };
            let info = consumer.cached_info();
            let leader = info.cluster.as_ref().and_then(|it| it.leader.clone());
            let server = match self.is_single {
                true => self.servers.first().cloned(),
                false => leader,
            };
            let server = server.unwrap_or_default();
            if self.servers.remove(&server) {
                return Some(StreamCopy {
                    server,
                    has: info.num_pending,
                    consumer,
                });
            }
        }
        None
    }
}

impl StreamCopy {
    /// Reads at most `most` messages. Messages that the copy lacks or that are damaged do not come,
    /// without an error.
    pub(super) async fn each(
        &self,
        most: u64,
        mut take: impl FnMut(jetstream::Message),
    ) -> Result<(), Error> {
        let mut left = usize::try_from(most.min(self.has)).unwrap_or(usize::MAX);
        let mut retries = Retries::new();
        while left > 0 {
            let batch = self
                .consumer
                .fetch()
                .max_messages(left.min(REQUEST_MESSAGES));
            let mut batch = batch.messages().await.map_err(unreachable)?;
            let before = left;
            let mut fault = None;
            while let Some(message) = timeout(SILENCE, batch.next()).await.map_err(unreachable)? {
                match message {
                    Ok(message) => take(message),
                    Err(error) => {
                        fault = Some(Error::Unreachable(error.to_string()));
                        break;
                    }
                }
                left = left.saturating_sub(1);
            }
            match fault {
                // Some nats-servers may not know a consumer yet that was just made.
                Some(fault) if left != before || !retries.again().await => return Err(fault),
                None if left == before => break,
                _ => {}
            }
        }
        Ok(())
    }
}

/// The servers that keep a stream and can be reached; one without a name if the server is not in a
/// cluster.
fn servers(info: &Info) -> BTreeSet<String> {
    let Some(cluster) = &info.cluster else {
        return BTreeSet::from([String::new()]);
    };
    let others = cluster.replicas.iter().filter(|peer| !peer.offline);
    let others = others.map(|peer| peer.name.clone());
    others.chain(cluster.leader.clone()).collect()
}

/// Returns the configuration of a consumer that reads the messages from a sequence on, in order.
/// One server keeps it, in memory.
pub(super) fn reading(from: u64) -> pull::Config {
    pull::Config {
        deliver_policy: DeliverPolicy::ByStartSequence {
            start_sequence: from.max(1),
        },
        ack_policy: AckPolicy::None,
        num_replicas: 1,
        memory_storage: true,
        ..pull::Config::default()
    }
}
