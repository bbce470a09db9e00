//! Soft constraints.

use crate::explain::case::Case;
use crate::explain::diagnosis::{Diagnosis, hint, title};
use crate::proto::v1;
use crate::proto::v1::hint::Kind;
use crate::spread::Active;

/// The soft constraints.
pub fn soft(case: &Case<'_>) -> Vec<Diagnosis> {
    let hints = case.constraints.soft().map(no_limit);
    hints.map(Diagnosis::from).collect()
}

/// A ScheduleAnyway constraint orders nodes and never limits.
pub fn no_limit(active: &Active) -> v1::Hint {
    let message = format!(
        "{} is ScheduleAnyway: it orders the nodes and never keeps the pod off one; its maxSkew \
         {} is no limit",
        title(active),
        active.constraint.max_skew,
    );
    hint(Kind::Soft, active, message)
}
