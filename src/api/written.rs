//! The encoding of answers about one pod. Lists of nodes are encoded node by node while the state is
//! held, because they are long and borrow their names from it; the rest is a message.

use std::time::Duration;

use prost::Message;
use prost::bytes::Bytes;
use prost::encoding::{WireType, encode_key, encode_varint};

use super::answer;
use super::noted::{Loggable, MeasuredAnswer, Size};
use crate::decision_log::Pending;
use crate::proto::v1;
use crate::snapshot::Snapshot;
use crate::spread::{NodeRefusal, NodeScore};

/// The bytes that the epoch, the age and the id of a logged decision fit in.
const NOTED_BYTES: usize = 128;

/// The methods whose requests are about one pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodMethod {
    /// Which nodes can run the pod.
    Filter,
    /// Which of them are best.
    Score,
    /// Why the pod runs nowhere, and what would help.
    Explain,
}

/// An answer without its lists of nodes, and these lists in their encoding.
#[derive(Debug, Default)]
pub struct ListedAnswer<M> {
    /// The rest of the answer.
    pub message: M,
    lists: Vec<u8>,
    /// The number of nodes with a score.
    scored: usize,
}

/// An encoded answer, without the epoch and age of the snapshot.
#[derive(Debug)]
pub struct Written {
    method: PodMethod,
    bytes: Vec<u8>,
    size: Size,
}

impl<M: Message> ListedAnswer<M> {
    /// Writes a field with these bytes.
    fn bytes(&mut self, tag: u32, bytes: &[u8]) {
        encode_key(tag, WireType::LengthDelimited, &mut self.lists);
        encode_varint(bytes.len() as u64, &mut self.lists);
        self.lists.extend_from_slice(bytes);
    }

    fn written(self, method: PodMethod, size: Size) -> Written {
        let mut bytes = self.lists;
        bytes.reserve(self.message.encoded_len().saturating_add(NOTED_BYTES));
        self.message.encode_raw(&mut bytes);
        Written {
            method,
            bytes,
            size,
        }
    }
}

impl ListedAnswer<v1::FilterResponse> {
    /// Writes the names of nodes that pass, of which there are so many.
    pub fn feasible<'n>(&mut self, count: usize, names: impl Iterator<Item = &'n str>) {
        /// The bytes that most names of nodes take.
        const NAME_BYTES: usize = 24;
        self.lists.reserve(count.saturating_mul(NAME_BYTES));
        names.for_each(|name| self.bytes(3, name.as_bytes()));
    }

    /// Writes a node with the reason of its refusal. Returns the bytes of the lists so far.
    pub fn infeasible(&mut self, node: &str, refusal: &NodeRefusal) -> usize {
        let verdict = answer::node_verdict(node.to_owned(), refusal);
        prost::encoding::message::encode(4, &verdict, &mut self.lists);
        self.lists.len()
    }
}

impl ListedAnswer<v1::ScoreResponse> {
    /// Writes a node and its score.
    pub fn score(&mut self, node: &str, score: &NodeScore) {
        let score = v1::NodeScore {
            node: node.to_owned(),
            score: score.score,
            raw: score.raw,
            ignored: score.ignored,
        };
        prost::encoding::message::encode(4, &score, &mut self.lists);
        self.scored = self.scored.saturating_add(1);
    }

    /// Writes scores of 0 to 100 without the nodes.
    pub fn packed(&mut self, scores: &[u8]) {
        if !scores.is_empty() {
            // A number below 128 is encoded as one equal byte, so the scores are a packed field
            // already.
            self.bytes(6, scores);
        }
        self.scored = scores.len();
    }

    /// Writes scores of any size without the nodes.
    pub fn packed_wide(&mut self, scores: Vec<i32>) {
        self.scored = scores.len();
        self.message.packed_scores = scores;
    }
}

impl From<ListedAnswer<v1::FilterResponse>> for Written {
    fn from(answer: ListedAnswer<v1::FilterResponse>) -> Self {
        let size = answer.message.size();
        answer.written(PodMethod::Filter, size)
    }
}

impl From<ListedAnswer<v1::ScoreResponse>> for Written {
    fn from(answer: ListedAnswer<v1::ScoreResponse>) -> Self {
        let scored = answer::count(answer.scored);
        let size = Size {
            nodes: scored,
            feasible: scored,
            ..answer.message.size()
        };
        answer.written(PodMethod::Score, size)
    }
}

impl From<v1::ExplainResponse> for Written {
    fn from(message: v1::ExplainResponse) -> Self {
        let size = message.size();
        let answer = ListedAnswer {
            message,
            lists: Vec::new(),
            scored: 0,
        };
        answer.written(PodMethod::Explain, size)
    }
}

impl Written {
    /// The whole answer.
    pub fn finish(self) -> Bytes {
        self.bytes.into()
    }

    /// Adds the fields of another part of the answer.
    fn add(&mut self, part: &impl Message) {
        part.encode_raw(&mut self.bytes);
    }
}

impl MeasuredAnswer for Written {
    fn size(&self) -> Size {
        self.size
    }

    fn note(&mut self, snapshot: &Snapshot) {
        // These fields have the same numbers in all answers.
        let mut noted = v1::FilterResponse::default();
        noted.note(snapshot);
        self.add(&noted);
    }
}

impl Loggable for Written {
    fn record(&self, pending: Pending, took: Option<Duration>) -> Option<String> {
        let bytes = &*self.bytes;
        match self.method {
            PodMethod::Filter => v1::FilterResponse::decode(bytes)
                .ok()?
                .record(pending, took),
            PodMethod::Score => v1::ScoreResponse::decode(bytes).ok()?.record(pending, took),
            PodMethod::Explain => v1::ExplainResponse::decode(bytes)
                .ok()?
                .record(pending, took),
        }
    }

    fn set_id(&mut self, decision_id: String) {
        match self.method {
            PodMethod::Filter => self.add(&v1::FilterResponse {
                decision_id,
                ..v1::FilterResponse::default()
            }),
            PodMethod::Score => self.add(&v1::ScoreResponse {
                decision_id,
                ..v1::ScoreResponse::default()
            }),
            PodMethod::Explain => self.add(&v1::ExplainResponse {
                decision_id,
                ..v1::ExplainResponse::default()
            }),
        }
    }
}
