//! How every call begins: who makes it, what it asks for, and by when it is to
//! be answered.

use tokio::time::Instant;
use tonic::Request;

use super::error::Error;
use super::slots::CallerKey;
use super::{deadline, permission};
use crate::access::{Caller, Role};
use crate::proto::{received, v1};

/// A call whose caller may make it.
pub struct OpenedCall<M> {
    /// What is asked for.
    pub request: M,
    /// Who asks for it.
    pub by: Asker,
}

/// Who asks for something, and until when.
#[derive(Clone)]
pub struct Asker {
    /// When it has to be answered, if the call says so.
    pub deadline: Option<Instant>,
    /// Who makes the call; `None` where callers are not told apart.
    pub caller: Option<Caller>,
    /// With whom it shares what there are few of.
    pub who: CallerKey,
}

/// A request about one snapshot.
pub trait AboutSnapshot {
    /// The name that it gives; empty for the default one.
    fn snapshot(&self) -> &str;
}

macro_rules! named {
    ($($package:ident::$request:ident,)*) => {$(
        impl AboutSnapshot for $package::$request {
            fn snapshot(&self) -> &str {
                &self.snapshot
            }
        }
    )*};
}

named! {
    received::UpdateSnapshotRequest,
    v1::DescribeSpreadRequest,
    v1::ConfirmReservationsRequest,
    v1::RenewReservationsRequest,
    v1::ReleaseReservationsRequest,
    v1::ListReservationsRequest,
    v1::GetSnapshotRequest,
    v1::DeleteSnapshotRequest,
    v1::ExportSnapshotRequest,
    v1::VerifySnapshotRequest,
}

impl<M> OpenedCall<M> {
    fn of(request: Request<M>) -> Self {
        let (metadata, mut extensions, request) = request.into_parts();
        Self {
            request,
            by: Asker {
                deadline: deadline::given(metadata.as_ref()),
                caller: extensions.remove(),
                who: extensions.remove().unwrap_or_default(),
            },
        }
    }
}

/// Opens a call that needs a role on the snapshot that it names.
///
/// # Errors
/// [`Error::Denied`].
pub fn open<M: AboutSnapshot>(request: Request<M>, role: Role) -> Result<OpenedCall<M>, Error> {
    let call = OpenedCall::of(request);
    permission::allow(call.by.caller.as_ref(), role, call.request.snapshot())?;
    Ok(call)
}

/// Opens a stream, whose snapshots are named only later: the caller needs the
/// role on at least one snapshot.
///
/// # Errors
/// [`Error::DeniedAnywhere`].
pub fn open_stream<M>(request: Request<M>, role: Role) -> Result<OpenedCall<M>, Error> {
    let call = OpenedCall::of(request);
    permission::allow_somewhere(call.by.caller.as_ref(), role)?;
    Ok(call)
}

/// Opens a call whose permission is asked for later, once its request is read.
pub fn open_later<M>(request: Request<M>) -> OpenedCall<M> {
    OpenedCall::of(request)
}

/// Opens a call that shows each caller only what it may read.
pub fn open_list<M>(request: Request<M>) -> OpenedCall<M> {
    OpenedCall::of(request)
}
