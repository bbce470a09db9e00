//! How a command runs to its end, and what its exit code says.

use std::io::{self, Write};
use std::pin::Pin;
use std::process::ExitCode;

use anyhow::Result;

use super::errors::Unreachable;
use crate::kubernetes;
use crate::visible;

/// How a command ended. `--help` of the binary documents the codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done; of a decision, at least one node is feasible.
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

    /// The code for a look at constraints of which `count` are violated.
    pub(crate) fn of_violations(count: i64) -> Self {
        Self::of_nodes(count == 0)
    }

    /// The code for a command that failed.
    pub(crate) fn of_error(error: &anyhow::Error) -> Self {
        let is_unreachable = |cause: &(dyn std::error::Error + 'static)| {
            let of_cluster = cause.downcast_ref::<kubernetes::Error>();
            cause.is::<Unreachable>()
                || matches!(of_cluster, Some(kubernetes::Error::Unreachable { .. }))
        };
        if error.chain().any(is_unreachable) {
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

/// Runs a client command. One thread is enough: it does one thing at a time.
pub(super) fn wait_for(command: impl Future<Output = Result<Exit>>) -> Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // One type for all commands, so that what runs them is compiled once.
    let command: Pin<Box<dyn Future<Output = Result<Exit>>>> = Box::pin(command);
    runtime.block_on(command)
}

/// Writes the error for a person, and answers its exit code. A reader of
/// standard output that has seen enough, such as `head`, is no error.
pub(super) fn report(error: &anyhow::Error) -> Exit {
    let seen_enough = |cause: &(dyn std::error::Error + 'static)| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(seen_enough) {
        return Exit::Success;
    }
    let style = anstyle::AnsiColor::Red.on_default().bold();
    let text = format!("{error:#}");
    let text = visible::lines(&text);
    // If standard error is closed, there is no way left to report it.
    let _ = writeln!(anstream::stderr(), "{style}error:{style:#} {text}");
    Exit::of_error(error)
}
