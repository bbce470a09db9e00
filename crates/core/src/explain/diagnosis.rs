//! The findings of an explanation: hints and remedies.

use crate::proto::v1;
use crate::spread::Active;

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

/// The index of a constraint, for the wire.
pub fn wire_index(active: &Active) -> i32 {
    i32::try_from(active.index).unwrap_or(i32::MAX)
}

/// A hint about a constraint.
pub fn hint(kind: v1::hint::Kind, active: &Active, message: String) -> v1::Hint {
    v1::Hint {
        constraint_index: wire_index(active),
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

/// A count for the wire.
pub fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
