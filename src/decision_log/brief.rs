//! An answer in brief. Two briefs tell whether their answers are the same, and show the
//! differences.

use std::hash::Hasher;
use std::iter::zip;

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use crate::proto::v1;

/// The largest number of nodes that a brief names.
const NAMED_NODES: usize = 10;

/// An answer in brief.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Brief {
    /// The number of nodes that are feasible (Filter, Explain), have a score (Score), or were
    /// picked (Place).
    pub node_count: i64,
    /// The number of nodes that were judged (Filter, Explain).
    #[serde(skip_serializing_if = "is_zero")]
    pub judged_count: i64,
    /// The number of replicas that found no node (Place).
    #[serde(skip_serializing_if = "is_zero")]
    pub unplaced: i64,
    /// Nodes refused per reason, most first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<ReasonBrief>,
    /// The constraints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<ConstraintBrief>,
    /// The first nodes that the answer names, each with its score if it has
    /// one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<(String, Option<i64>)>,
    /// Hash of all nodes, scores and bitmaps in the answer, in order: equal
    /// when these are.
    pub digest: String,
}

/// A reason, the number of nodes that are refused for it, and the name of its
/// code, which logs of earlier versions do not have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasonBrief(
    pub String,
    pub i64,
    #[serde(default, skip_serializing_if = "String::is_empty")] pub String,
);

/// The counts and the verdict of one constraint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConstraintBrief {
    /// The constraint's index.
    pub index: i32,
    /// The number of domains.
    pub domain_count: i64,
    /// The global minimum.
    pub global_minimum: i64,
    /// Hash of the domains that the answer lists, with their numbers.
    pub digest: String,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl Brief {
    /// The brief of an answer to Filter.
    pub fn of_filter(answer: &v1::FilterResponse) -> Self {
        let mut digest = Digest::default();
        digest.verdicts(&answer.feasible, &answer.infeasible);
        digest.bytes(&answer.feasible_bitmap);
        Self {
            node_count: answer.feasible_count,
            judged_count: answer.node_count,
            nodes: names(&answer.feasible),
            ..Self::of(&answer.reasons, &answer.constraints, digest)
        }
    }

    /// The brief of an answer to Explain: it covers the decision, not the words that explain it.
    pub fn of_explain(answer: &v1::ExplainResponse) -> Self {
        let mut digest = Digest::default();
        digest.verdicts(&answer.feasible, &answer.infeasible);
        Self {
            node_count: answer.feasible_count,
            judged_count: answer.node_count,
            nodes: names(&answer.feasible),
            ..Self::of(&answer.reasons, &answer.constraints, digest)
        }
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
        let named = answer.scores.iter().take(NAMED_NODES);
        let count = answer.scores.len().max(answer.packed_scores.len());
        Self {
            node_count: i64::try_from(count).unwrap_or(i64::MAX),
            nodes: named.map(|n| (n.node.clone(), Some(n.score))).collect(),
            ..Self::of(&[], &answer.constraints, digest)
        }
    }

    /// The brief of an answer to Place. Reservations are left out: they differ each time.
    pub fn of_place(answer: &v1::PlaceResponse) -> Self {
        let mut digest = Digest::default();
        for placement in &answer.placements {
            digest.text(&placement.node);
            digest.number(placement.score);
        }
        answer.removed.iter().for_each(|node| digest.text(node));
        let named = answer.placements.iter().take(NAMED_NODES);
        Self {
            node_count: i64::try_from(answer.placements.len()).unwrap_or(i64::MAX),
            unplaced: answer.unplaced.into(),
            nodes: named.map(|p| (p.node.clone(), Some(p.score))).collect(),
            ..Self::of(&answer.reasons, &answer.constraints, digest)
        }
    }

    /// Returns the parts that the answers to all calls have.
    fn of(refused: &[v1::ReasonCount], reports: &[v1::ConstraintReport], digest: Digest) -> Self {
        let code = |count: &v1::ReasonCount| count.code().as_str_name().to_owned();
        let reasons = refused
            .iter()
            .map(|c| ReasonBrief(c.reason.clone(), c.count, code(c)));
        Self {
            reasons: reasons.collect(),
            constraints: reports.iter().map(ConstraintBrief::of).collect(),
            digest: digest.finish(),
            ..Self::default()
        }
    }

    /// The differences from another answer, a line for each part with both
    /// values.
    pub fn differences(&self, other: &Self) -> Vec<AnswerDifference> {
        let constraints = self.constraints.len().max(other.constraints.len());
        let parts = zip(self.parts(constraints), other.parts(constraints));
        let parts = parts.filter(|(here, there)| here != there);
        let difference = |((part, here), (_, there))| AnswerDifference { part, here, there };
        parts.map(difference).collect()
    }

    /// Returns the parts in words, each with its name, with so many constraints.
    fn parts(&self, constraints: usize) -> Vec<(String, String)> {
        // The reason's words say everything that its code says.
        let reasons = self.reasons.iter();
        let reasons = reasons.map(|ReasonBrief(reason, count, _)| format!("{count} {reason}"));
        let names = self.nodes.iter().map(|(node, score)| match score {
            Some(score) => format!("{node} {score}"),
            None => node.clone(),
        });
        let constraint = |at| {
            let one = self.constraints.get(at).map(ConstraintBrief::to_string);
            let text = one.unwrap_or_else(|| "none".to_owned());
            (format!("constraint {at}"), text)
        };
        let mut parts = vec![
            ("nodes".to_owned(), self.node_count.to_string()),
            ("judged nodes".to_owned(), self.judged_count.to_string()),
            ("unplaced".to_owned(), self.unplaced.to_string()),
            ("reasons".to_owned(), reasons.collect::<Vec<_>>().join(", ")),
        ];
        parts.extend((0..constraints).map(constraint));
        let names = names.collect::<Vec<_>>().join(", ");
        parts.push(("first nodes".to_owned(), names));
        parts.push(("digest".to_owned(), self.digest.clone()));
        parts
    }
}

/// One part in which two answers differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerDifference {
    /// The name of the part.
    pub part: String,
    /// The text in the logged answer.
    #[serde(rename = "was")]
    pub here: String,
    /// The text in the new answer.
    #[serde(rename = "is")]
    pub there: String,
}

impl ConstraintBrief {
    fn of(report: &v1::ConstraintReport) -> Self {
        let mut digest = Digest::default();
        for domain in &report.domains {
            digest.text(&domain.value);
            digest.number(domain.matching_pods);
            digest.number(domain.skew);
        }
        Self {
            index: report.constraint_index,
            domain_count: report.domain_count,
            global_minimum: report.global_minimum,
            digest: digest.finish(),
        }
    }
}

impl std::fmt::Display for ConstraintBrief {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            index,
            domain_count,
            global_minimum,
            digest,
        } = self;
        write!(
            f,
            "index {index}, {domain_count} domains, minimum {global_minimum}, counts {digest}"
        )
    }
}

fn names(nodes: &[String]) -> Vec<(String, Option<i64>)> {
    let named = nodes.iter().take(NAMED_NODES);
    named.map(|node| (node.clone(), None)).collect()
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
