//! Finds copies of streams that lack messages, and lets no server with such a copy lead.
//!
//! A nats-server does not deliver a message that it finds damaged in its store, or it drops all
//! messages after that one in the same file. It does not report this, and its copy counts as
//! current.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::Info;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::connection::{Connection, unreachable};
use super::copies::{StreamCopies, reading};
use super::stream::find;
use crate::log::{Error, LogCopy};
use crate::tasks;

/// The number of counts in a row in which a copy has to lack something, and the pauses between
/// them: messages may come during a count, and copies lag behind the leader.
const ROUNDS: usize = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// The time for which a count of the copies stays valid when somebody misses a message.
const COUNTED: Duration = Duration::from_secs(60);

/// The longest wait for another server to lead, and the pause between two looks.
const STEPPING_DOWN: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(50);

/// The known damages of the copies of streams.
#[derive(Clone)]
pub(super) struct Damages {
    connection: Connection,
    known: Arc<Mutex<KnownDamages>>,
}

#[derive(Default)]
struct KnownDamages {
    /// The damage of each copy, by stream and server, and true if reading the copy found it.
    found: BTreeMap<(String, String), (String, bool)>,
    /// The moment of the last count of the copies, by stream.
    counted: HashMap<String, Instant>,
}

impl Damages {
    pub(super) fn new(connection: Connection) -> Self {
        Self {
            connection,
            known: Arc::default(),
        }
    }

    /// Returns the known damages of copies.
    pub(super) fn told(&self) -> Vec<String> {
        let known = self.known.lock();
        known.found.values().map(|(told, _)| told.clone()).collect()
    }

    /// Counts the copies of a stream because something is missing, unless they were counted lately.
    pub(super) async fn suspect(&self, stream: &str, reads: bool) -> Result<(), Error> {
        let before = self.known.lock().counted.get(stream).copied();
        if before.is_some_and(|before| before.elapsed() < COUNTED) {
            return Ok(());
        }
        self.inspect(stream, reads).await.map(drop)
    }

    /// Reads the copies of a stream, as [`Self::suspect`] does, without waiting for the result.
    pub(super) fn suspect_soon(&self, stream: String) {
        let damages = self.clone();
        tasks::spawn(async move {
            // If this fails, the next miss tries again.
            let _ = damages.suspect(&stream, true).await;
        });
    }

    /// Counts the copies of a stream. Reads them whole with `reads`, or if reading found one
    /// damaged before. If the leader's copy lacks something, the server with the most messages
    /// leads from then on.
    pub(super) async fn inspect(&self, stream: &str, reads: bool) -> Result<Vec<LogCopy>, Error> {
        let reads = {
            let mut known = self.known.lock();
            known.counted.insert(stream.to_owned(), Instant::now());
            let mut found = known.found.iter();
            reads || found.any(|((of, _), (_, by_reading))| of == stream && *by_reading)
        };
        let mut round = 1;
        loop {
            let (leader, copies) = self.count(stream, reads).await?;
            let is_damaged = copies.iter().any(LogCopy::is_damaged);
            if is_damaged && round < ROUNDS {
                round += 1;
                sleep(PAUSE).await;
                continue;
            }
            self.note(stream, &copies, reads);
            let of_leader = copies.iter().find(|copy| copy.server == leader);
            let best = copies.iter().max_by_key(|copy| copy.has);
            if let (Some(own), Some(best)) = (of_leader, best)
                && own.is_damaged()
                && best.has > own.has
            {
                self.step_down(stream, &leader, &best.server).await?;
            }
            return Ok(copies);
        }
    }

    /// Counts the copies once, and returns the leader with them.
    async fn count(&self, name: &str, reads: bool) -> Result<(String, Vec<LogCopy>), Error> {
        let stream = find(&self.connection, name).await?;
        let before = stream.cached_info().clone();
        let mut found = Vec::new();
        let headers = pull::Config {
            headers_only: true,
            ..reading(1)
        };
        let mut copies = StreamCopies::of(&stream, headers);
        while let Some(copy) = copies.next().await {
            let mut damaged = 0;
            if reads {
                // Damaged messages do not come.
                damaged = copy.has;
                let count = |_| damaged = damaged.saturating_sub(1);
                copy.each(copy.has, count).await?;
            }
            found.push((copy.server, copy.has, damaged));
        }
        let after = find(&self.connection, name).await?.cached_info().clone();
        let leader = leader(&after);
        // Messages may have been added or dropped during the count.
        let (a, b) = (before.state.messages, after.state.messages);
        let (least, most) = (a.min(b), a.max(b));
        let wanted_of_leader = found.iter().map(|(_, has, _)| *has).max().unwrap_or(0);
        let copy = |(server, has, damaged): (String, u64, u64)| {
            let leads = server == leader;
            let (has, wanted) = match leads {
                true => (has.max(most), wanted_of_leader),
                false => (has, least),
            };
            LogCopy {
                is_current: leads || follows(&before, &server),
                of: name.to_owned(),
                has: has.saturating_sub(damaged),
                wanted: wanted.max(if damaged > 0 { has } else { 0 }),
                server,
            }
        };
        let copies = found.into_iter().map(copy).collect();
        Ok((leader, copies))
    }

    fn note(&self, stream: &str, copies: &[LogCopy], by_reading: bool) {
        let mut known = self.known.lock();
        for copy in copies {
            let place = (stream.to_owned(), copy.server.clone());
            if copy.is_damaged() {
                let told = copy.to_string();
                let before = known.found.insert(place, (told.clone(), by_reading));
                if before.is_none_or(|(before, _)| before != told) {
                    warn!(stream, server = copy.server, "a copy is damaged: {told}");
                }
            } else if copy.is_whole() && known.found.remove(&place).is_some() {
                info!(stream, server = copy.server, "a copy has all again");
            }
        }
    }

    /// Makes another server lead a stream.
    async fn step_down(&self, stream: &str, from: &str, to: &str) -> Result<(), Error> {
        let request = json!({ "placement": { "preferred": to } });
        let subject = format!("STREAM.LEADER.STEPDOWN.{stream}");
        let answer: Response<Value> = self
            .connection
            .streams
            .request(subject, &request)
            .await
            .map_err(unreachable)?;
        if let Response::Err { error } = answer {
            return Err(Error::Unreachable(error.to_string()));
        }
        warn!(
            stream,
            from, to, "another server leads: the copy of the former one is damaged"
        );
        let end = Instant::now() + STEPPING_DOWN;
        while Instant::now() < end {
            if let Ok(stream) = find(&self.connection, stream).await {
                let leader = leader(stream.cached_info());
                if !leader.is_empty() && leader != from {
                    return Ok(());
                }
            }
            sleep(LOOK).await;
        }
        Err(Error::Unreachable(format!("{from} goes on leading")))
    }
}

/// The server that leads a stream.
fn leader(info: &Info) -> String {
    let cluster = info.cluster.as_ref();
    let leader = cluster.and_then(|cluster| cluster.leader.clone());
    leader.unwrap_or_default()
}

/// Returns whether a server is online and has followed the leader of a stream to its end.
fn follows(info: &Info, server: &str) -> bool {
    let cluster = info.cluster.iter();
    let mut others = cluster.flat_map(|cluster| &cluster.replicas);
    others.any(|peer| peer.name == server && peer.current && !peer.offline)
}
