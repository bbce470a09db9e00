//! Writes the answers to `Filter` and `Score` straight from the decision into their encoding. This
//! runs while the read view is open, because a decision borrows names from it.

use std::marker::PhantomData;
use std::time::Duration;

use prost::Message;
use prost::bytes::Bytes;
use tonic::Response;

use super::answer::{self, ReasonTally, count, index, reason_tallies};
use super::noted::{Decision, Loggable, MeasuredAnswer, Size};
use crate::decision_log::Pending;
use crate::proto::encoded::Encoded;
use crate::proto::encoding::{Fields, Sink};
use crate::proto::v1;
use crate::snapshot::{ReadView, Snapshot};
use crate::spread::{Active, DomainReport, NodeRefusal, NodeScore, Reason, Report, Tallies};

/// The bytes that most answers without node names fit in.
const USUAL_BYTES: usize = 512;

/// Turns a constraint, as a dialect evaluates it, into its wire form.
type ConstraintWords = fn(&Active) -> v1::TopologySpreadConstraint;

/// A partly written answer.
#[derive(Debug)]
pub struct Written<M> {
    bytes: Vec<u8>,
    size: Size,
    message: PhantomData<fn() -> M>,
}

/// A message whose answers can be written.
pub trait Writable: Message + Default + Loggable {
    /// The tag of the constraints.
    const CONSTRAINTS: u32;
    /// The tag of the candidates that the snapshot does not hold.
    const UNKNOWN_CANDIDATES: u32;
    /// The tag of the answer's id in the decision log.
    const DECISION_ID: u32;
}

impl Writable for v1::FilterResponse {
    const CONSTRAINTS: u32 = 5;
    const UNKNOWN_CANDIDATES: u32 = 10;
    const DECISION_ID: u32 = 11;
}

impl Writable for v1::ScoreResponse {
    const CONSTRAINTS: u32 = 5;
    const UNKNOWN_CANDIDATES: u32 = 7;
    const DECISION_ID: u32 = 9;
}

impl<M: Writable> Written<M> {
    /// The beginning of an answer about a revision.
    pub fn of(revision: i64) -> Self {
        let mut bytes = Vec::with_capacity(USUAL_BYTES);
        bytes.int(1, revision);
        Self {
            bytes,
            size: Size::default(),
            message: PhantomData,
        }
    }

    /// Writes the numbers behind constraints.
    pub fn constraints<'r>(
        &mut self,
        reports: impl IntoIterator<Item = &'r Report<'r>>,
        words: ConstraintWords,
    ) {
        for report in reports {
            self.size.domains = self.size.domains.saturating_add(count(report.domain_count));
            self.bytes
                .message(M::CONSTRAINTS, &ConstraintFields { report, words });
        }
    }

    /// Writes the candidates that the snapshot does not hold.
    pub fn unknown_candidates(&mut self, names: &[String]) {
        for name in names {
            self.bytes.item(M::UNKNOWN_CANDIDATES, name.as_bytes());
        }
    }

    /// Writes the facts that the decision did not check: fields of the pod, and deletes of the
    /// overlay that hit nothing. Writes the kind of default constraints, too.
    pub fn terms(&mut self, unchecked: &[String], read_view: &ReadView<'_>) {
        for field in unchecked {
            self.bytes.item(16, field.as_bytes());
        }
        for object in read_view.unknown_deletes {
            self.bytes.item(17, &object.encode_to_vec());
        }
        let defaults = answer::defaults_kind(read_view.defaults);
        self.bytes.int(20, defaults.into());
    }

    /// The whole answer.
    pub fn finish(self) -> Encoded<M> {
        Encoded::new(self.bytes.into())
    }
}

impl Written<v1::FilterResponse> {
    /// Writes the names of nodes that pass.
    pub fn feasible<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        for name in names {
            self.bytes.item(3, name.as_bytes());
        }
    }

    /// Makes room for this many names.
    pub fn expect_names(&mut self, names: usize) {
        /// The bytes that most names of nodes take.
        const NAME_BYTES: usize = 24;
        self.bytes.reserve(names.saturating_mul(NAME_BYTES));
    }

    /// Writes a node with the reason of its refusal. Returns the bytes of the answer so far.
    pub fn infeasible(&mut self, node: &str, refusal: &NodeRefusal) -> usize {
        self.bytes.message(4, &RefusalFields { node, refusal });
        self.bytes.len()
    }

    /// Writes a bit per candidate, and the revision of the candidates' order.
    pub fn bitmap(&mut self, bits: &[u8], ordered_at: i64) {
        if !bits.is_empty() {
            self.bytes.item(7, bits);
        }
        self.bytes.int(21, ordered_at);
    }

    /// Writes the number of nodes that were judged, by outcome.
    pub fn tallies(&mut self, tallies: &Tallies) {
        for tally in reason_tallies(&tallies.refused) {
            self.bytes.message(6, &tally);
        }
        self.size.feasible = count(tallies.feasible);
        self.size.nodes = count(tallies.judged);
        self.bytes.int(8, self.size.feasible);
        self.bytes.int(9, self.size.nodes);
    }
}

impl Written<v1::ScoreResponse> {
    /// Writes whether there was nothing to score by.
    pub fn skipped(&mut self, skipped: bool) {
        self.bytes.flag(3, skipped);
    }

    /// Writes a node and its score.
    pub fn score(&mut self, node: &str, score: &NodeScore) {
        self.bytes.message(4, &ScoreFields { node, score });
        self.note_scored(1);
    }

    /// Writes scores of 0 to 100 without the nodes.
    pub fn packed(&mut self, scores: &[u8]) {
        if !scores.is_empty() {
            // Makes room for both the scores and the bits of the nodes that they belong to.
            let bytes = scores
                .len()
                .saturating_add(scores.len().div_ceil(8))
                .saturating_add(USUAL_BYTES);
            self.bytes.reserve(bytes);
            // A number below 128 is encoded as one equal byte, so the scores are a packed field
            // already.
            self.bytes.item(6, scores);
        }
        self.note_scored(scores.len());
    }

    /// Writes scores of any size without the nodes.
    pub fn packed_wide(&mut self, scores: &[i32]) {
        if !scores.is_empty() {
            prost::encoding::int32::encode_packed(6, scores, &mut self.bytes);
        }
        self.note_scored(scores.len());
    }

    /// Writes a bit for each candidate with a score, and the revision of the candidates' order.
    pub fn bitmap(&mut self, bits: &[u8], ordered_at: i64) {
        if !bits.is_empty() {
            self.bytes.item(8, bits);
        }
        self.bytes.int(21, ordered_at);
    }

    fn note_scored(&mut self, more: usize) {
        self.size.nodes = self.size.nodes.saturating_add(count(more));
        self.size.feasible = self.size.nodes;
    }
}

impl<M: Writable> MeasuredAnswer for Written<M> {
    fn size(&self) -> Size {
        self.size
    }

    fn note(&mut self, snapshot: &Snapshot) {
        self.bytes.text(2, snapshot.epoch());
        if let Some(age) = snapshot.age() {
            let age = pbjson_types::Duration::from(age);
            self.bytes.item(15, &age.encode_to_vec());
        }
    }
}

impl<M: Writable> Loggable for Written<M> {
    fn record(&self, pending: Pending, took: Option<Duration>) -> Option<String> {
        M::decode(&*self.bytes).ok()?.record(pending, took)
    }

    fn set_id(&mut self, id: String) {
        self.bytes.text(M::DECISION_ID, &id);
    }
}

/// The encoding of an answer of any kind.
pub struct Done {
    /// The encoded bytes.
    pub bytes: Bytes,
    /// The time and size of the decision.
    pub decision: Option<Decision>,
}

impl Done {
    /// The encoding of an answer.
    pub fn of<M>(answer: Response<Encoded<M>>) -> Self {
        Self {
            decision: answer.extensions().get().copied(),
            bytes: answer.into_inner().into_bytes(),
        }
    }
}

/// A `ConstraintReport`.
struct ConstraintFields<'a> {
    report: &'a Report<'a>,
    words: ConstraintWords,
}

impl Fields for ConstraintFields<'_> {
    fn put<S: Sink>(&self, to: &mut S) {
        let report = self.report;
        let active = report.active;
        to.int(1, index(Some(active.index)).into());
        to.item(2, active.encoded(self.words));
        to.flag(3, active.from_defaults);
        to.int(4, count(report.domain_count));
        to.int(5, report.global_minimum);
        to.flag(6, active.self_match > 0);
        for domain in &report.domains {
            to.message(7, &DomainFields(domain));
        }
        to.double(8, report.weight);
        to.flag(9, report.min_domains_unmet);
    }
}

/// A `Domain`.
struct DomainFields<'a>(&'a DomainReport<'a>);

impl Fields for DomainFields<'_> {
    fn put<S: Sink>(&self, to: &mut S) {
        let report = self.0;
        to.text(1, report.tally.value);
        to.int(2, report.tally.matching_pods);
        to.int(3, report.skew);
        to.flag(4, report.feasible);
        to.int(5, report.tally.eligible_nodes);
        to.int(6, report.feasible_nodes);
    }
}

/// A `ReasonCount`.
impl Fields for ReasonTally<'_> {
    fn put<S: Sink>(&self, to: &mut S) {
        to.text(1, &self.text);
        to.int(2, self.nodes);
        to.int(3, i32::from(self.reason.code()).into());
        to.text(4, self.reason.resource().unwrap_or_default());
    }
}

/// A `NodeVerdict`.
struct RefusalFields<'a> {
    node: &'a str,
    refusal: &'a NodeRefusal,
}

impl Fields for RefusalFields<'_> {
    fn put<S: Sink>(&self, to: &mut S) {
        let refusal = self.refusal;
        to.text(1, self.node);
        to.int(2, i32::from(answer::code(refusal)).into());
        to.text(3, &refusal.text());
        to.int(4, index(refusal.constraint_index).into());
        to.int(5, refusal.matching_pods);
        to.int(6, refusal.skew);
        for reason in refusal.reasons() {
            to.message(7, &ReasonFields(reason));
        }
        to.int(8, count(refusal.nominated_pods));
    }
}

/// A `RefusalReason`.
struct ReasonFields<'a>(&'a Reason);

impl Fields for ReasonFields<'_> {
    fn put<S: Sink>(&self, to: &mut S) {
        to.int(1, i32::from(self.0.code()).into());
        to.text(2, self.0.resource().unwrap_or_default());
    }
}

/// A `NodeScore`.
struct ScoreFields<'a> {
    node: &'a str,
    score: &'a NodeScore,
}

impl Fields for ScoreFields<'_> {
    fn put<S: Sink>(&self, to: &mut S) {
        to.text(1, self.node);
        to.int(2, self.score.score);
        to.int(3, self.score.raw);
        to.flag(4, self.score.ignored);
    }
}
