//! The line of the log that records a decision.

use prost::Message;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::brief::Brief;
use crate::proto::v1;

/// The most bytes of memory that a valid request takes per byte on the wire, apart from the changes
/// of an overlay: a toleration of all keys has 11 bytes on the wire, and takes 112 bytes of memory
/// and its operator.
const MEMORY_PER_BYTE: usize = 16;

macro_rules! requests {
    ($($(#[$doc:meta])* $rpc:ident $request:ident;)*) => {
        /// The request.
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

            /// Name of the snapshot that the request asks.
            pub fn snapshot(&self) -> &str {
                match self {
                    $(Self::$rpc(request) if request.snapshot.is_empty() => "default",)*
                    $(Self::$rpc(request) => &request.snapshot,)*
                }
            }

            /// The pod that the request is about.
            pub fn pod(&self) -> Option<&v1::Pod> {
                match self {
                    $(Self::$rpc(request) => request.pod.as_ref(),)*
                }
            }

            /// Returns an upper bound of the request's bytes in memory.
            pub fn memory_bytes(&self) -> usize {
                match self {
                    $(Self::$rpc(request) => {
                        let overlay = request.overlay.len() * size_of::<v1::Change>();
                        size_of::<Self>() + overlay + request.encoded_len() * MEMORY_PER_BYTE
                    })*
                }
            }

            /// Changes the request so that it asks another snapshot, at its present revision.
            pub fn ask_now(&mut self, snapshot: &str) {
                match self {
                    $(Self::$rpc(request) => {
                        request.snapshot = snapshot.to_owned();
                        request.min_revision = 0;
                        request.epoch.clear();
                        request.min_resource_versions.clear();
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
                    $(stringify!($rpc) => serde_path_to_error::deserialize(request).map(Self::$rpc),)*
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
    /// Asks which nodes are feasible.
    Filter FilterRequest;
    /// Asks how good nodes are.
    Score ScoreRequest;
    /// Asks where many pods should go.
    Place PlaceRequest;
    /// Asks why a pod finds no place.
    Explain ExplainRequest;
}

/// The record of a decision, as it is written and read.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// Identifies the decision; the response carries it, too.
    pub id: String,
    /// The time of the decision, in RFC 3339.
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
    /// The answer, in brief.
    pub answer: Brief,
}

impl Line {
    /// Reads a line.
    ///
    /// # Errors
    /// The line is not a valid record.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

/// A request and its kind. Reading it in two steps gives better messages.
#[derive(Deserialize)]
struct Untagged {
    rpc: String,
    request: serde_json::Value,
}
