//! Renders the answer of Score.

use super::constraint;
use super::text::{Head, not_checked, number};
use crate::proto::v1::{NodeScore, ScoreResponse};

/// The answer as text: nodes in the order of the answer, constraints.
pub(crate) fn score(head: &Head, answer: &ScoreResponse) -> String {
    let mut text = head.lines(answer.revision, answer.defaults());
    if answer.scores.is_empty() {
        text.push_str("no node to score: none is feasible\n");
    } else if answer.skipped {
        text.push_str("no soft spread constraint: all nodes are equally good\n");
    }
    text.push_str(&not_checked(&answer.unchecked));
    text.push_str(&nodes(head, &answer.scores));
    for report in &answer.constraints {
        text.push('\n');
        text.push_str(&constraint::soft(report));
    }
    text
}

fn nodes(head: &Head, scores: &[NodeScore]) -> String {
    let rows = scores.iter().map(|score| {
        [
            score.node.clone(),
            number(score.score),
            number(score.raw),
            match score.ignored {
                true => "ignored: lacks a topology key".to_owned(),
                false => String::new(),
            },
        ]
    });
    let headings = ["NODE", "SCORE", "RAW", "NOTE"];
    let how = "--all lists them, --top the best";
    head.nodes(headings, scores.len(), rows, how)
}
