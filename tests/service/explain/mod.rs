//! Explanations: each hint appears where it belongs and nowhere else, and the change that a hint
//! suggests does help.

mod affinity;
mod answers;
mod fleet;
mod full_nodes;
mod hints;
mod minimums;
mod promises;
mod questions;
mod shortages;
mod stuck;
mod volumes;

use evenkeel::proto::v1::hint::Kind;
use evenkeel::proto::v1::{Change, ExplainResponse, Hint, Pod};

/// A state, a question about it, and a hint that is expected or not.
#[derive(Clone)]
struct Case {
    name: &'static str,
    changes: Vec<Change>,
    pod: Pod,
    kind: Kind,
    /// Parts of the message; `None` when there must be no such hint.
    says: Option<&'static [&'static str]>,
}

fn of_kind(answer: &ExplainResponse, kind: Kind) -> Option<&Hint> {
    answer.hints.iter().find(|hint| hint.kind() == kind)
}

/// Checks that an answer has the hint that a case expects, or lacks it.
fn check(case: &Case, answer: &ExplainResponse) {
    let found = of_kind(answer, case.kind);
    match (case.says, found) {
        (None, None) => {}
        (None, Some(hint)) => panic!("{}: unexpected: {}", case.name, hint.message),
        (Some(_), None) => panic!("{}: no hint: {answer:?}", case.name),
        (Some(parts), Some(hint)) => {
            for part in parts {
                let message = &hint.message;
                assert!(
                    message.contains(part),
                    "{}: {part:?} in {message:?}",
                    case.name
                );
            }
        }
    }
}
