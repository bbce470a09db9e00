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
use crate::snapshot::{Deadline, Snapshot, Stopped};
use crate::spread::{NodeRefusal, NodeScore};

/// An answer without its lists of nodes, and these lists in their encoding.
#[derive(Debug, Default)]
pub struct ListedAnswer<M> {
    /// The rest of the answer.
    pub message: M,
    lists: Vec<u8>,
    /// The number of nodes with a score.
    scored: usize,
}

impl<M: Message> ListedAnswer<M> {
    /// Writes a field with these bytes.
    fn bytes(&mut self, tag: u32, bytes: &[u8]) {
        encode_key(tag, WireType::LengthDelimited, &mut self.lists);
        encode_varint(bytes.len() as u64, &mut self.lists);
        self.lists.extend_from_slice(bytes);
    }

    /// The whole answer.
    pub fn encode(self) -> Bytes {
        let mut bytes = self.lists;
        bytes.reserve(self.message.encoded_len());
        self.message.encode_raw(&mut bytes);
        bytes.into()
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

    /// Writes a node with the reason of its refusal, which looks at the deadline and at the memory.
    pub fn infeasible(
        &mut self,
        node: &str,
        refusal: &NodeRefusal,
        deadline: &Deadline<'_>,
    ) -> Result<(), Stopped> {
        let verdict = answer::node_verdict(node.to_owned(), refusal);
        let before = self.lists.len();
        prost::encoding::message::encode(4, &verdict, &mut self.lists);
        // While the lists move to a larger place, both places are in memory.
        deadline.entry(self.lists.len().saturating_sub(before), self.lists.len())
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

impl From<v1::ExplainResponse> for ListedAnswer<v1::ExplainResponse> {
    fn from(message: v1::ExplainResponse) -> Self {
        Self {
            message,
            lists: Vec::new(),
            scored: 0,
        }
    }
}

impl<M: MeasuredAnswer> MeasuredAnswer for ListedAnswer<M> {
    fn size(&self) -> Size {
        let size = self.message.size();
        let scored = answer::count(self.scored);
        Size {
            nodes: size.nodes.max(scored),
            feasible: size.feasible.max(scored),
            ..size
        }
    }

    fn note(&mut self, snapshot: &Snapshot) {
        self.message.note(snapshot);
    }
}

impl<M: Message + Clone + Loggable> Loggable for ListedAnswer<M> {
    fn record(&self, pending: Pending, took: Option<Duration>) -> Option<String> {
        let mut whole = self.message.clone();
        whole.merge(&*self.lists).ok()?;
        whole.record(pending, took)
    }

    fn set_id(&mut self, id: String) {
        self.message.set_id(id);
    }
}
