//! Soft constraints.

use super::Finding;
use crate::explain::case::{Case, hint, title};
use crate::proto::v1::hint::Kind;
use crate::spread::Active;

/// A ScheduleAnyway constraint orders nodes and never limits.
pub fn soft(case: &Case<'_>) -> Vec<Finding> {
    let of = |active: &Active| {
        let message = format!(
            "{} is ScheduleAnyway: it orders the nodes and never keeps the pod off one; its \
             maxSkew {} is no limit",
            title(active),
            active.constraint.max_skew,
        );
        hint(Kind::Soft, active, message).into()
    };
    case.constraints.soft().map(of).collect()
}
