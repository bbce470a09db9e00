//! Snapshots.

use std::time::{Duration, UNIX_EPOCH};

use indicatif::HumanBytes;
use pbjson_types::Timestamp;

use super::text::{number, table};
use crate::proto::v1::{DefaultConstraints, Snapshot};

/// A line for each snapshot.
pub(crate) fn snapshots(snapshots: &[Snapshot]) -> String {
    if snapshots.is_empty() {
        return "no snapshots\n".to_owned();
    }
    let rows = snapshots.iter().map(|snapshot| {
        [
            snapshot.name.clone(),
            snapshot.revision.to_string(),
            yes_no(snapshot.synced).to_owned(),
            number(snapshot.node_count),
            number(snapshot.pod_count),
            bytes(snapshot.memory_bytes),
            time(snapshot.update_time.as_ref()),
        ]
    });
    let headings = [
        "NAME", "REVISION", "SYNCED", "NODES", "PODS", "MEMORY", "UPDATED",
    ];
    table("", headings, rows)
}

/// One snapshot, a line for each field.
pub(crate) fn snapshot(snapshot: &Snapshot) -> String {
    let fields = [
        ("name", snapshot.name.clone()),
        ("epoch", snapshot.epoch.clone()),
        ("revision", snapshot.revision.to_string()),
        ("synced", yes_no(snapshot.synced).to_owned()),
        ("nodes", number(snapshot.node_count)),
        ("pods", number(snapshot.pod_count)),
        ("label sets", number(snapshot.label_set_count)),
        ("memory", bytes(snapshot.memory_bytes)),
        ("created", time(snapshot.create_time.as_ref())),
        ("updated", time(snapshot.update_time.as_ref())),
        ("defaults", defaults(snapshot.default_constraints.as_ref())),
    ];
    fields
        .iter()
        .map(|(field, value)| format!("{field:<12}{value}\n"))
        .collect()
}

fn defaults(defaults: Option<&DefaultConstraints>) -> String {
    let listed = |defaults: &DefaultConstraints| {
        let constraints = defaults.constraints.iter().map(|constraint| {
            format!(
                "{} max skew {} {}",
                constraint.topology_key, constraint.max_skew, constraint.when_unsatisfiable
            )
        });
        constraints.collect::<Vec<_>>().join("; ")
    };
    match defaults {
        Some(defaults) if defaults.system => "system".to_owned(),
        Some(defaults) if !defaults.constraints.is_empty() => listed(defaults),
        _ => "none".to_owned(),
    }
}

pub(super) fn yes_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

fn bytes(count: i64) -> String {
    HumanBytes(count.max(0) as u64).to_string()
}

/// RFC 3339, to the second; `-` for none.
pub(super) fn time(time: Option<&Timestamp>) -> String {
    let seconds = time.and_then(|time| u64::try_from(time.seconds).ok());
    let since = seconds.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    since.map_or("-".to_owned(), |time| {
        humantime::format_rfc3339_seconds(time).to_string()
    })
}
