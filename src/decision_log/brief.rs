//! An answer in brief. Two briefs tell whether their answers are the same, and show the
//! differences.

use std::collections::BTreeSet;
use std::hash::Hasher;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use twox_hash::XxHash3_64;

use crate::proto::v1;

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
