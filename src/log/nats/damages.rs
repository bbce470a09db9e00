//! Finds out which copies of streams lack messages, and has no server lead that does.
//!
//! What a nats-server finds damaged in its store does not come, or it drops all that comes
//! after that in the same file. It says nothing of that, and counts as current.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::Info;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::connection::{Connection, unreachable};
use super::copies::StreamCopies;
use super::stream::find;
use crate::log::{Error, LogCopy};
use crate::tasks;

/// The number of times in a row that a copy has to lack something, and the pauses in between: the
/// copies that are counted may be changing, and copies follow.
const ROUNDS: usize = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// The time for which a look at the copies counts, where somebody misses something.
const COUNTED: Duration = Duration::from_secs(60);

/// The longest wait for another server to lead.
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
    /// The damage of a server's copy of a stream, by both, and true if it was found by reading the
    /// copy.
    found: BTreeMap<(String, String), (String, bool)>,
    /// The moments when the copies of streams were counted.
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

    /// Counts the copies of a stream, unless that was done lately: something is missing.
    pub(super) async fn suspect(&self, stream: &str, reads: bool) -> Result<(), Error> {
        let before = self.known.lock().counted.get(stream).copied();
        if before.is_some_and(|before| before.elapsed() < COUNTED) {
            return Ok(());
        }
        self.inspect(stream, reads).await.map(drop)
    }

    /// Reads the copies of a stream likewise, without waiting for it.
    pub(super) fn suspect_soon(&self, stream: String) {
        let damages = self.clone();
        tasks::spawn(async move {
            // What cannot be found out now is when it is missed again.
            let _ = damages.suspect(&stream, true).await;
        });
    }

    /// Counts the copies of a stream; `reads` them whole if told to, or if one was found
    /// damaged by that. If that of the leader lacks something, the server with the most leads
    /// from then on.
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

    /// Counts the copies once; also which server leads.
    async fn count(&self, name: &str, reads: bool) -> Result<(String, Vec<LogCopy>), Error> {
        let stream = find(&self.connection, name).await?;
        let before = stream.cached_info().clone();
        let mut found = Vec::new();
        let mut copies = StreamCopies::of_headers(&stream);
        while let Some(copy) = copies.next().await {
            let damaged = match reads {
                true => copy.count_damaged().await?,
                false => 0,
            };
            found.push((copy.server, copy.has, damaged));
        }
        let after = find(&self.connection, name).await?.cached_info().clone();
        let leader = leader(&after);
        // Messages may be added or dropped meanwhile.
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

    /// Has another server lead a stream.
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

/// Returns whether a server has followed the leader of a stream.
fn follows(info: &Info, server: &str) -> bool {
    let cluster = info.cluster.iter();
    let mut others = cluster.flat_map(|cluster| &cluster.replicas);
    others.any(|peer| peer.name == server && peer.current && !peer.offline)
}
