//! Opens a call: reads its deadline, decodes the request, and asks the access rules whether the caller
//! may make it. `server/transport/calls.rs` identified the caller before. The role that a call needs
//! is in the first line of its method in `service.rs`.

use std::time::Duration;

use http::HeaderMap;
use prost::Message;
use prost::bytes::Bytes;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Request;
use tracing::debug;

use super::error::Error;
use super::executor::CallerKey;
use super::request;
use crate::access::{Caller, Role, Visitor};
use crate::proto::encoded::decode_until;
use crate::proto::v1;

/// A call whose caller may make it.
pub struct OpenedCall<M> {
    /// The decoded request.
    pub request: M,
    /// The asker: the caller and the deadline.
    pub by: RequestContext,
}

/// The caller of a request, and its deadline.
#[derive(Clone, Default)]
pub struct RequestContext {
    /// The deadline of the call, if it has one.
    pub deadline: Option<Instant>,
    /// The caller; `None` where callers are not told apart.
    pub caller: Option<Caller>,
    /// The caller whose share of slots and threads this call uses.
    pub who: CallerKey,
    /// Cancelled once the caller is gone; `None` where that ends the call by itself.
    pub(super) gone: Option<CancellationToken>,
}

/// Cancelled once the caller of a call is gone. The port puts it into the extensions of a request
/// that is so large that decoding and checking it take long.
#[derive(Debug, Clone)]
pub struct CallerGone(pub CancellationToken);

impl RequestContext {
    /// Returns whether nobody waits for the answer any more.
    fn is_given_up(&self) -> bool {
        let is_late = |at: Instant| Instant::now() > at;
        let is_gone = self
            .gone
            .as_ref()
            .is_some_and(CancellationToken::is_cancelled);
        is_gone || self.deadline.is_some_and(is_late)
    }

    /// Watches for the end of the call, for work on another thread: the returned function tells
    /// whether nobody waits for the answer any more, as when the guard is dropped.
    pub(super) fn watched(&self) -> (DropGuard, impl Fn() -> bool + Send + use<>) {
        let left = CancellationToken::new();
        let guard = left.clone().drop_guard();
        let by = self.clone();
        (guard, move || left.is_cancelled() || by.is_given_up())
    }

    /// Checks that somebody waits for the answer, before the next part of work that is not awaited.
    ///
    /// # Errors
    /// [`Error::Deadline`].
    pub(super) fn look(&self) -> Result<(), Error> {
        match self.is_given_up() {
            true => Err(Error::Deadline),
            false => Ok(()),
        }
    }

    /// The objects of a request as long as somebody waits for the answer; [`Self::look`] tells
    /// afterwards whether these are all.
    pub(super) fn awaited<T>(
        &self,
        objects: impl IntoIterator<Item = T>,
    ) -> impl Iterator<Item = T> {
        let objects = objects.into_iter();
        objects.take_while(|_| !self.is_given_up())
    }

    /// Decodes a request as long as somebody waits for the answer.
    ///
    /// # Errors
    /// [`Error::Undecodable`] and [`Error::Deadline`].
    pub(super) fn decode<M: Message + Default>(&self, request: Bytes) -> Result<M, Error> {
        let decoded = decode_until(request, &|| self.is_given_up())?;
        decoded.ok_or(Error::Deadline)
    }
}

/// A request about one snapshot.
pub trait AboutSnapshot: Message + Default {
    /// Returns the name of the snapshot; empty for the default one.
    fn snapshot(&self) -> &str;
}

/// A request that may ask for a revision.
pub trait AboutRevision: AboutSnapshot {
    /// Returns the revision that the snapshot must have reached, and its epoch; any if empty.
    fn revision(&self) -> (i64, &str);
}

macro_rules! about_snapshot {
    ($($request:ident)*) => {$(
        impl AboutSnapshot for v1::$request {
            fn snapshot(&self) -> &str {
                &self.snapshot
            }
        }
    )*};
}

macro_rules! about_revision {
    ($($request:ident)*) => {$(
        about_snapshot!($request);

        impl AboutRevision for v1::$request {
            fn revision(&self) -> (i64, &str) {
                (self.min_revision, &self.epoch)
            }
        }
    )*};
}

about_snapshot! {
    ConfirmReservationsRequest DeleteSnapshotRequest ExportSnapshotRequest GetSnapshotRequest
    ListReservationsRequest ReleaseReservationsRequest RenewReservationsRequest ReservePodsRequest
    UpdateSnapshotRequest VerifySnapshotRequest
}

about_revision! {
    DescribeSpreadRequest ExplainRequest FilterRequest ListNodesRequest PlaceRequest PlanNodesRequest
    RankRemovalsRequest RebalanceRequest ScoreRequest
}

/// Opens a call whose permission is checked later: once its request is read, or for each snapshot
/// that it lists.
pub fn open_later<M>(request: Request<M>) -> OpenedCall<M> {
    let (metadata, mut extensions, request) = request.into_parts();
    OpenedCall {
        request,
        by: RequestContext {
            deadline: given_deadline(metadata.as_ref()),
            caller: extensions.remove().and_then(|Visitor(caller)| caller),
            who: extensions.remove().unwrap_or_default(),
            gone: extensions.remove().map(|CallerGone(gone)| gone),
        },
    }
}

/// As [`open_later`], and decodes the request.
///
/// # Errors
/// [`Error::Undecodable`].
pub fn decode<M: Message + Default>(request: Request<Bytes>) -> Result<OpenedCall<M>, Error> {
    let OpenedCall { request, by } = open_later(request);
    let request = by.decode(request)?;
    by.look()?;
    Ok(OpenedCall { request, by })
}

/// Opens a call that needs a role on the snapshot that its request is about.
///
/// # Errors
/// [`Error::Undecodable`] and [`Error::Denied`].
pub fn open<M: AboutSnapshot>(request: Request<Bytes>, role: Role) -> Result<OpenedCall<M>, Error> {
    let call = decode::<M>(request)?;
    check_role(call.by.caller.as_ref(), role, call.request.snapshot())?;
    Ok(call)
}

/// Opens a stream, whose snapshots are named only later: the caller needs the
/// role on at least one snapshot.
///
/// # Errors
/// [`Error::DeniedAnywhere`].
pub fn open_stream<M>(request: Request<M>, role: Role) -> Result<OpenedCall<M>, Error> {
    let call = open_later(request);
    check_role_somewhere(call.by.caller.as_ref(), role)?;
    Ok(call)
}

/// The time that a call without a deadline may wait for a revision.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The longest time before its deadline at which a call is answered with the error that the
/// deadline has passed. At the deadline itself the gRPC library ends the call with a status that
/// tells less.
const MARGIN: Duration = Duration::from_millis(5);

/// The longest timeout that is used, whatever a client asks for. Every clock can count that far
/// ahead.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The moment `timeout` from now.
pub fn deadline_after(timeout: Duration) -> Instant {
    let at = Instant::now().checked_add(timeout.min(LONGEST));
    at.expect("a clock counts a year ahead")
}

/// The deadline of a call that arrives now, from its `grpc-timeout`, if it has
/// one.
pub fn given_deadline(headers: &HeaderMap) -> Option<Instant> {
    let timeout = timeout(headers)?;
    Some(deadline_after(timeout.saturating_sub(margin(timeout))))
}

/// The last moment for an answer of any kind to a call that arrives now, a
/// little after [`given_deadline`].
pub fn last_moment(headers: &HeaderMap) -> Option<Instant> {
    let timeout = timeout(headers)?;
    let half = margin(timeout).checked_div(2).unwrap_or_default();
    Some(deadline_after(timeout.saturating_sub(half)))
}

fn timeout(headers: &HeaderMap) -> Option<Duration> {
    parse_timeout(headers.get("grpc-timeout")?.to_str().ok()?)
}

fn margin(timeout: Duration) -> Duration {
    MARGIN.min(timeout.checked_div(10).unwrap_or_default())
}

/// The time until which a call waits for a revision: its deadline, if it has one.
pub fn or_patience(deadline: Option<Instant>) -> Instant {
    deadline.unwrap_or_else(|| deadline_after(MAX_WAIT))
}

/// Reads a `grpc-timeout`: up to 8 digits and a unit.
fn parse_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let n: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(n.saturating_mul(3_600))),
        "M" => Some(Duration::from_secs(n.saturating_mul(60))),
        "S" => Some(Duration::from_secs(n)),
        "m" => Some(Duration::from_millis(n)),
        "u" => Some(Duration::from_micros(n)),
        "n" => Some(Duration::from_nanos(n)),
        _ => None,
    }
}

/// Checks that a caller has a role on the snapshot of this name. A service
/// without access rules has no callers and allows everything.
///
/// # Errors
/// [`Error::Denied`].
pub fn check_role(caller: Option<&Caller>, role: Role, snapshot: &str) -> Result<(), Error> {
    let snapshot = request::named_or_default(snapshot);
    match caller {
        Some(caller) if !caller.may(role, snapshot) => {
            // A valid name is no longer than this, but an invalid one may be.
            let snapshot: String = snapshot.chars().take(request::MAX_NAME_BYTES).collect();
            debug!(caller = caller.name(), ?role, snapshot, "denied a call");
            Err(Error::Denied { role, snapshot })
        }
        _ => Ok(()),
    }
}

/// Checks that a caller has a role on some snapshot.
///
/// # Errors
/// [`Error::DeniedAnywhere`].
pub fn check_role_somewhere(caller: Option<&Caller>, role: Role) -> Result<(), Error> {
    match caller {
        Some(caller) if !caller.may_somewhere(role) => {
            debug!(caller = caller.name(), ?role, "denied a call");
            Err(Error::DeniedAnywhere(role))
        }
        _ => Ok(()),
    }
}

/// Returns whether a caller may see a snapshot.
pub fn may_read(caller: Option<&Caller>, snapshot: &str) -> bool {
    caller.is_none_or(|caller| caller.may(Role::Reader, snapshot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_timeouts() {
        for (text, want) in [
            ("1H", Some(Duration::from_secs(3600))),
            ("2M", Some(Duration::from_secs(120))),
            ("10S", Some(Duration::from_secs(10))),
            ("250m", Some(Duration::from_millis(250))),
            ("7u", Some(Duration::from_micros(7))),
            ("99999999n", Some(Duration::from_nanos(99_999_999))),
            ("", None),
            ("S", None),
            ("1", None),
            ("1x", None),
            ("-1S", None),
            ("123456789S", None),
        ] {
            assert_eq!(parse_timeout(text), want, "{text:?}");
        }
    }
}
