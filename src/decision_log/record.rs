//! A line of the log.

use std::time::{Duration, SystemTime};

use prost::Message;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::brief::Brief;
use crate::proto::v1;

/// A decision that was made.
#[derive(Debug)]
pub struct DecisionRecord {
    /// Names it.
    pub id: String,
    /// When it was made.
    pub time: SystemTime,
    /// From taking the call to having the answer.
    pub took: Duration,
    /// Epoch of the revision.
    pub epoch: String,
    /// Revision that it saw.
    pub revision: i64,
    /// What was asked.
    pub request: LoggedRequest,
    /// What was answered, in brief.
    pub answer: Brief,
}

/// The most bytes of memory that a valid request takes per byte on the wire,
/// apart from the changes of an overlay: a toleration of all keys has 11 bytes
/// there, and takes 112 and its operator.
const MEMORY_PER_BYTE: usize = 16;

macro_rules! requests {
    ($($(#[$doc:meta])* $rpc:ident $request:ident;)*) => {
        /// What was asked.
        #[derive(Debug, Clone, Serialize)]
        #[serde(tag = "rpc", content = "request")]
        pub enum LoggedRequest {
            $($(#[$doc])* $rpc(v1::$request),)*
        }

        impl LoggedRequest {
            /// Name of the RPC.
            pub fn rpc(&self) -> &'static str {
                match self {
                    $(Self::$rpc(_) => stringify!($rpc),)*
                }
            }

            /// The snapshot that it names.
            pub fn snapshot(&self) -> &str {
                match self {
                    $(Self::$rpc(request) => &request.snapshot,)*
                }
            }

            /// The pod that it is about.
            pub fn pod(&self) -> Option<&v1::Pod> {
                match self {
                    $(Self::$rpc(request) => request.pod.as_ref(),)*
                }
            }

            /// At most how many bytes it takes in memory.
            pub fn memory_bytes(&self) -> usize {
                match self {
                    $(Self::$rpc(request) => {
                        let overlay = request.overlay.len() * size_of::<v1::Change>();
                        size_of::<Self>() + overlay + request.encoded_len() * MEMORY_PER_BYTE
                    })*
                }
            }

            /// Asks it of another snapshot, as it is now.
            pub fn ask_now(&mut self, snapshot: &str) {
                match self {
                    $(Self::$rpc(request) => {
                        request.snapshot = snapshot.to_owned();
                        request.min_revision = 0;
                        request.epoch.clear();
                    })*
                }
            }
        }

        $(impl From<v1::$request> for LoggedRequest {
            fn from(request: v1::$request) -> Self {
                Self::$rpc(request)
            }
        })*

        impl<'de> Deserialize<'de> for LoggedRequest {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let Untagged { rpc, request } = Untagged::deserialize(from)?;
                let read = match &*rpc {
                    $(stringify!($rpc) => serde_json::from_value(request).map(Self::$rpc),)*
                    other => {
                        return Err(D::Error::custom(format!("no decision is called {other:?}")));
                    }
                };
                read.map_err(|error| D::Error::custom(format!("request: {error}")))
            }
        }
    };
}

requests! {
    /// Which nodes are feasible.
    Filter FilterRequest;
    /// How good nodes are.
    Score ScoreRequest;
    /// Where many should go.
    Place PlaceRequest;
    /// What keeps a pod out.
    Explain ExplainRequest;
}

/// A line as it is written and read.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// Names the decision; the response carries it.
    pub id: String,
    /// When it was made, in RFC 3339.
    pub time: String,
    /// Name of the snapshot.
    pub snapshot: String,
    /// Epoch of the revision.
    pub epoch: String,
    /// Revision that the decision saw.
    pub revision: i64,
    /// Microseconds from taking the call to having the answer.
    pub took_micros: u64,
    /// The RPC and its request, in proto-JSON.
    #[serde(flatten)]
    pub request: LoggedRequest,
    /// What was answered, in brief.
    pub answer: Brief,
}

/// A line that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LineError(#[from] serde_json::Error);

impl From<DecisionRecord> for Line {
    fn from(decided: DecisionRecord) -> Self {
        let snapshot = match decided.request.snapshot() {
            "" => "default",
            name => name,
        };
        Self {
            id: decided.id,
            time: humantime::format_rfc3339_micros(decided.time).to_string(),
            snapshot: snapshot.to_owned(),
            epoch: decided.epoch,
            revision: decided.revision,
            took_micros: u64::try_from(decided.took.as_micros()).unwrap_or(u64::MAX),
            request: decided.request,
            answer: decided.answer,
        }
    }
}

impl Line {
    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, LineError> {
        Ok(serde_json::from_str(text)?)
    }
}

/// A request, and which one it is. Reading it in two steps says what is wrong.
#[derive(Deserialize)]
struct Untagged {
    rpc: String,
    request: serde_json::Value,
}
