//! The forms of numbers, names and lists in sentences, and the findings of an explanation: hints and
//! remedies.

use crate::proto::{count, v1};
use crate::spread::Active;

/// The number of names that a sentence lists.
const LISTED: usize = 3;

/// A number with separators: `4,950`.
pub fn number(count: impl TryInto<i64>) -> String {
    let count = count.try_into().unwrap_or(i64::MAX);
    let digits = count.unsigned_abs().to_string();
    let mut text = String::from(if count < 0 { "-" } else { "" });
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun: `1 node`, `4,950 nodes`, `2 entries`.
pub fn plural(count: impl TryInto<i64>, what: &str) -> String {
    let count = count.try_into().unwrap_or(i64::MAX);
    let number = number(count);
    match what.strip_suffix('y') {
        _ if count == 1 => format!("{number} {what}"),
        Some(stem) => format!("{number} {stem}ies"),
        None => format!("{number} {what}s"),
    }
}

/// The form of a verb for a count: `is` or `are`.
pub fn verb(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// A number with its noun and a verb: `1 node has`, `4,950 nodes have`.
pub fn so_many(count: usize, what: &str, one: &'static str, many: &'static str) -> String {
    format!("{} {}", plural(count, what), verb(count, one, many))
}

/// The first names of a list: `a, b, c and 4 more`.
pub fn among<T: AsRef<str>>(names: &[T]) -> String {
    let quoted = |name: &T| quoted(name.as_ref());
    let named: Vec<String> = names.iter().take(LISTED).map(quoted).collect();
    match names.len().saturating_sub(LISTED) {
        0 => joined(&named),
        more => format!("{} and {} more", named.join(", "), number(more)),
    }
}

/// All parts of a list: `a`, `a and b`, `a, b and c`.
pub fn joined(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

/// The value of a topology key as it is, or `""` if it is empty.
pub fn quoted(value: &str) -> String {
    match value {
        "" => "\"\"".to_owned(),
        value => value.to_owned(),
    }
}

/// The clause at the end of a verdict that says which fields were not checked.
pub fn but_for(unchecked: &[String]) -> String {
    match unchecked {
        [] => String::new(),
        fields => format!(
            ", but {} {} not checked",
            joined(fields),
            verb(fields.len(), "was", "were")
        ),
    }
}

/// The sentence about a decision: the verdict, the causes, and the remedy.
pub fn sentence(verdict: &str, causes: &[String], remedy: Option<&String>) -> String {
    match (causes, remedy) {
        ([], _) => format!("{verdict}."),
        (causes, None) => format!("{verdict}: {}.", joined(causes)),
        (causes, Some(remedy)) => format!("{verdict}: {}; {remedy}.", joined(causes)),
    }
}

/// A hint, with a remedy if a change would admit a node.
#[derive(Debug, Clone)]
pub struct Diagnosis {
    /// The hint.
    pub hint: v1::Hint,
    /// The remedy in the imperative, e.g. `set maxSkew to 2`.
    pub remedy: Option<String>,
}

impl From<v1::Hint> for Diagnosis {
    fn from(hint: v1::Hint) -> Self {
        Self { hint, remedy: None }
    }
}

impl Diagnosis {
    /// Returns whether the remedy is to make room.
    pub fn is_of_room(&self) -> bool {
        self.hint.shortage.is_some()
    }
}

/// Returns the name of a constraint in a sentence: its index and key.
pub fn title(active: &Active) -> String {
    let kind = match active.from_defaults {
        true => "default constraint",
        false => "constraint",
    };
    format!(
        "{kind} {} ({})",
        active.index, active.constraint.topology_key
    )
}

/// A hint about a constraint.
pub fn hint(kind: v1::hint::Kind, active: &Active, message: String) -> v1::Hint {
    v1::Hint {
        constraint_index: active.wire_index(),
        ..general_hint(kind, message)
    }
}

/// A hint that is not about a constraint.
pub fn general_hint(kind: v1::hint::Kind, message: String) -> v1::Hint {
    v1::Hint {
        kind: kind.into(),
        message,
        constraint_index: -1,
        other_constraint_index: -1,
        ..Default::default()
    }
}

/// Adds the suggestion of a constraint that would admit this number of nodes.
pub fn suggest(hint: &mut v1::Hint, suggested: &Active, nodes: usize) {
    hint.admitted_node_count = count(nodes);
    hint.suggested_constraint = Some(suggested.to_wire());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_separators() {
        let cases = [
            (0, "0 nodes"),
            (1, "1 node"),
            (999, "999 nodes"),
            (4_950, "4,950 nodes"),
            (-1_234_567, "-1,234,567 nodes"),
        ];
        for (count, text) in cases {
            assert_eq!(plural(count, "node"), text);
        }
        assert_eq!(plural(2, "entry"), "2 entries");
    }
}
