//! The times that objects may have.

use super::violations::{Path, Violations};
use crate::proto::v1;

/// Seconds from 1970 to the first year, and to the first one with five digits.
const YEARS: std::ops::Range<i64> = -62_135_596_800..253_402_300_800;

/// Checks that the deletion time of an object, whose metadata is at `path`, can
/// be written as JSON, because stored objects are exported and questions are
/// logged.
pub fn check_deletion(metadata: &v1::ObjectMeta, path: Path<'_>, faults: &mut Violations) {
    let deletion = metadata.deletion_timestamp.as_ref();
    let is_rfc3339 = |time: &pbjson_types::Timestamp| {
        YEARS.contains(&time.seconds) && (0..1_000_000_000).contains(&time.nanos)
    };
    if deletion.is_some_and(|time| !is_rfc3339(time)) {
        let path = path.field("deletionTimestamp");
        faults.add(path, "must be in the years 1 to 9999");
    }
}
