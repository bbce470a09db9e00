//! The line of the log that records a decision, with its answer in brief. Two briefs tell whether
//! their answers are the same, and show the differences.

use std::collections::BTreeSet;
use std::hash::Hasher;

use prost::Message;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use twox_hash::XxHash3_64;

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

/// The largest number of nodes that a brief names.
const NAMED_NODES: usize = 10;

/// An answer in brief, as JSON: `docs/decision-log.md` has its fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Brief(Map<String, Value>);

impl Brief {
    /// The brief of an answer to Filter.
    pub fn of_filter(answer: &v1::FilterResponse) -> Self {
        let mut digest = Digest::default();
        digest.verdicts(&answer.feasible, &answer.infeasible);
        digest.bytes(&answer.feasible_bitmap);
        Self::of(&answer.reasons, &answer.constraints, digest)
            .with("nodeCount", answer.feasible_count)
            .with("judgedCount", answer.node_count)
            .with("nodes", first(&answer.feasible, |node| json!([node, null])))
    }

    /// The brief of an answer to Explain: it covers the decision, not the words that explain it.
    pub fn of_explain(answer: &v1::ExplainResponse) -> Self {
        let mut digest = Digest::default();
        digest.verdicts(&answer.feasible, &answer.infeasible);
        Self::of(&answer.reasons, &answer.constraints, digest)
            .with("nodeCount", answer.feasible_count)
            .with("judgedCount", answer.node_count)
            .with("nodes", first(&answer.feasible, |node| json!([node, null])))
    }

    /// The brief of an answer to Score.
    pub fn of_score(answer: &v1::ScoreResponse) -> Self {
        let mut digest = Digest::default();
        for score in &answer.scores {
            digest.text(&score.node);
            digest.number(score.score);
            digest.number(score.raw);
        }
        for score in &answer.packed_scores {
            digest.number(i64::from(*score));
        }
        digest.bytes(&answer.scored_bitmap);
        let count = answer.scores.len().max(answer.packed_scores.len());
        Self::of(&[], &answer.constraints, digest)
            .with("nodeCount", count)
            .with(
                "nodes",
                first(&answer.scores, |it| json!([it.node, it.score])),
            )
    }

    /// The brief of an answer to Place. Reservations are left out: they differ each time.
    pub fn of_place(answer: &v1::PlaceResponse) -> Self {
        let mut digest = Digest::default();
        for placement in &answer.placements {
            digest.text(&placement.node);
            digest.number(placement.score);
        }
        answer.removed.iter().for_each(|node| digest.text(node));
        let picks = first(&answer.placements, |it| json!([it.node, it.score]));
        Self::of(&answer.reasons, &answer.constraints, digest)
            .with("nodeCount", answer.placements.len())
            .with("unplaced", answer.unplaced)
            .with("nodes", picks)
    }

    /// Returns the parts that the answers to all calls have.
    fn of(refused: &[v1::ReasonCount], reports: &[v1::ConstraintReport], digest: Digest) -> Self {
        let reason = |it: &v1::ReasonCount| {
            let brief = json!({"count": it.count, "code": it.code().as_str_name()});
            (it.reason.clone(), brief)
        };
        let reasons: Map<String, Value> = refused.iter().map(reason).collect();
        let constraints: Vec<Value> = reports.iter().map(constraint).collect();
        Self::default()
            .with("reasons", reasons)
            .with("constraints", constraints)
            .with("digest", digest.finish())
    }

    fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0.insert(field.to_owned(), value.into());
        self
    }

    /// The differences from another answer, one for each field that differs.
    pub fn differences(&self, other: &Self) -> Vec<AnswerDifference> {
        let mut found = Vec::new();
        compare_fields("", &self.0, &other.0, &mut found);
        found
    }
}

/// A field in which two answers differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AnswerDifference {
    /// The path of the field.
    pub field: String,
    /// The value in the logged answer; null if there is none.
    pub was: Value,
    /// The value in the new answer; null if there is none.
    pub is: Value,
}

fn compare_fields(
    path: &str,
    was: &Map<String, Value>,
    is: &Map<String, Value>,
    found: &mut Vec<AnswerDifference>,
) {
    let names: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    for name in names {
        let dot = if path.is_empty() { "" } else { "." };
        let value = |of: &Map<String, Value>| of.get(name).cloned().unwrap_or_default();
        compare(format!("{path}{dot}{name}"), value(was), value(is), found);
    }
}

/// Adds the differences of two values. Lists of objects are compared item by item, other lists whole.
fn compare(path: String, was: Value, is: Value, found: &mut Vec<AnswerDifference>) {
    match (&was, &is) {
        _ if was == is => {}
        (Value::Object(was), Value::Object(is)) => compare_fields(&path, was, is, found),
        (Value::Array(these), Value::Array(those))
            if these.iter().chain(those).all(Value::is_object) =>
        {
            for at in 0..these.len().max(those.len()) {
                let value = |of: &[Value]| of.get(at).cloned().unwrap_or_default();
                compare(format!("{path}[{at}]"), value(these), value(those), found);
            }
        }
        _ => found.push(AnswerDifference {
            field: path,
            was,
            is,
        }),
    }
}

fn constraint(report: &v1::ConstraintReport) -> Value {
    let mut digest = Digest::default();
    for domain in &report.domains {
        digest.text(&domain.value);
        digest.number(domain.matching_pods);
        digest.number(domain.skew);
    }
    json!({
        "index": report.constraint_index,
        "domainCount": report.domain_count,
        "globalMinimum": report.global_minimum,
        "digest": digest.finish(),
    })
}

/// The first nodes of an answer.
fn first<T>(nodes: &[T], named: impl Fn(&T) -> Value) -> Vec<Value> {
    nodes.iter().take(NAMED_NODES).map(named).collect()
}

/// A hash that stays the same in every version of Evenkeel: logs outlive a version.
#[derive(Default)]
struct Digest(XxHash3_64);

impl Digest {
    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
        // No text contains this byte, so the end of a text is hashed, too.
        self.0.write(&[0xff]);
    }

    fn number(&mut self, number: i64) {
        self.0.write(&number.to_le_bytes());
    }

    fn verdicts(&mut self, feasible: &[String], infeasible: &[v1::NodeVerdict]) {
        feasible.iter().for_each(|node| self.text(node));
        for verdict in infeasible {
            self.text(&verdict.node);
            self.text(&verdict.reason);
            self.number(verdict.skew);
        }
    }

    fn finish(self) -> String {
        format!("{:016x}", self.0.finish())
    }
}
