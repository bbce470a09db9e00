//! Renders snapshots of servers, their reservations, and logs, and the results of checks and replays.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pbjson_types::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::page::{Look, Page, PagePart, Parts, Table};
use super::text::{number, plural};
use crate::cli::input::LoadOutcome;
use crate::decision_log::AnswerDifference;
use crate::log::Bounds;
use crate::proto::v1::{
    DefaultConstraints, HeldPlacement, Mismatch, Snapshot, VerifySnapshotResponse,
};

/// A log: its snapshot, its bounds, and the sequence and the time of its newest checkpoint.
pub(crate) type LogRow = (String, Bounds, Option<(u64, SystemTime)>);

/// A page with a table of things alone.
fn list<const N: usize>(
    command: &'static str,
    things: &'static str,
    headings: [&'static str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> Page {
    let table = Table::new("row", headings, rows);
    let mut parts = Parts::default();
    if table.rows.is_empty() {
        parts.line(format!("no {things}"));
    }
    parts.table(table);
    Page::new(command, things).with(parts)
}

/// A line for each snapshot.
pub(crate) fn snapshots(snapshots: &[Snapshot]) -> Page {
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
    list("snapshot list", "snapshots", headings, rows)
}

/// One snapshot, a line for each field.
pub(crate) fn snapshot(snapshot: &Snapshot) -> Page {
    let mut parts = Parts::default();
    parts.facts([
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
    ]);
    Page::new("snapshot get", &*snapshot.name).with(parts)
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

/// A line for each reservation.
pub(crate) fn reservations(held: &[HeldPlacement]) -> Page {
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
    list("reservation list", "reservations", headings, rows)
}

/// A line that says that all counts agree, or each mismatch with both values.
pub(crate) fn verified(snapshot: &str, answer: &VerifySnapshotResponse) -> Page {
    let checked = format!(
        "snapshot {snapshot:?}, revision {}: views {}, partitions {}, label sets {}, nodes {}, pods \
         {}",
        answer.revision,
        number(answer.view_count),
        number(answer.partition_count),
        number(answer.label_set_count),
        number(answer.node_count),
        number(answer.pod_count),
    );
    let is_well = answer.mismatch_count == 0;
    let mut parts = Parts::default();
    if !is_well {
        parts.line(format!("mismatches: {}", number(answer.mismatch_count)));
        let unlisted = answer.mismatch_count - answer.mismatches.len() as i64;
        let more = (unlisted > 0).then(|| format!("... and {} more", number(unlisted)));
        parts.indented(answer.mismatches.iter().map(mismatch).chain(more));
    }
    let verdict = if is_well { "OK" } else { "DRIFT" };
    Page::new("verify", "Counts and a recount")
        .verdict(Look::of(is_well), format!("{verdict}: {checked}"))
        .with(parts)
}

fn mismatch(found: &Mismatch) -> String {
    let place = match found.namespace.as_str() {
        "" => String::new(),
        namespace => format!("namespace {namespace}: "),
    };
    format!(
        "{place}{}: {}: kept {}, recounted {}",
        found.subject, found.aspect, found.kept, found.recounted
    )
}

/// A line for each log that several servers share.
pub(crate) fn logs(all: &[LogRow]) -> Page {
    let rows = all.iter().map(|(name, bounds, checkpoint)| {
        let (covers, written) = match checkpoint {
            Some((sequence, at)) => (
                sequence.to_string(),
                humantime::format_rfc3339_seconds(*at).to_string(),
            ),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let limit = match bounds.max_bytes {
            0 => "-".to_owned(),
            most => number(most),
        };
        [
            name.clone(),
            bounds.first.to_string(),
            bounds.last.to_string(),
            number(bounds.bytes),
            limit,
            format!("{}/{}", bounds.current(), bounds.copies),
            covers,
            written,
        ]
    });
    let headings = [
        "NAME",
        "FIRST",
        "LAST",
        "BYTES",
        "MAX BYTES",
        "COPIES",
        "CHECKPOINT",
        "WRITTEN",
    ];
    list("admin log", "logs", headings, rows)
}

/// What became of objects that were loaded: of those of `loaded` kinds, and of `skipped` ones.
pub(crate) fn loaded(sent: &LoadOutcome, snapshot: &str, loaded: &str, skipped: &str) -> Page {
    let answer = &sent.answer;
    let loaded = if loaded.is_empty() { "nothing" } else { loaded };
    let changed = number(answer.changed_count);
    let changed = format!("{changed}, unchanged {}", number(answer.unchanged_count));
    let mut facts = vec![("loaded", loaded.to_owned()), ("changed", changed)];
    if !sent.left_out.is_empty() {
        let count = number(sent.left_out.len());
        facts.push(("left out", format!("{count}: they cannot be judged")));
    }
    if answer.skipped_count > 0 {
        let count = number(answer.skipped_count);
        let unknown = format!("{count}: this server does not know their kinds");
        facts.push(("unknown", unknown));
    }
    if !skipped.is_empty() {
        facts.push(("skipped", skipped.to_owned()));
    }
    let mut below = Parts::default();
    below.facts(facts);
    let mut parts = Parts::default();
    parts.push(PagePart::Section(Vec::new(), below));
    let mut page = Page::new("load", "What was loaded");
    page.subject = Some(format!(
        "snapshot {snapshot:?}, revision {}",
        answer.revision
    ));
    page.with(parts)
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

/// The result of a replay.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Replayed {
    /// Name of the snapshot.
    pub(crate) snapshot: String,
    /// The epoch of the state, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) epoch: Option<String>,
    /// The revision of the state, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<i64>,
    /// The number of decisions with the same result.
    pub(crate) same: usize,
    /// The number of lines about other snapshots.
    pub(crate) of_other_snapshots: usize,
    /// The number of lines that could not be read, such as one that was cut off.
    pub(crate) unreadable: usize,
    /// The decisions with a different result, in the order of the log.
    pub(crate) different: Vec<Different>,
}

/// A decision with a different result.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Different {
    /// The decision's id in the log.
    pub(crate) id: String,
    /// The time of the decision.
    pub(crate) time: String,
    pub(crate) rpc: String,
    /// Namespace and name of the pod; the name may be empty.
    pub(crate) pod: String,
    /// The epoch that the decision read.
    pub(crate) epoch: String,
    /// The revision that the decision read.
    pub(crate) revision: i64,
    /// True if the state has that revision; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) same_revision: Option<bool>,
    /// The differences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) differences: Vec<AnswerDifference>,
    /// The reason why the request is refused now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<String>,
}

/// The result: a summary, and each different decision with both values.
pub(crate) fn replayed(replayed: &Replayed) -> Page {
    let state = match replayed.revision {
        Some(revision) => format!("revision {revision}"),
        None => "of which the revision is not known".to_owned(),
    };
    let different = replayed.different.len();
    let all = plural(replayed.same + different, "decision");
    let verdict = match different {
        0 => format!("same: all of {all}"),
        _ => format!("different: {} of {all}", number(different)),
    };
    let left_out = [
        (replayed.of_other_snapshots, "left out, of other snapshots"),
        (replayed.unreadable, "lines that are no decision"),
    ];
    let left_out = left_out.into_iter().filter(|(count, _)| *count > 0);
    let mut parts = Parts::default();
    parts.indented(left_out.map(|(count, what)| format!("{} {what}", number(count))));
    parts.0.extend(replayed.different.iter().map(decision));
    let mut page = Page::new("admin replay", "Decisions again");
    page.subject = Some(format!("snapshot {:?}, {state}", replayed.snapshot));
    page.verdict(Look::of(different == 0), verdict).with(parts)
}

fn decision(different: &Different) -> PagePart {
    let revision = match different.same_revision {
        Some(true) => "the same revision".to_owned(),
        Some(false) => format!("another revision, {}", different.revision),
        None => format!("revision {}", different.revision),
    };
    let title = format!("{} {} of {}", different.id, different.rpc, different.pod);
    let when = format!(", {}, on {revision}", different.time);
    let mut parts = Parts::default();
    for found in &different.differences {
        let (was, is) = (value_text(&found.was), value_text(&found.is));
        parts.line(format!("{}: was {was}, is {is}", found.field));
    }
    let refused = different.refused.iter();
    parts.lines(refused.map(|why| format!("refused now: {why}")));
    PagePart::Section(vec![(Look::Strong, title), (Look::Plain, when)], parts)
}

/// A value in words: a text as it is.
fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}
