//! Who may make a call: the one place that asks. The role that a call needs is
//! in the first line of its method in `service.rs`.

use super::error::Error;
use super::request;
use crate::access::{Caller, Role};

/// Checks that a caller has a role on the snapshot of this name. A service
/// without access rules has no callers and allows everything.
///
/// # Errors
/// [`Error::Denied`].
pub fn allow(caller: Option<&Caller>, role: Role, snapshot: &str) -> Result<(), Error> {
    let snapshot = request::named_or_default(snapshot);
    match caller {
        Some(caller) if !caller.may(role, snapshot) => Err(Error::Denied {
            role,
            // A valid name is no longer than this, but an invalid one may be.
            snapshot: snapshot.chars().take(request::MAX_NAME_BYTES).collect(),
        }),
        _ => Ok(()),
    }
}

/// Checks that a caller has a role on some snapshot.
///
/// # Errors
/// [`Error::DeniedAnywhere`].
pub fn allow_somewhere(caller: Option<&Caller>, role: Role) -> Result<(), Error> {
    match caller {
        Some(caller) if !caller.may_somewhere(role) => Err(Error::DeniedAnywhere(role)),
        _ => Ok(()),
    }
}

/// Whether a caller may see a snapshot in a list.
pub fn may_read(caller: Option<&Caller>, snapshot: &str) -> bool {
    allow(caller, Role::Reader, snapshot).is_ok()
}
