//! What a verification found.

use super::text::number;
use crate::proto::v1::{Mismatch, VerifySnapshotResponse};

/// A line that all is well, or each mismatch with both values.
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
    text.extend(answer.mismatches.iter().map(line));
    let unlisted = answer.mismatch_count - answer.mismatches.len() as i64;
    if unlisted > 0 {
        text += &format!("  ... and {} more\n", number(unlisted));
    }
    text
}

fn line(found: &Mismatch) -> String {
    let place = match found.namespace.as_str() {
        "" => String::new(),
        namespace => format!("namespace {namespace}: "),
    };
    format!(
        "  {place}{}: {}: kept {}, recounted {}\n",
        found.subject, found.aspect, found.kept, found.recounted
    )
}
