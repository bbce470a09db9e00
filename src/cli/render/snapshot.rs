//! Renders snapshots of servers and of state directories: their descriptions, their reservations,
//! and the results of checks.

use std::time::{Duration, UNIX_EPOCH};

use pbjson_types::Timestamp;

use super::text::{number, table};
use crate::proto::v1::{
    DefaultConstraints, HeldPlacement, Mismatch, Snapshot, VerifySnapshotResponse,
};
use crate::store::{Described, Loss};

/// A table with a line for each snapshot.
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
            time(snapshot.update_time.as_ref()),
        ]
    });
    let headings = ["NAME", "REVISION", "SYNCED", "NODES", "PODS", "UPDATED"];
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
        ("created", time(snapshot.create_time.as_ref())),
        ("updated", time(snapshot.update_time.as_ref())),
        ("defaults", defaults(snapshot.default_constraints.as_ref())),
        ("kubernetes", kubernetes(&snapshot.kubernetes_version)),
    ];
    fields
        .iter()
        .map(|(field, value)| format!("{field:<12}{value}\n"))
        .collect()
}

fn kubernetes(version: &str) -> String {
    match version {
        "" => "newest known".to_owned(),
        version => version.to_owned(),
    }
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

/// A table with a line for each reservation.
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
            time(held.reserved_until.as_ref()),
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

/// A line that says that all counts agree, or each mismatch with both values.
pub(crate) fn verified(snapshot: &str, answer: &VerifySnapshotResponse) -> String {
    let checked = format!(
        "snapshot {snapshot:?}, revision {}: views {}, partitions {}, label sets {}, nodes {}, pods \
         {}\n",
        answer.revision,
        number(answer.view_count),
        number(answer.partition_count),
        number(answer.label_set_count),
        number(answer.node_count),
        number(answer.pod_count),
    );
    if answer.mismatch_count == 0 {
        return format!("OK: {checked}");
    }
    let mut text = format!(
        "DRIFT: {checked}mismatches: {}\n",
        number(answer.mismatch_count)
    );
    text.extend(answer.mismatches.iter().map(mismatch));
    let unlisted = answer.mismatch_count - answer.mismatches.len() as i64;
    if unlisted > 0 {
        text += &format!("  ... and {} more\n", number(unlisted));
    }
    text
}

fn mismatch(found: &Mismatch) -> String {
    let place = match found.namespace.as_str() {
        "" => String::new(),
        namespace => format!("namespace {namespace}: "),
    };
    format!(
        "  {place}{}: {}: kept {}, recounted {}\n",
        found.subject, found.aspect, found.kept, found.recounted
    )
}

/// A table with a line for each snapshot of a state directory.
pub(crate) fn states(all: &[Described]) -> String {
    if all.is_empty() {
        return "no snapshots\n".to_owned();
    }
    let rows = all.iter().map(|snapshot| {
        [
            snapshot.name.clone(),
            snapshot.epoch.clone(),
            snapshot.revision.to_string(),
            yes_no(snapshot.synced).to_owned(),
            number(snapshot.objects),
            number(snapshot.reservations),
            humantime::format_rfc3339_seconds(snapshot.updated).to_string(),
        ]
    });
    let headings = [
        "NAME",
        "EPOCH",
        "REVISION",
        "SYNCED",
        "OBJECTS",
        "RESERVATIONS",
        "UPDATED",
    ];
    table("", headings, rows)
}

/// Returns the loss of an undamaged state directory, in words.
pub(crate) fn loss(loss: Option<Loss>) -> String {
    match loss {
        None => "everything is whole\n".to_owned(),
        Some(loss) => format!("what is there is whole, but {loss}; snapshots get new epochs\n"),
    }
}

fn yes_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

/// The time in RFC 3339, to the second; `-` if there is none.
fn time(time: Option<&Timestamp>) -> String {
    let seconds = time.and_then(|time| u64::try_from(time.seconds).ok());
    let since = seconds.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    since.map_or("-".to_owned(), |time| {
        humantime::format_rfc3339_seconds(time).to_string()
    })
}
