//! Checks that requests share: names, enums, numbers, candidates, tokens of pages.

use std::time::Duration;

use hashbrown::HashSet;
use prost::Message;
use twox_hash::XxHash3_64;

use super::error::Error;
use super::request_context::RequestContext;
use crate::limits::Limit;
use crate::matching::{Path, Selector, Violations};
use crate::proto::v1;
use crate::snapshot::{Batch, Limits};
use crate::spread::NodeChecks;
use crate::spread::describe::NamedWorkload;

/// Name of the snapshot that requests without a name mean.
const DEFAULT_SNAPSHOT: &str = "default";

/// The longest name of a snapshot.
pub const MAX_NAME_BYTES: usize = 253;

/// The number of domains that a report lists when the request has no number.
const DEFAULT_MAX_DOMAINS: usize = 100;

/// The most entries of a page.
const MAX_PAGE_SIZE: usize = 1_000;

/// Prefixes of names that health checks use for services.
const RESERVED_PREFIXES: [&str; 2] = ["evenkeel.", "grpc."];

/// The name of the snapshot that a request is about.
pub fn snapshot_name(name: &str, path: Path<'_>, faults: &mut Violations) -> String {
    check_snapshot_name(name, path, faults);
    named_or_default(name).to_owned()
}

/// The name of the snapshot that a request is about, valid or not.
pub fn named_or_default(name: &str) -> &str {
    if name.is_empty() {
        DEFAULT_SNAPSHOT
    } else {
        name
    }
}

/// Checks the name of a snapshot; it may be empty.
pub fn check_snapshot_name(name: &str, path: Path<'_>, faults: &mut Violations) {
    let valid = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.' | b'/');
    if name.len() > MAX_NAME_BYTES || !name.bytes().all(valid) {
        let rule = "must be at most 253 letters, digits, \"-\", \"_\", \".\" and \"/\"";
        faults.add(path, rule);
    } else if RESERVED_PREFIXES
        .iter()
        .any(|prefix| name.starts_with(prefix))
    {
        faults.add(
            path,
            "must not start like a gRPC service, with \"evenkeel.\" or \"grpc.\"",
        );
    }
}

/// Checks the identity of a cluster; it may be empty.
pub fn check_cluster(identity: &str, path: Path<'_>, faults: &mut Violations) {
    if identity.len() > MAX_NAME_BYTES || identity.contains(char::is_control) {
        faults.add(path, "must be at most 253 bytes without control characters");
    }
}

/// A snapshot's name as [`snapshot_name`] checks it, for requests in which nothing else can be
/// wrong.
///
/// # Errors
/// The rule that the name breaks.
pub fn parse_snapshot_name(name: &str) -> Result<String, Violations> {
    let mut faults = Violations::default();
    let name = snapshot_name(name, Path::root("snapshot"), &mut faults);
    faults.finish(name)
}

/// The value of an enum field; an unknown one is a fault.
pub fn known<E: TryFrom<i32> + Default>(value: i32, path: Path<'_>, faults: &mut Violations) -> E {
    E::try_from(value).unwrap_or_else(|_| {
        faults.add(path, format!("{value} is not a known value"));
        E::default()
    })
}

/// Returns the checks that nodes have to pass.
pub fn node_checks(value: i32, faults: &mut Violations) -> NodeChecks {
    match known(value, Path::root("nodeChecks"), faults) {
        v1::NodeChecks::Unspecified => NodeChecks::All,
        v1::NodeChecks::SpreadOnly => NodeChecks::SpreadOnly,
    }
}

/// The changes of an overlay.
///
/// # Errors
/// [`Error::Deadline`].
pub fn overlay(
    changes: Vec<v1::Change>,
    limits: &Limits,
    by: &RequestContext,
    faults: &mut Violations,
) -> Result<Batch, Error> {
    let path = Path::root("overlay");
    if !faults.within(path, limits, Limit::OverlayChanges, changes.len()) {
        return Ok(Batch::default());
    }
    let checked = faults.collect(Batch::check(by.awaited(changes), limits, path));
    by.look()?;
    Ok(checked.unwrap_or_default())
}

/// Checks a number that must not be negative.
pub fn check_not_negative(value: i64, path: Path<'_>, faults: &mut Violations) {
    if value < 0 {
        faults.add(path, "must not be negative");
    }
}

/// Checks the name of the workload that a request is about, and compiles its selector.
pub fn workload(wire: v1::WorkloadName, faults: &mut Violations) -> NamedWorkload {
    let path = Path::root("workload");
    for (name, text) in [("kind", &wire.kind), ("name", &wire.name)] {
        if text.is_empty() {
            faults.add(path.field(name), "is required");
        }
    }
    let selector = wire.selector.as_ref();
    let path = path.field("selector");
    NamedWorkload {
        selector: selector.map(|selector| Selector::compile(Some(selector), path, faults)),
        kind: wire.kind,
        name: wire.name,
    }
}

/// Returns the number of entries of a page.
pub fn page_size(value: i32, faults: &mut Violations) -> usize {
    check_not_negative(value.into(), Path::root("pageSize"), faults);
    match usize::try_from(value) {
        Ok(0) | Err(_) => MAX_PAGE_SIZE,
        Ok(size) => size.min(MAX_PAGE_SIZE),
    }
}

/// Returns the time of a hold, if the request has one.
pub fn ttl(
    wire: Option<pbjson_types::Duration>,
    path: Path<'_>,
    limits: &Limits,
    faults: &mut Violations,
) -> Option<Duration> {
    let ttl = match Duration::try_from(wire?) {
        Ok(ttl) if !ttl.is_zero() => ttl,
        _ => {
            faults.add(path, "must be positive");
            return None;
        }
    };
    if ttl > limits.max_reservation_ttl {
        let most = limits.max_reservation_ttl.as_secs_f64();
        let rule = format!("must not be over {most} s");
        faults.add(path, rule);
    }
    Some(ttl)
}

/// Returns the age of a feed's knowledge; zero if it gives none.
pub fn age(
    wire: Option<pbjson_types::Duration>,
    path: Path<'_>,
    faults: &mut Violations,
) -> Duration {
    wire.map_or(Duration::ZERO, |wire| {
        Duration::try_from(wire).unwrap_or_else(|_| {
            faults.add(path, "must not be negative");
            Duration::ZERO
        })
    })
}

/// Checks the length of a string that has no rule of its own.
pub fn check_length(text: &str, path: Path<'_>, limits: &Limits, faults: &mut Violations) {
    faults.within(path, limits, Limit::StringBytes, text.len());
}

/// Returns the number of domains to list in a report.
pub fn max_domains(value: Option<i32>, faults: &mut Violations) -> usize {
    match value {
        None => DEFAULT_MAX_DOMAINS,
        Some(0) => usize::MAX,
        Some(n) => usize::try_from(n).unwrap_or_else(|_| {
            faults.add(Path::root("maxDomains"), "must not be negative");
            0
        }),
    }
}

/// Checks a list of candidates.
pub fn check_candidates(
    candidates: Option<&v1::NodeNames>,
    limits: &Limits,
    faults: &mut Violations,
) {
    let Some(candidates) = candidates else { return };
    let path = Path::root("candidates");
    check_nodes(&candidates.names, path.field("names"), limits, faults);
}

/// Checks a list of names of nodes, each of which may be in it once.
pub fn check_nodes(nodes: &[String], path: Path<'_>, limits: &Limits, faults: &mut Violations) {
    if !faults.within(path, limits, Limit::Nodes, nodes.len()) {
        return;
    }
    let mut seen = HashSet::with_capacity(nodes.len());
    for (path, name) in path.each(nodes) {
        if name.is_empty() {
            faults.add(path, "is required");
        } else if !seen.insert(name.as_str()) {
            faults.add(path, "is in the list more than once");
        }
        check_length(name, path, limits, faults);
    }
}

/// The tokens of one list. All servers give the same.
#[derive(Debug)]
pub struct PageTokens {
    list: u64,
}

impl PageTokens {
    /// The tokens of the list that a method gives for a request. The request has to be without the
    /// fields that its pages may differ in.
    pub fn new(method: &str, request: &impl Message) -> Self {
        let method = XxHash3_64::oneshot(method.as_bytes());
        Self {
            list: XxHash3_64::oneshot_with_seed(method, &request.encode_to_vec()),
        }
    }

    /// Returns the token of the page after this last entry.
    pub fn token(&self, last: &str) -> String {
        let check = XxHash3_64::oneshot_with_seed(self.list, last.as_bytes());
        format!("{check:016x}-{last}")
    }

    /// Returns the last entry of the previous page; `None` for the first page, and when the token
    /// is a fault.
    pub fn last<'t>(&self, token: &'t str, faults: &mut Violations) -> Option<&'t str> {
        let (_, last) = token.split_once('-').unwrap_or_default();
        if !token.is_empty() && token != self.token(last) {
            faults.add(Path::root("pageToken"), "is not one of this list");
            return None;
        }
        (!token.is_empty()).then_some(last)
    }
}
