//! What a command's exit code says.

use std::process::ExitCode;

use super::errors::Unreachable;

/// How a command ended. `--help` of the binary documents the codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// It did what was asked; of a decision, at least one node is feasible.
    Success = 0,
    /// No node is feasible, or the server is not serving.
    Negative = 1,
    /// The request or its input was refused.
    Refused = 2,
    /// The server could not be reached or did not answer in time.
    Unreachable = 3,
}

impl Exit {
    /// The code for a decision that found a node, or none.
    pub(crate) fn of_nodes(found: bool) -> Self {
        if found { Exit::Success } else { Exit::Negative }
    }

    /// The code for a command that failed.
    pub(crate) fn of_error(error: &anyhow::Error) -> Self {
        if error.chain().any(|cause| cause.is::<Unreachable>()) {
            Exit::Unreachable
        } else {
            Exit::Refused
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}
