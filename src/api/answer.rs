//! Turns decisions into responses, and encodes answers about one pod, while the read view is open:
//! answers borrow names from it. Lists of nodes are long, so they are encoded node by node; the rest
//! is a message. An answer knows the size of its decision, and its record in the decision log.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use fixedbitset::FixedBitSet;
use prost::Message;
use prost::bytes::Bytes;
use prost::encoding::{WireType, encode_key, encode_varint};
use tonic::Response;

use crate::decision_log::{Brief, Pending};
use crate::proto::{count, v1};
use crate::snapshot::{
    Deadline, Defaults, Imagined, Nodes, ReadView, Slot, Snapshot, Stopped, bits,
};
use crate::spread::{DomainReport, NodeRefusal, NodeScore, Reason, Report};

/// Returns the named nodes that the snapshot does not hold, each once, in their order.
pub fn unknown_nodes<'n>(names: impl Iterator<Item = &'n str>, nodes: &Nodes) -> Vec<String> {
    let mut seen = HashSet::new();
    let unknown = names.filter(|name| nodes.find(name).is_none() && seen.insert(*name));
    unknown.map(str::to_owned).collect()
}

/// The candidates of a decision.
pub struct Candidates<'a> {
    /// The nodes that the snapshot holds, in the order of the answer.
    pub known: Cow<'a, [Slot]>,
    /// The names that the snapshot does not hold.
    pub unknown: Vec<String>,
    /// A bit per candidate, set if it is among the known; `None` when all are.
    held: Option<FixedBitSet>,
    /// A revision at or after the last change of the candidates' order; 0 if the caller gave the
    /// order, or an overlay changes it.
    pub ordered_at: i64,
}

impl<'a> Candidates<'a> {
    /// The candidates of a request: those named, or all nodes in node order.
    pub fn of(wire: Option<&v1::NodeNames>, read_view: &ReadView<'a>) -> Self {
        let nodes = read_view.nodes;
        let Some(wire) = wire else {
            let known = Cow::Borrowed(nodes.order());
            return Self {
                known,
                unknown: Vec::new(),
                held: None,
                ordered_at: nodes.ordered_at,
            };
        };
        let slots: Vec<_> = wire.names.iter().map(|name| nodes.find(name)).collect();
        let all_known = slots.iter().all(Option::is_some);
        let unknown = match all_known {
            true => Vec::new(),
            false => unknown_nodes(wire.names.iter().map(String::as_str), nodes),
        };
        let held = (!all_known).then(|| bits(&slots, Option::is_some));
        Self {
            known: slots.into_iter().flatten().collect(),
            unknown,
            held,
            ordered_at: 0,
        }
    }

    /// Keeps only the candidates that `pass`. All candidates have to be known.
    pub fn keep(&mut self, pass: FixedBitSet) {
        self.known = pass.ones().map(|at| self.known[at]).collect();
        self.held = Some(pass);
    }

    /// Sorts named candidates by name. Afterwards the bitmaps no longer match the candidates.
    pub fn sort_by_name(&mut self, nodes: &Nodes) {
        self.known
            .to_mut()
            .sort_unstable_by(|a, b| nodes.name(*a).cmp(nodes.name(*b)));
    }

    /// A bit per candidate, also for unknown ones. It is set for known candidates whose bit in
    /// `set` is set.
    pub fn bitmap(&self, set: &FixedBitSet) -> Bytes {
        let Some(held) = &self.held else {
            return pack(set);
        };
        let mut all = FixedBitSet::with_capacity(held.len());
        for (known, at) in held.ones().enumerate() {
            all.set(at, set.contains(known));
        }
        pack(&all)
    }

    /// A bit per candidate, set for all known ones.
    pub fn known_bitmap(&self) -> Bytes {
        match &self.held {
            Some(held) => pack(held),
            None => {
                let mut all = FixedBitSet::with_capacity(self.known.len());
                all.insert_range(..);
                pack(&all)
            }
        }
    }
}

/// Packs bits into bytes: bit i is bit i % 8 of byte i / 8.
fn pack(bits: &FixedBitSet) -> Bytes {
    let words = bits.as_slice();
    let mut bytes = Vec::with_capacity(size_of_val(words));
    for word in words {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(bits.len().div_ceil(8));
    bytes.into()
}

/// Returns the number of nodes with each reason, for the wire: most first, then by the words.
pub fn reason_counts(refused: &BTreeMap<Reason, usize>) -> Vec<v1::ReasonCount> {
    let counted = |(reason, nodes): (&Reason, &usize)| v1::ReasonCount {
        reason: reason.text().into_owned(),
        count: count(*nodes),
        code: reason.code().into(),
        resource: reason.resource().unwrap_or_default().to_owned(),
    };
    let mut counts: Vec<_> = refused.iter().map(counted).collect();
    counts.sort_unstable_by(|a, b| (b.count, &a.reason).cmp(&(a.count, &b.reason)));
    counts
}

/// A constraint's report.
pub fn constraint_report(report: &Report<'_>) -> v1::ConstraintReport {
    let domain = |domain: &DomainReport<'_>| v1::Domain {
        value: domain.tally.value.to_owned(),
        matching_pods: domain.tally.matching_pods,
        skew: domain.skew,
        feasible: domain.feasible,
        eligible_nodes: domain.tally.eligible_nodes,
        feasible_nodes: domain.feasible_nodes,
    };
    v1::ConstraintReport {
        constraint_index: report.active.wire_index(),
        constraint: Some(report.active.to_wire()),
        from_defaults: report.active.from_defaults,
        domain_count: count(report.domain_count),
        global_minimum: report.global_minimum,
        self_match: i32::from(report.active.self_match > 0),
        domains: report.domains.iter().map(domain).collect(),
        weight: report.weight,
        min_domains_unmet: report.min_domains_unmet,
    }
}

/// The kind of a snapshot's default constraints, for the wire.
pub fn defaults_kind(defaults: &Defaults) -> i32 {
    let kind = match (defaults.system, defaults.constraints.is_empty()) {
        (true, _) => v1::DefaultsKind::System,
        (false, true) => v1::DefaultsKind::Unspecified,
        (false, false) => v1::DefaultsKind::List,
    };
    kind.into()
}

/// The revision that a plan is about, and the kind of the default constraints of the snapshot.
pub fn plan_head(imagined: &Imagined<'_>) -> (i64, i32) {
    let view = imagined.read_any();
    (view.revision, defaults_kind(view.defaults))
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

impl<M: Message> ListedAnswer<M> {
    /// Writes a field with these bytes.
    fn bytes(&mut self, tag: u32, bytes: &[u8]) {
        encode_key(tag, WireType::LengthDelimited, &mut self.lists);
        match u8::try_from(bytes.len()) {
            // Most are names of nodes: a byte at a time would take as long as copying them.
            Ok(length @ ..0x80) => self.lists.push(length),
            _ => encode_varint(bytes.len() as u64, &mut self.lists),
        }
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
        /// The bytes around a name, and those by which it may be longer than the first one.
        const MORE_BYTES: usize = 6;
        let mut names = names.peekable();
        let first = names.peek().map_or(0, |name| name.len());
        self.lists
            .reserve(first.saturating_add(MORE_BYTES).saturating_mul(count));
        names.for_each(|name| self.bytes(3, name.as_bytes()));
    }

    /// Writes a node with the reason of its refusal, which looks at the deadline and at the memory.
    pub fn infeasible(
        &mut self,
        node: &str,
        refusal: &NodeRefusal,
        deadline: &Deadline<'_>,
    ) -> Result<(), Stopped> {
        let verdict = refusal.to_wire(node.to_owned());
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
        let scored = count(self.scored);
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

/// The cost of a decision, without reading the request, waiting and writing the answer. It is an
/// extension of the response, for the metrics and traces of the server.
#[derive(Debug, Clone, Copy)]
pub struct Decision {
    /// The moment when the decision began.
    pub started: Instant,
    /// The time that the decision took.
    pub took: Duration,
    /// The size of the decision.
    pub size: Size,
}

/// The size of a decision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Nodes or clusters that were judged; for Place, the replicas that were asked for.
    pub nodes: i64,
    /// Domains, summed over the constraints.
    pub domains: i64,
    /// For Filter, nodes that may run the pod; for Score, nodes scored; for Place, replicas placed.
    pub feasible: i64,
}

/// An answer that can tell the size of its decision.
pub trait MeasuredAnswer {
    /// Returns the size of the decision.
    fn size(&self) -> Size;

    /// Fills in the epoch and age of the snapshot.
    fn note(&mut self, snapshot: &Snapshot);
}

macro_rules! answers {
    ($($answer:ident: $size:expr;)*) => {$(
        impl MeasuredAnswer for v1::$answer {
            fn size(&self) -> Size {
                $size(self)
            }

            fn note(&mut self, snapshot: &Snapshot) {
                snapshot.epoch().clone_into(&mut self.epoch);
                self.age = snapshot.age().map(Into::into);
            }
        }
    )*};
}

answers! {
    FilterResponse: |answer: &Self| Size {
        nodes: answer.node_count,
        domains: domains(&answer.constraints),
        feasible: answer.feasible_count,
    };
    ScoreResponse: |answer: &Self| Size {
        domains: domains(&answer.constraints),
        ..Size::default()
    };
    ExplainResponse: |answer: &Self| Size {
        nodes: answer.node_count,
        domains: domains(&answer.constraints),
        feasible: answer.feasible_count,
    };
    PlaceResponse: |answer: &Self| {
        let placed = count(answer.placements.len());
        Size {
            nodes: placed.saturating_add(answer.unplaced.into()),
            domains: domains(&answer.constraints),
            feasible: placed,
        }
    };
    // Plans and surveys have no one number of nodes.
    RebalanceResponse: |_| Size::default();
    PlanNodesResponse: |_| Size::default();
    RankRemovalsResponse: |_| Size::default();
    DescribeSpreadResponse: |_| Size::default();
}

fn domains(reports: &[v1::ConstraintReport]) -> i64 {
    reports.iter().map(|report| report.domain_count).sum()
}

/// Decides on a snapshot, and records the size of the decision and the time that it took.
///
/// # Errors
/// Those of `decide`.
pub fn try_measured<T: MeasuredAnswer, E>(
    snapshot: &Snapshot,
    decide: impl FnOnce() -> Result<T, E>,
) -> Result<Response<T>, E> {
    let started = Instant::now();
    let mut answer = decide()?;
    answer.note(snapshot);
    let decision = Decision {
        started,
        took: started.elapsed(),
        size: answer.size(),
    };
    let mut response = Response::new(answer);
    response.extensions_mut().insert(decision);
    Ok(response)
}

/// An answer that can be logged.
pub trait Loggable {
    /// Hands over the record of the answer, with the time that deciding took. Returns the record's
    /// id in the log; `None` if this is no answer.
    fn record(&self, pending: Pending, took: Option<Duration>) -> Option<String>;
    /// Writes the record's id into the answer.
    fn set_id(&mut self, id: String);
}

macro_rules! loggable {
    ($($answer:ident by $brief:ident;)*) => {$(
        impl Loggable for v1::$answer {
            fn record(&self, pending: Pending, took: Option<Duration>) -> Option<String> {
                let brief = Brief::$brief(self);
                Some(pending.finish(self.epoch.clone(), self.revision, took, brief))
            }

            fn set_id(&mut self, id: String) {
                self.decision_id = id;
            }
        }
    )*};
}

loggable! {
    FilterResponse by of_filter;
    ScoreResponse by of_score;
    PlaceResponse by of_place;
    ExplainResponse by of_explain;
}

/// Logs a decision, if decisions are logged. A refused request is no decision.
pub fn logged<T: Loggable>(pending: Option<Pending>, mut response: Response<T>) -> Response<T> {
    if let Some(pending) = pending {
        let took = response.extensions().get().map(|d: &Decision| d.took);
        if let Some(id) = response.get_ref().record(pending, took) {
            response.get_mut().set_id(id);
        }
    }
    response
}
