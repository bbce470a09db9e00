//! Opens a call: identifies its caller, checks the permission, decodes the request, and
//! reads the deadline.

use prost::Message;
use prost::bytes::Bytes;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Request;

use super::error::Error;
use super::slots::CallerKey;
use super::{deadline, permission};
use crate::access::{Caller, Role};
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

macro_rules! about_snapshot {
    ($($request:ident)*) => {$(
        impl AboutSnapshot for v1::$request {
            fn snapshot(&self) -> &str {
                &self.snapshot
            }
        }
    )*};
}

about_snapshot! {
    ConfirmReservationsRequest DeleteSnapshotRequest DescribeSpreadRequest ExplainRequest
    ExportSnapshotRequest FilterRequest GetSnapshotRequest ListNodesRequest
    ListReservationsRequest PlanNodesRequest RankRemovalsRequest RebalanceRequest
    ReleaseReservationsRequest RenewReservationsRequest ReservePodsRequest ScoreRequest
    UpdateSnapshotRequest VerifySnapshotRequest
}

/// Opens a call whose permission is checked later: once its request is read, or for each snapshot
/// that it lists.
pub fn open_later<M>(request: Request<M>) -> OpenedCall<M> {
    let (metadata, mut extensions, request) = request.into_parts();
    OpenedCall {
        request,
        by: RequestContext {
            deadline: deadline::given(metadata.as_ref()),
            caller: extensions.remove(),
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
    permission::allow(call.by.caller.as_ref(), role, call.request.snapshot())?;
    Ok(call)
}

/// Opens a stream, whose snapshots are named only later: the caller needs the
/// role on at least one snapshot.
///
/// # Errors
/// [`Error::DeniedAnywhere`].
pub fn open_stream<M>(request: Request<M>, role: Role) -> Result<OpenedCall<M>, Error> {
    let call = open_later(request);
    permission::allow_somewhere(call.by.caller.as_ref(), role)?;
    Ok(call)
}
