//! Opens a call: identifies its caller, checks the permission, decodes the request, and
//! reads the deadline.

use prost::Message;
use prost::bytes::Bytes;
use tokio::time::Instant;
use tonic::Request;

use super::error::Error;
use super::slots::CallerKey;
use super::{deadline, permission};
use crate::access::{Caller, Role};

/// A call whose caller may make it.
pub struct OpenedCall<M> {
    /// The decoded request.
    pub request: M,
    /// The asker: the caller, and the deadline.
    pub by: Asker,
}

/// The caller of a request, and its deadline.
#[derive(Clone)]
pub struct Asker {
    /// The deadline of the call, if it has one.
    pub deadline: Option<Instant>,
    /// The caller; `None` where callers are not told apart.
    pub caller: Option<Caller>,
    /// The caller whose share of slots and threads this call uses.
    pub who: CallerKey,
}

/// Opens a call whose permission is asked for later: once its request is read, or
/// for each snapshot that it lists.
pub fn open_later<M>(request: Request<M>) -> OpenedCall<M> {
    let (metadata, mut extensions, request) = request.into_parts();
    OpenedCall {
        request,
        by: Asker {
            deadline: deadline::given(metadata.as_ref()),
            caller: extensions.remove(),
            who: extensions.remove().unwrap_or_default(),
        },
    }
}

/// As [`open_later`], and decodes the request.
///
/// # Errors
/// [`Error::Undecodable`].
pub fn decode<M: Message + Default>(request: Request<Bytes>) -> Result<OpenedCall<M>, Error> {
    let OpenedCall { request, by } = open_later(request);
    let request = M::decode(request)?;
    Ok(OpenedCall { request, by })
}

/// Opens a call that needs a role on the snapshot whose name `snapshot` finds in the
/// request; an empty name is the default one.
///
/// # Errors
/// [`Error::Undecodable`] and [`Error::Denied`].
pub fn open<M: Message + Default>(
    request: Request<Bytes>,
    role: Role,
    snapshot: fn(&M) -> &str,
) -> Result<OpenedCall<M>, Error> {
    let call = decode(request)?;
    permission::allow(call.by.caller.as_ref(), role, snapshot(&call.request))?;
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
