//! Reservations.

use super::snapshot::time;
use super::text::table;
use crate::proto::v1::HeldPlacement;

/// A line for each reservation.
pub(crate) fn reservations(held: &[HeldPlacement]) -> String {
    if held.is_empty() {
        return "no reservations\n".to_owned();
    }
    let rows = held.iter().map(|held| {
        let pod = held.pod.as_ref().map(|pod| match pod.name.as_str() {
            "" => format!("uid {}", pod.uid),
            name => name.to_owned(),
        });
        [
            held.id.clone(),
            held.owner.clone(),
            held.namespace.clone(),
            held.node.clone(),
            time(held.expire_time.as_ref()),
            pod.unwrap_or_else(|| "-".to_owned()),
        ]
    });
    let headings = [
        "ID",
        "OWNER",
        "NAMESPACE",
        "NODE",
        "EXPIRES",
        "CONFIRMED FOR",
    ];
    table("", headings, rows)
}
