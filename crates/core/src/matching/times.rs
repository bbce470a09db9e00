//! The range of times that objects may have.

use super::violations::{Path, Violations};
use crate::proto::v1;

/// The years 1 to 9999, in seconds since 1970.
const YEARS: std::ops::Range<i64> = -62_135_596_800..253_402_300_800;

/// Returns whether a time, in seconds and nanoseconds, can be written as JSON.
pub fn can_be_written((seconds, nanos): (i64, i32)) -> bool {
    YEARS.contains(&seconds) && (0..1_000_000_000).contains(&nanos)
}

/// Checks that the deletion time of an object, whose metadata is at `path`, can
/// be written as JSON, because stored objects are exported and questions are
/// logged.
pub fn check_deletion(metadata: &v1::ObjectMeta, path: Path<'_>, faults: &mut Violations) {
    let path = path.field("deletionTimestamp");
    check(metadata.deletion_timestamp.as_ref(), path, faults);
}

/// Checks that a time, if there is one, can be written as JSON.
pub fn check(time: Option<&pbjson_types::Timestamp>, path: Path<'_>, faults: &mut Violations) {
    if time.is_some_and(|time| !can_be_written((time.seconds, time.nanos))) {
        faults.add(path, "must be in the years 1 to 9999");
    }
}
