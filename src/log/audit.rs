//! Reads a log whole, and says what of it does not prove its place.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::interface::{Bounds, Error, Log, Message, Source};
use super::record::{Place, Verdict};
use crate::backoff::Backoff;

/// How long to wait for a message that is there, and for a log that cannot be reached:
/// its servers may be about to elect a leader.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pauses before it is asked again.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How many faults are listed.
const LISTED: usize = 100;

/// How many copies of a log there are at most.
const COPIES: usize = 5;

/// What a log is found to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audit {
    /// What it holds.
    pub bounds: Bounds,
    /// Its records that count.
    pub records: u64,
    /// Messages that count for nobody: their writers lost against others.
    pub voids: u64,
    /// How many copies were compared.
    pub copies: usize,
    /// How many faults there are.
    pub faulty: u64,
    /// The first of them.
    pub faults: Vec<Fault>,
}

/// Something of a log that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The message.
    pub sequence: u64,
    /// The copy that has it, by number from 0; that of the leader if none.
    pub copy: Option<usize>,
    /// What is wrong with it.
    pub what: String,
}

/// Reads the log of a snapshot up to its present end; with `copies` also message
/// by message as each server has it.
///
/// # Errors
/// The log cannot be read now, or there is none.
pub async fn audit(log: &dyn Log, name: &str, copies: bool) -> Result<Audit, Error> {
    let bounds = patiently(async || log.bounds(name).await).await?;
    let mut audit = Audit {
        bounds,
        ..Audit::default()
    };
    if copies && bounds.first <= bounds.last {
        audit.copies = count_copies(log, name, bounds.last).await?;
    }
    let follower = log.follow(name, bounds.first - 1);
    let mut place = (bounds.first == 1).then_some(Place::START);
    let mut after = bounds.first - 1;
    while after < bounds.last {
        let no_message = || Error::Unreachable(format!("no message {}", after + 1));
        let next = async || follower.next(after, PATIENCE).await?.ok_or_else(no_message);
        let message = patiently(next).await?;
        for missing in after + 1..message.sequence {
            audit.note(missing, None, "it is missing");
        }
        place = Some(audit.judge(place, &message));
        audit.compare(log, name, &message).await;
        after = message.sequence;
    }
    Ok(audit)
}

/// Asks a log again that cannot be reached, until it can or [`PATIENCE`] is over.
async fn patiently<T>(mut ask: impl AsyncFnMut() -> Result<T, Error>) -> Result<T, Error> {
    let end = Instant::now() + PATIENCE;
    let mut pauses = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
    loop {
        match ask().await {
            Err(Error::Unreachable(_)) if Instant::now() < end => {
                sleep(pauses.after_failure()).await;
            }
            answered => return answered,
        }
    }
}

/// Returns how many servers have a copy to read.
async fn count_copies(log: &dyn Log, name: &str, sequence: u64) -> Result<usize, Error> {
    for copy in 0..COPIES {
        match log.read(name, sequence, Source::Peer(copy)).await {
            Ok(_) | Err(Error::Unreachable(_)) => {}
            Err(Error::NotFound(_)) => return Ok(copy),
            Err(error) => return Err(error),
        }
    }
    Ok(COPIES)
}

impl Audit {
    fn note(&mut self, sequence: u64, copy: Option<usize>, what: impl Into<String>) {
        self.faulty += 1;
        if self.faults.len() < LISTED {
            self.faults.push(Fault {
                sequence,
                copy,
                what: what.into(),
            });
        }
    }

    /// Judges a message, and returns the place after it. Where the beginning of the
    /// log is not kept, the first record is believed.
    fn judge(&mut self, place: Option<Place>, message: &Message) -> Place {
        let place = place
            .filter(|place| place.sequence + 1 == message.sequence)
            .or_else(|| Place::before(message))
            .unwrap_or(Place {
                sequence: message.sequence - 1,
                ..Place::START
            });
        let sequence = message.sequence;
        match place.judge(message) {
            Verdict::Valid(body) => {
                self.records += 1;
                return Place {
                    log_id: body.log_id(),
                    ..place.after(message)
                };
            }
            Verdict::Void => self.voids += 1,
            Verdict::Damaged(why) | Verdict::Later(why) => {
                self.note(sequence, None, why.to_string());
            }
            Verdict::Gap => self.note(sequence, None, "it is not the next one"),
            Verdict::OtherLog => self.note(sequence, None, "it is of another log"),
            Verdict::Fork => {
                let what = "it follows on another message than the one before it";
                self.note(sequence, None, what);
            }
        }
        // What comes after it is judged by what it says itself.
        Place::before(message).unwrap_or(place).after(message)
    }

    /// Compares a message with the copies of it.
    async fn compare(&mut self, log: &dyn Log, name: &str, own: &Message) {
        for copy in 0..self.copies {
            let what = match log.read(name, own.sequence, Source::Peer(copy)).await {
                Ok(read) if read.bytes == own.bytes => continue,
                Ok(_) => "it differs from what the leader has".to_owned(),
                Err(Error::NotFound(_)) => "it is missing".to_owned(),
                Err(error) => format!("it cannot be read: {error}"),
            };
            self.note(own.sequence, Some(copy), what);
        }
    }
}
