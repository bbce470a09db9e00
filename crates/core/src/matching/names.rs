//! The rules for names, label keys and label values (Kubernetes: apimachinery's `util/validation`), and
//! the range of times that objects may have.

use std::collections::BTreeMap;

use super::violations::{Path, Violations};
use crate::limits::NodeNames;
use crate::proto::v1;

/// The label of nodes whose value is the name of each.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// The namespace of objects without a namespace.
pub const DEFAULT_NAMESPACE: &str = "default";

const SUBDOMAIN: &str = "must be 1 to 253 lower case letters, digits, \"-\" and \".\", \
     with a letter or digit at both ends of each part";
const NODE_NAME: &str = "must be 1 to 253 lower case letters, digits, \"-\" and \".\", \
     with a letter or digit at both ends of each part; --node-names any accepts other names";
const ANY_NAME: &str = "must be 1 to 253 bytes without control characters and \"/\"";
const DNS_LABEL: &str = "must be 1 to 63 lower case letters, digits and \"-\", \
     with a letter or digit at both ends";
const LABEL_KEY: &str = "must be a label key: 1 to 63 letters, digits, \"-\", \"_\" and \".\", \
     with a letter or digit at both ends, optionally after a DNS subdomain and \"/\"";
const LABEL_VALUE: &str = "must be a label value: at most 63 letters, digits, \"-\", \"_\" and \
     \".\", with a letter or digit at both ends";

/// The namespace that `name` means. An empty name means the default namespace.
pub fn namespace_or_default(name: &str) -> &str {
    if name.is_empty() {
        DEFAULT_NAMESPACE
    } else {
        name
    }
}

/// Checks a required object name.
pub fn check_name(name: &str, path: Path<'_>, faults: &mut Violations) {
    check_required(name, is_name(name), SUBDOMAIN, path, faults);
}

/// Checks the required name of a node; `which` says which names nodes may have.
pub fn check_node_name(name: &str, which: NodeNames, path: Path<'_>, faults: &mut Violations) {
    let rule = match which {
        NodeNames::Dns => NODE_NAME,
        NodeNames::Any => ANY_NAME,
    };
    check_required(name, is_node_name(name, which), rule, path, faults);
}

/// Checks a namespace; it may be empty.
pub fn check_namespace(name: &str, path: Path<'_>, faults: &mut Violations) {
    if !is_namespace(name) {
        faults.add(path, DNS_LABEL);
    }
}

/// Checks a required label key.
pub fn check_label_key(key: &str, path: Path<'_>, faults: &mut Violations) {
    check_required(key, is_label_key(key), LABEL_KEY, path, faults);
}

fn check_required(name: &str, is_valid: bool, rule: &str, path: Path<'_>, faults: &mut Violations) {
    if name.is_empty() {
        faults.add(path, "is required");
    } else if !is_valid {
        faults.add(path, rule);
    }
}

/// Checks a label value; it may be empty.
pub fn check_label_value(value: &str, path: Path<'_>, faults: &mut Violations) {
    if !is_label_value(value) {
        faults.add(path, LABEL_VALUE);
    }
}

/// Checks a map of labels. As in Kubernetes, the path of a fault in a key or a value is that of the
/// map.
pub fn check_labels(labels: &BTreeMap<String, String>, path: Path<'_>, faults: &mut Violations) {
    for (key, value) in labels {
        if !is_label_key(key) {
            faults.add(path, format!("key {key:?} {LABEL_KEY}"));
        }
        if !is_label_value(value) {
            faults.add(path, format!("value {value:?} of {key:?} {LABEL_VALUE}"));
        }
    }
}

/// Returns whether `value` may be the value of a label.
pub fn is_label_value(value: impl AsRef<[u8]>) -> bool {
    let value = value.as_ref();
    value.is_empty() || is_label_name(value)
}

/// Returns whether `key` may be the key of a label: a qualified name.
pub fn is_label_key(key: impl AsRef<[u8]>) -> bool {
    let key = key.as_ref();
    match key.iter().position(|byte| *byte == b'/') {
        Some(slash) => is_name(&key[..slash]) && is_label_name(&key[slash + 1..]),
        None => is_label_name(key),
    }
}

/// Returns whether `name` may be the name of an object.
pub fn is_name(name: impl AsRef<[u8]>) -> bool {
    let name = name.as_ref();
    let parts_well = |pair: &[u8]| !matches!(pair, [b'.', b'.' | b'-'] | [b'-', b'.']);
    name.len() <= 253
        && is_made_of(name, true, b"-.")
        && (!name.contains(&b'.') || name.windows(2).all(parts_well))
}

/// Returns whether `name` may be the name of a node.
pub fn is_node_name(name: impl AsRef<[u8]>, which: NodeNames) -> bool {
    let name = name.as_ref();
    match which {
        NodeNames::Dns => is_name(name),
        // The name stays on one line, and `node/NAME` has only one slash.
        NodeNames::Any => std::str::from_utf8(name).is_ok_and(|name| {
            let is_told_apart = !name.contains(|c: char| c == '/' || c.is_control());
            (1..=253).contains(&name.len()) && is_told_apart
        }),
    }
}

/// Returns whether `name` may be a namespace; it may be empty.
pub fn is_namespace(name: impl AsRef<[u8]>) -> bool {
    let name = name.as_ref();
    name.is_empty() || name.len() <= 63 && is_made_of(name, true, b"-")
}

fn is_label_name(name: &[u8]) -> bool {
    name.len() <= 63 && is_made_of(name, false, b"-._")
}

/// Returns whether all bytes are letters or digits, or but for the first and the last one of `inner`;
/// with `is_lower` no letter is an upper case one.
fn is_made_of(name: &[u8], is_lower: bool, inner: &[u8]) -> bool {
    let is_end = |c: &u8| c.is_ascii_alphanumeric() && !(is_lower && c.is_ascii_uppercase());
    name.first().is_some_and(is_end)
        && name.last().is_some_and(is_end)
        && name.iter().all(|c| is_end(c) || inner.contains(c))
}

/// The years 1 to 9999, in seconds since 1970.
const YEARS: std::ops::Range<i64> = -62_135_596_800..253_402_300_800;

/// Checks that the deletion time of an object, whose metadata is at `path`, can
/// be written as JSON, because stored objects are exported and questions are
/// logged.
pub fn check_deletion(metadata: &v1::ObjectMeta, path: Path<'_>, faults: &mut Violations) {
    let path = path.field("deletionTimestamp");
    check_time(metadata.deletion_timestamp.as_ref(), path, faults);
}

/// Checks that a time, if there is one, can be written as JSON.
pub fn check_time(time: Option<&pbjson_types::Timestamp>, path: Path<'_>, faults: &mut Violations) {
    let can_be_written = |time: &pbjson_types::Timestamp| {
        YEARS.contains(&time.seconds) && (0..1_000_000_000).contains(&time.nanos)
    };
    if time.is_some_and(|time| !can_be_written(time)) {
        faults.add(path, "must be in the years 1 to 9999");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys() {
        let long = "a".repeat(63);
        let (prefix, too_long) = ("b".repeat(253), "a".repeat(64));
        for (key, valid) in [
            ("app", true),
            ("App_1.x-Y", true),
            ("topology.kubernetes.io/zone", true),
            (&*long, true),
            (&*format!("{prefix}/a"), true),
            (&*too_long, false),
            (&*format!("{prefix}b/a"), false),
            ("", false),
            ("-a", false),
            ("a.", false),
            ("a b", false),
            ("/a", false),
            ("a/", false),
            ("Upper/a", false),
            ("a/b/c", false),
            ("ä", false),
        ] {
            assert_eq!(is_label_key(key), valid, "{key:?}");
        }
    }

    #[test]
    fn object_names() {
        for (name, valid) in [
            ("n1", true),
            ("ip-10-0-0-1.ec2.internal", true),
            ("a..b", false),
            ("a.-b", false),
            ("a-.b", false),
            ("a--b.c", true),
            (".a", false),
            ("a.", false),
            ("", false),
            ("a_b", false),
            ("ä", false),
            ("a-", false),
            ("A", false),
            (&*"a".repeat(254), false),
        ] {
            assert_eq!(is_name(name), valid, "{name:?}");
        }
    }
}
