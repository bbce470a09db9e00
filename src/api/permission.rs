//! Asks the access rules whether a caller may make a call. `server/transport/identity.rs`
//! identified the caller before. The role that a call needs is in the first line of its method in
//! `service.rs`.

use tracing::debug;

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
pub fn allow_somewhere(caller: Option<&Caller>, role: Role) -> Result<(), Error> {
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
