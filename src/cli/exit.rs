//! Runs commands, and reports failed calls and exit codes.

use std::error::Error;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::process::ExitCode;

use anyhow::Result;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::output;
use crate::api;
use crate::kubernetes;
use crate::visible;

/// The outcome of a command. `--help` of the binary documents the codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// The command succeeded; for a decision, at least one node is feasible.
    Success = 0,
    /// No node is feasible, or the server is not serving.
    Negative = 1,
    /// The request or its input was refused, or the snapshot did not reach the awaited revision.
    Refused = 2,
    /// The server could not be reached or did not answer in time.
    Unreachable = 3,
}

impl Exit {
    /// The code for a good or a bad result.
    pub(crate) fn of(is_well: bool) -> Self {
        if is_well {
            Exit::Success
        } else {
            Exit::Negative
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Runs a client command. One thread is enough, because a command does one thing at a time.
pub(super) fn wait_for(command: impl Future<Output = Result<Exit>>) -> Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // All commands are boxed as one type, so that the code that runs them is compiled only once.
    let command: Pin<Box<dyn Future<Output = Result<Exit>>>> = Box::pin(command);
    runtime.block_on(command)
}

/// Writes the error for a person, and returns its exit code. If a reader such as `head` closes
/// standard output, this is no error.
pub(super) fn report(error: &anyhow::Error) -> Exit {
    let seen_enough = |cause: &(dyn Error + 'static)| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(seen_enough) {
        return Exit::Success;
    }
    output::fail(&format_args!("{error:#}"));
    let is_unreachable = |cause: &(dyn Error + 'static)| {
        let of_cluster = cause.downcast_ref::<kubernetes::Error>();
        cause.is::<Unreachable>() || matches!(of_cluster, Some(kubernetes::Error::Unreachable(_)))
    };
    match error.chain().any(is_unreachable) {
        true => Exit::Unreachable,
        false => Exit::Refused,
    }
}

/// The server could not be reached or did not answer in time.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unreachable(pub String);

/// A request was refused.
#[derive(Debug)]
pub(crate) struct RefusedCall {
    status: Box<Status>,
    /// Names of the objects that were sent, by their index.
    objects: Vec<String>,
}

impl RefusedCall {
    /// Sorts a failed call into [`RefusedCall`] and [`Unreachable`]. `objects`
    /// names the changes of the request, so that a violation of `changes[3]` or
    /// `overlay[3]` can name the object.
    pub(crate) fn or_unreachable(status: Status, objects: Vec<String>) -> anyhow::Error {
        // The code is that of a call without an answer, but the server did answer.
        let reason = status.get_details_error_info().map(|info| info.reason);
        if reason.as_deref() == Some(api::MIN_REVISION_NOT_REACHED) {
            let message = visible::text(status.message());
            return anyhow::anyhow!("{message} (see --min-revision and --timeout)");
        }
        match status.code() {
            Code::Unavailable | Code::DeadlineExceeded => Unreachable(format!(
                "the server did not answer: {}",
                visible::text(status.message())
            ))
            .into(),
            Code::Cancelled if status.message().contains("Timeout expired") => {
                Unreachable("no answer from the server in time (see --timeout)".to_owned()).into()
            }
            // Errors of the transport have a source. Errors of a server have none.
            _ if status.source().is_some() => {
                let causes = visible::causes(&status);
                Unreachable(format!(
                    "the connection to the server failed: {causes} (a port with TLS wants https://)"
                ))
                .into()
            }
            _ => RefusedCall {
                status: Box::new(status),
                objects,
            }
            .into(),
        }
    }

    /// Returns whether a call was refused because its request is invalid.
    pub(crate) fn is_invalid(error: &anyhow::Error) -> bool {
        let refused = error.downcast_ref::<Self>();
        refused.is_some_and(|it| it.status.code() == Code::InvalidArgument)
    }

    /// The name of the snapshot that a call was about and that does not exist.
    pub(crate) fn unknown_snapshot(error: &anyhow::Error) -> Option<String> {
        let refused = error.downcast_ref::<Self>()?;
        let mut info = refused.status.get_details_error_info()?;
        let name = info.metadata.remove("snapshot")?;
        (info.reason == "SNAPSHOT_NOT_FOUND").then_some(name)
    }

    /// Returns whether a call failed for this reason.
    pub(crate) fn is_for(error: &anyhow::Error, reason: &str) -> bool {
        let info = error
            .downcast_ref::<Self>()
            .and_then(|refused| refused.status.get_details_error_info());
        info.is_some_and(|info| info.reason == reason)
    }

    /// The faults of a pod, if a call was refused for these alone: the pod cannot be judged.
    pub(crate) fn faults_of_pod(error: &anyhow::Error) -> Option<String> {
        let details = error
            .downcast_ref::<Self>()?
            .status
            .get_details_bad_request();
        let faults = details?.field_violations.into_iter().map(|violation| {
            let field = violation.field.strip_prefix("pod.")?.to_owned();
            Some(format!("{field}: {}", violation.description))
        });
        let faults: Vec<String> = faults.collect::<Option<_>>()?;
        (!faults.is_empty()).then(|| visible::text(&faults.join("; ")).into_owned())
    }

    /// Splits `changes[3].node.metadata.name` into the object's name and `metadata.name`. In a
    /// feed, the field begins with `update.`. Other fields have no object.
    fn locate<'f>(&self, field: &'f str) -> (String, &'f str) {
        let located = ["changes[", "overlay["].iter().find_map(|list| {
            let field = field.strip_prefix("update.").unwrap_or(field);
            let (index, rest) = field.strip_prefix(list)?.split_once(']')?;
            let object = self.objects.get(index.parse::<usize>().ok()?)?;
            let rest = rest.trim_start_matches('.');
            let inner = rest.split_once('.').map_or("", |(_, inner)| inner);
            Some((object, inner))
        });
        match located {
            Some((object, "")) => (object.clone(), ""),
            Some((object, inner)) => (format!("{object}: "), inner),
            None => (String::new(), field),
        }
    }
}

impl Error for RefusedCall {}

impl fmt::Display for RefusedCall {
    /// Writes the message and the code or, if there are violations, a line for each of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The server's text is made visible, because it may quote other clients.
        let (message, code) = (visible::text(self.status.message()), self.status.code());
        let details = self.status.get_error_details();
        let violations = details
            .bad_request()
            .map_or(&[][..], |bad| &bad.field_violations);
        if violations.is_empty() {
            return write!(f, "{message} ({code:?})");
        }
        write!(f, "the request was refused ({code:?})")?;
        for violation in violations {
            let (object, field) = self.locate(&violation.field);
            let place = format!("{object}{field}");
            let description = visible::text(&violation.description);
            write!(f, "\n  {}: {description}", visible::text(&place))?;
        }
        // If the list of violations was cut, the end of the message says so.
        match message.rsplit_once(", ") {
            Some((_, cut)) if cut.ends_with("not listed)") => {
                write!(f, "\n  ... and more: {}", cut.trim_end_matches(')'))
            }
            _ => Ok(()),
        }
    }
}
