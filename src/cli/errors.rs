//! Failed calls, as a person reads them.

use std::error::Error;
use std::fmt;

use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::visible;

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
        match status.code() {
            Code::Unavailable | Code::DeadlineExceeded => Unreachable(format!(
                "the server did not answer: {}",
                visible::text(status.message())
            ))
            .into(),
            Code::Cancelled if is_timeout(&status) => {
                Unreachable("no answer from the server in time (see --timeout)".to_owned()).into()
            }
            // The transport's own errors have a source, a server's have none.
            _ if status.source().is_some() => {
                let fault = fault_of_address(&status);
                fault
                    .unwrap_or_else(|| {
                        let causes = visible::causes(&status);
                        Unreachable(format!("the connection to the server failed: {causes}"))
                    })
                    .into()
            }
            _ => RefusedCall {
                status: Box::new(status),
                objects,
            }
            .into(),
        }
    }
}

impl Error for RefusedCall {}

impl fmt::Display for RefusedCall {
    /// The message and code; with violations, a line for each of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The server's text may contain what other clients sent.
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
        // A long list is cut; the message says so.
        match message.rsplit_once(", ") {
            Some((_, cut)) if cut.ends_with("too many to list)") => {
                write!(f, "\n  ... and more: {}", cut.trim_end_matches(')'))
            }
            _ => Ok(()),
        }
    }
}

impl RefusedCall {
    /// Takes `changes[3].node.metadata.name` (of a feed: after `update.`) apart into the object's name and
    /// `metadata.name`. Other fields have no object.
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

/// What the transport found to be wrong with the address, if it did.
fn fault_of_address(status: &Status) -> Option<Unreachable> {
    let mut next = status.source();
    while let Some(error) = next {
        if let Some(Unreachable(fault)) = error.downcast_ref() {
            return Some(Unreachable(format!("cannot reach the server: {fault}")));
        }
        next = error.source();
    }
    None
}

fn is_timeout(status: &Status) -> bool {
    status.message().contains("Timeout expired")
}
