//! Renders the logs that several servers share.

use std::time::SystemTime;

use super::text::{number, table};
use crate::log::Bounds;
use crate::visible;

/// A log: its snapshot, its bounds, and the sequence and the time of its newest checkpoint.
pub(crate) type LogRow = (String, Bounds, Option<(u64, SystemTime)>);

/// A table with a line for each log.
pub(crate) fn logs(all: &[LogRow]) -> String {
    if all.is_empty() {
        return "no logs\n".to_owned();
    }
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
            visible::text(name).into_owned(),
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
    table("", headings, rows)
}
