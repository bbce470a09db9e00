//! The stored form of reservations and kept answers, which is also sent to other servers.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prost::Message;

use super::reservation::{Claim, Hold, KeptAnswer, Numbered, Reservation, Retryable};
use crate::proto::v1;
use crate::snapshot::clock::{UPTIME_STEP, Uptime};

/// A reservation, or a kept answer: they share their numbers.
#[derive(Clone, PartialEq, Message)]
pub struct HeldRow {
    /// The owner.
    #[prost(string, tag = "1")]
    pub owner: String,
    /// The time for which it is held, in nanoseconds.
    #[prost(int64, tag = "2")]
    pub ttl: i64,
    /// The pod by which it counts, without a name and a node.
    #[prost(message, optional, tag = "3")]
    pub template: Option<v1::Pod>,
    /// The reservation's node.
    #[prost(string, tag = "5")]
    pub node: String,
    /// The end of its time, in nanoseconds since 1970.
    #[prost(int64, tag = "6")]
    pub expires: i64,
    /// The pod that it was confirmed for.
    #[prost(message, optional, tag = "7")]
    pub pod: Option<v1::ReservedPod>,
    /// The answer. A row with an answer uses only `ttl` and `expires` besides.
    #[prost(message, optional, tag = "9")]
    pub answer: Option<AnswerRow>,
    /// The [`Reservation::decided`].
    #[prost(string, tag = "11")]
    pub decided: String,
    /// In a state directory: the end of its time by a clock that cannot be set.
    #[prost(message, optional, tag = "12")]
    pub measured: Option<MeasuredRow>,
    /// The time that is left when the row is written, in nanoseconds; 0 for the whole time.
    #[prost(int64, tag = "14")]
    pub left: i64,
}

/// The end of a time in one boot of the machine.
#[derive(Clone, PartialEq, Message)]
pub struct MeasuredRow {
    /// Identifies the boot.
    #[prost(string, tag = "1")]
    pub boot: String,
    /// The running time of the machine at that end, in nanoseconds.
    #[prost(int64, tag = "2")]
    pub ends: i64,
}

/// An answer to a request that may be repeated.
#[derive(Clone, PartialEq, Message)]
pub struct AnswerRow {
    /// The [`Retryable::key`].
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The [`Retryable::question`].
    #[prost(bytes = "vec", tag = "2")]
    pub question: Vec<u8>,
    /// The answer.
    #[prost(bytes = "vec", tag = "3")]
    pub answer: Vec<u8>,
}

impl HeldRow {
    /// The row of a reservation or an answer.
    pub fn of(numbered: &Numbered) -> Self {
        match numbered {
            Numbered::Held(held) => Self::of_reservation(held),
            Numbered::Answer(kept) => Self::of_answer(kept),
        }
    }

    fn of_reservation(held: &Reservation) -> Self {
        let pod = held.claim.as_ref().map(|claim| v1::ReservedPod {
            name: claim.name.to_string(),
            uid: claim.uid.to_string(),
        });
        Self {
            owner: held.hold.owner.to_string(),
            ttl: length(held.hold.ttl),
            template: Some((*held.hold.template).clone()),
            node: held.node.to_string(),
            expires: nanos(held.expires),
            pod,
            answer: None,
            decided: held.decided.to_string(),
            measured: None,
            left: left(held.left, held.hold.ttl),
        }
    }

    fn of_answer(kept: &KeptAnswer) -> Self {
        Self {
            ttl: length(kept.ttl),
            expires: nanos(kept.expires),
            left: left(kept.left, kept.ttl),
            answer: Some(AnswerRow {
                key: kept.request.key.to_vec(),
                question: kept.request.question.to_vec(),
                answer: kept.answer.to_vec(),
            }),
            ..Self::default()
        }
    }

    /// The same row, which is written now, measured by the clock of this boot.
    #[must_use]
    pub fn measured_from(self, now: &Uptime) -> Self {
        let ends = now.passed + UPTIME_STEP + self.remaining();
        Self {
            measured: Some(MeasuredRow {
                boot: now.boot.clone(),
                ends: length(ends),
            }),
            ..self
        }
    }

    /// The whole time for which it is held.
    pub fn whole(&self) -> Duration {
        Duration::from_nanos(self.ttl.unsigned_abs())
    }

    /// The time that was left when the row was written.
    fn remaining(&self) -> Duration {
        match self.left {
            0 => self.whole(),
            left => Duration::from_nanos(left.unsigned_abs()).min(self.whole()),
        }
    }

    /// Returns the time that is left. In another boot of the machine only a wall clock can tell;
    /// without one the whole time is left.
    pub fn left(&self, uptime: Option<&Uptime>, wall: Option<SystemTime>) -> Duration {
        let measured = self.measured.as_ref().zip(uptime);
        let measured = measured.filter(|(row, now)| row.boot == now.boot);
        let by_uptime = |(row, now): (&MeasuredRow, &Uptime)| {
            let ends = Duration::from_nanos(row.ends.unsigned_abs());
            ends.saturating_sub(now.passed)
        };
        let by_wall = |wall| time(self.expires).duration_since(wall).unwrap_or_default();
        let left = measured.map(by_uptime).or_else(|| wall.map(by_wall));
        left.map_or(self.whole(), |left| left.min(self.whole()))
    }

    /// Returns the reservation or answer of the row.
    ///
    /// # Errors
    /// The reason why the row cannot be read.
    pub fn into_kept(mut self) -> Result<Numbered, String> {
        let Some(AnswerRow {
            key,
            question,
            answer,
        }) = self.answer.take()
        else {
            return Ok(Numbered::Held(self.into_held()));
        };
        let hash = |bytes: Vec<u8>| {
            let length = bytes.len();
            let hash = <[u8; 32]>::try_from(bytes);
            hash.map_err(|_| format!("a hash of an answer has {length} bytes"))
        };
        Ok(Numbered::Answer(KeptAnswer {
            request: Retryable {
                key: hash(key)?,
                question: hash(question)?,
            },
            answer: answer.into(),
            ttl: self.whole(),
            expires: time(self.expires),
            left: self.remaining(),
        }))
    }

    fn into_held(self) -> Reservation {
        let (ttl, left) = (self.whole(), self.remaining());
        let claim = self.pod.map(|pod| Claim {
            name: pod.name.into(),
            uid: pod.uid.into(),
        });
        Reservation {
            hold: Hold {
                owner: self.owner.into(),
                ttl,
                template: Arc::new(self.template.unwrap_or_default()),
            },
            node: self.node.into(),
            expires: time(self.expires),
            left,
            claim,
            decided: self.decided.into(),
        }
    }
}

/// The [`HeldRow::left`] of something of which this is left.
fn left(left: Duration, ttl: Duration) -> i64 {
    match left == ttl {
        true => 0,
        false => length(left).max(1),
    }
}

/// A time span in nanoseconds.
fn length(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

/// The nanoseconds from 1970 to a time.
pub fn nanos(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// The time this many nanoseconds after 1970.
pub fn time(nanos: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(nanos.unsigned_abs())
}
