//! Reservations, and answers that are kept, as they are stored and sent to other
//! servers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prost::Message;

use super::reservation::{Claim, Hold, KeptAnswer, Reservation, Retryable};
use crate::matching::{PodTerm, Requests};
use crate::proto::v1;

/// A reservation, or an answer that is kept: they share their numbers.
#[derive(Clone, PartialEq, Message)]
pub struct HeldRow {
    /// The owner.
    #[prost(string, tag = "1")]
    pub owner: String,
    /// For how long it is held, in nanoseconds.
    #[prost(int64, tag = "2")]
    pub ttl: i64,
    /// Namespace that it counts in.
    #[prost(string, tag = "3")]
    pub namespace: String,
    /// Labels that it counts with.
    #[prost(btree_map = "string, string", tag = "4")]
    pub labels: BTreeMap<String, String>,
    /// Its node.
    #[prost(string, tag = "5")]
    pub node: String,
    /// When its time is over, in nanoseconds since 1970.
    #[prost(int64, tag = "6")]
    pub expires: i64,
    /// The pod that it was confirmed for.
    #[prost(message, optional, tag = "7")]
    pub pod: Option<v1::ReservedPod>,
    /// What it requests of its node.
    #[prost(message, optional, tag = "8")]
    pub requests: Option<v1::Container>,
    /// The answer. Then only `ttl` and `expires` have a meaning besides.
    #[prost(message, optional, tag = "9")]
    pub answer: Option<AnswerRow>,
    /// The terms by which it keeps other pods away.
    #[prost(message, repeated, tag = "10")]
    pub keeps_away: Vec<v1::PodAffinityTerm>,
}

/// An answer to a request that may come again.
#[derive(Clone, PartialEq, Message)]
pub struct AnswerRow {
    /// See [`Retryable`].
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// See [`Retryable`].
    #[prost(bytes = "vec", tag = "2")]
    pub question: Vec<u8>,
    /// What was answered.
    #[prost(bytes = "vec", tag = "3")]
    pub answer: Vec<u8>,
}

/// What is kept under a number.
pub enum Numbered {
    /// A reservation.
    Held(Reservation),
    /// An answer.
    Answer(KeptAnswer),
}

impl HeldRow {
    /// Of a reservation.
    pub fn of(held: &Reservation) -> Self {
        let pod = held.claim.as_ref().map(|claim| v1::ReservedPod {
            name: claim.name.to_string(),
            uid: claim.uid.to_string(),
        });
        Self {
            owner: held.hold.owner.to_string(),
            ttl: length(held.hold.ttl),
            namespace: held.hold.namespace.to_string(),
            labels: (*held.hold.labels).clone(),
            node: held.node.to_string(),
            expires: nanos(held.expires),
            pod,
            requests: held.hold.requests.to_wire(),
            answer: None,
            keeps_away: held.hold.keeps_away.iter().map(PodTerm::to_wire).collect(),
        }
    }

    /// Of an answer.
    pub fn of_answer(kept: &KeptAnswer) -> Self {
        Self {
            ttl: length(kept.ttl),
            expires: nanos(kept.expires),
            answer: Some(AnswerRow {
                key: kept.request.key.to_vec(),
                question: kept.request.question.to_vec(),
                answer: kept.answer.to_vec(),
            }),
            ..Self::default()
        }
    }

    /// Returns what it says.
    ///
    /// # Errors
    /// Why that cannot be read.
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
            ttl: Duration::from_nanos(self.ttl.unsigned_abs()),
            expires: time(self.expires),
        }))
    }

    fn into_held(self) -> Reservation {
        let claim = self.pod.map(|pod| Claim {
            name: pod.name.into(),
            uid: pod.uid.into(),
        });
        Reservation {
            hold: Hold {
                owner: self.owner.into(),
                ttl: Duration::from_nanos(self.ttl.unsigned_abs()),
                namespace: self.namespace.into(),
                labels: Arc::new(self.labels),
                requests: Arc::new(
                    self.requests
                        .map_or_else(Requests::default, Requests::of_one),
                ),
                keeps_away: self.keeps_away.iter().map(PodTerm::trusted).collect(),
            },
            node: self.node.into(),
            expires: time(self.expires),
            claim,
        }
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
