//! Reads a whole log, and reports each message that does not prove its place.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::interface::{Bounds, Error, Log, Message};
use super::record::{Place, Verdict};
use crate::backoff::Backoff;

/// The longest wait for a message that the log should have, and for a log that cannot be reached:
/// its servers may be electing a leader.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pauses before the log is asked again.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The largest number of listed faults.
const LISTED: usize = 100;

/// The findings about a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audit {
    /// The bounds of the messages, and the bytes that they take.
    pub bounds: Bounds,
    /// The number of records that count.
    pub records: u64,
    /// Messages that no reader applies: another server's message came before them.
    pub voids: u64,
    /// The number of faults.
    pub faulty: u64,
    /// The first of the faults.
    pub faults: Vec<Fault>,
}

/// A fault in a log: a message that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The sequence of the message.
    pub sequence: u64,
    /// The fault, in words.
    pub what: String,
}

/// Reads the log of a snapshot up to its present end.
///
/// # Errors
/// The log cannot be read now, or there is none.
pub async fn audit(log: &dyn Log, name: &str) -> Result<Audit, Error> {
    let bounds = patiently(async || log.bounds(name).await).await?;
    let mut audit = Audit {
        bounds: bounds.clone(),
        ..Audit::default()
    };
    let follower = log.follow(name, bounds.first - 1);
    let mut place = (bounds.first == 1).then_some(Place::START);
    let mut after = bounds.first - 1;
    while after < bounds.last {
        let no_message = || Error::Unreachable(format!("no message {}", after + 1));
        let next = async || follower.next(after, PATIENCE).await?.ok_or_else(no_message);
        let mut message = patiently(next).await?;
        if message.sequence > after + 1 {
            // A follower reads any copy. The leader is asked itself.
            let own = async || log.read(name, after + 1).await;
            match patiently(own).await {
                Ok(own) => message = own,
                Err(Error::NotFound(_)) => {
                    audit.note(after + 1, "it is missing");
                    after += 1;
                    continue;
                }
                Err(error) => return Err(error),
            }
        }
        place = Some(audit.judge(place, &message));
        after = message.sequence;
    }
    Ok(audit)
}

/// Repeats a question while the log cannot be reached, until [`PATIENCE`] is over.
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

impl Audit {
    fn note(&mut self, sequence: u64, what: impl Into<String>) {
        self.faulty += 1;
        if self.faults.len() < LISTED {
            self.faults.push(Fault {
                sequence,
                what: what.into(),
            });
        }
    }

    /// Judges a message, and returns the place after it. If the beginning of the log is not kept,
    /// the place that the first record names is believed.
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
                self.note(sequence, why.to_string());
            }
            Verdict::Gap => self.note(sequence, "it is not the next one"),
            Verdict::OtherLog => self.note(sequence, "it is of another log"),
            Verdict::Fork => {
                let what = "it follows on another message than the one before it";
                self.note(sequence, what);
            }
        }
        // The next message is judged by the place that this message names itself.
        Place::before(message).unwrap_or(place).after(message)
    }
}
