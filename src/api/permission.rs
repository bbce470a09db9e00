//! Who may make a call: the one place that asks. Which role a call needs
//! stands in `service.rs`, in its first line.

use tonic::{Extensions, Request};

use super::error::Error;
use super::request;
use crate::access::{Caller, Role};

/// Checks that the caller of a request has a role on the snapshot that it
/// names. A service without rules knows no callers and lets everybody.
///
/// # Errors
/// [`Error::Denied`].
pub fn check<M>(
    request: &Request<M>,
    role: Role,
    snapshot: impl FnOnce(&M) -> &String,
) -> Result<(), Error> {
    let caller = request.extensions().get::<Caller>();
    allow(caller, role, snapshot(request.get_ref()))
}

/// [`check`] of a caller who was told before.
///
/// # Errors
/// [`Error::Denied`].
pub fn allow(caller: Option<&Caller>, role: Role, snapshot: &str) -> Result<(), Error> {
    let snapshot = request::named_or_default(snapshot);
    match caller {
        Some(caller) if !caller.may(role, snapshot) => Err(Error::Denied {
            role,
            // No name is longer; what is sent may be.
            snapshot: snapshot.chars().take(request::MAX_NAME_BYTES).collect(),
        }),
        _ => Ok(()),
    }
}

/// Checks that the caller of a request has a role on some snapshot: for a
/// stream, whose snapshots are named only later.
///
/// # Errors
/// [`Error::DeniedAnywhere`].
pub fn check_anywhere<M>(request: &Request<M>, role: Role) -> Result<(), Error> {
    match request.extensions().get::<Caller>() {
        Some(caller) if !caller.may_somewhere(role) => Err(Error::DeniedAnywhere(role)),
        _ => Ok(()),
    }
}

/// Whether the caller of a request may see a snapshot in a list.
pub fn may_read(extensions: &Extensions, snapshot: &str) -> bool {
    allow(extensions.get(), Role::Reader, snapshot).is_ok()
}
