//! Turns errors into `google.rpc.Status`: the one place that chooses codes, reasons and details.

use std::collections::HashMap;
use std::time::Duration;

use prost::DecodeError;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::access::Role;
use crate::limits::{Exceeded, Limit};
use crate::matching::{Path, Violations};
use crate::snapshot::resource_versions::FeedBehind;
use crate::snapshot::{self, JournalError, Stopped};
use crate::spread::describe::{NamedWorkload, UnknownKey};

/// Domain of every `ErrorInfo`.
const DOMAIN: &str = "evenkeel";

/// Reason of the `ErrorInfo` when a snapshot did not reach `min_revision` in time.
pub(crate) const MIN_REVISION_NOT_REACHED: &str = "MIN_REVISION_NOT_REACHED";
/// Reason of the `ErrorInfo` when a question is about a workload that has no pods.
pub(crate) const WORKLOAD_NOT_FOUND: &str = "WORKLOAD_NOT_FOUND";

/// The reason of an error about a node that does not exist.
pub(crate) const NODE_NOT_FOUND: &str = "NODE_NOT_FOUND";

/// The most bytes of violations in a status. Details travel in a header, and common clients take no
/// more than 8 KiB of headers.
const MAX_VIOLATION_BYTES: usize = 4_000;

/// The time after which an update that could not be stored may be tried again.
const STORAGE_RETRY: Duration = Duration::from_secs(1);

/// The time after which a request over a limit may be tried again, if it may.
const LIMIT_RETRY: Duration = Duration::from_secs(1);

/// The reason why a call is refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request is wrong.
    #[error("{0}")]
    Invalid(#[from] Violations),
    /// The message is not one of the protocol.
    #[error("the request cannot be read: {0}")]
    Undecodable(String),
    /// The registry refuses.
    #[error("{0}")]
    Snapshot(snapshot::Error),
    /// The snapshot did not reach `min_revision` in time.
    #[error("snapshot {snapshot:?} is at revision {actual} and did not reach {wanted} in time")]
    MinRevision {
        /// Name of the snapshot.
        snapshot: String,
        /// The revision that the caller asked for.
        wanted: i64,
        /// The revision of the snapshot.
        actual: i64,
    },
    /// The feed of the snapshot has not read its cluster as far as the request asks.
    #[error("the feed of snapshot {snapshot:?} {behind}")]
    FeedBehind {
        /// Name of the snapshot.
        snapshot: String,
        /// The kind that it has not read so far.
        behind: FeedBehind,
    },
    /// A workload has no pods.
    #[error("{kind} {name} of namespace {namespace} has no pods")]
    NoWorkload {
        /// The workload's namespace.
        namespace: String,
        /// The workload's kind.
        kind: String,
        /// The workload's name.
        name: String,
    },
    /// A plan is about a node that does not exist.
    #[error("there is no node {0:?}")]
    NoNode(String),
    /// No node has the topology key that pods are to be judged by.
    #[error("topologyKey: {0}")]
    NoTopologyKey(UnknownKey),
    /// The deadline of the call has passed.
    #[error("the deadline of the call has passed")]
    Deadline,
    /// The request did not arrive whole in time.
    #[error("the request did not arrive within receive-timeout of {} s", .0.as_secs_f64())]
    NotReceived(Duration),
    /// The request exceeds a limit.
    #[error(transparent)]
    OverLimit(#[from] Exceeded),
    /// The caller is not known.
    #[error("the caller is not known: {0}")]
    Unauthenticated(&'static str),
    /// The caller lacks the role that the call needs.
    #[error("this needs the role {role} on snapshot {snapshot:?}")]
    Denied {
        /// The role.
        role: Role,
        /// The snapshot.
        snapshot: String,
    },
    /// The caller has the role that the call needs on no snapshot.
    #[error("this needs the role {0} on a snapshot")]
    DeniedAnywhere(Role),
    /// The server has no such method.
    #[error("this server has no method {0}")]
    Unimplemented(String),
    /// The client has cancelled the call.
    #[error("the question was cancelled")]
    Cancelled,
    /// The server stops.
    #[error("the server is draining")]
    Draining,
    /// A task of the server itself failed.
    #[error("the server failed to finish the call")]
    Internal,
}

impl From<snapshot::Error> for Error {
    fn from(error: snapshot::Error) -> Self {
        match error {
            snapshot::Error::Invalid(violations) => Self::Invalid(violations),
            snapshot::Error::OverLimit(exceeded) => Self::OverLimit(exceeded),
            error => Self::Snapshot(error),
        }
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Self::Undecodable(error.to_string())
    }
}

impl From<Stopped> for Error {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Full(exceeded) => Self::OverLimit(exceeded),
            Stopped::Large | Stopped::GivenUp => Self::Deadline,
        }
    }
}

impl Error {
    /// Returns the error for a fault of a single field.
    pub(super) fn fault(path: Path<'_>, description: &str) -> Self {
        let mut faults = Violations::default();
        faults.add(path, description);
        faults.into()
    }

    /// The error about a workload of a namespace that has no pods.
    pub(super) fn no_workload(namespace: &str, workload: &NamedWorkload) -> Self {
        Self::NoWorkload {
            namespace: namespace.to_owned(),
            kind: workload.kind.clone(),
            name: workload.name.clone(),
        }
    }

    fn code_and_reason(&self) -> (Code, &'static str) {
        match self {
            Self::Invalid(violations) if violations.are_limits() => {
                (Code::ResourceExhausted, "OVER_LIMIT")
            }
            Self::Invalid(_) | Self::Undecodable(_) => (Code::InvalidArgument, "INVALID_REQUEST"),
            Self::Snapshot(error) => match error {
                snapshot::Error::Invalid(_) => (Code::InvalidArgument, "INVALID_REQUEST"),
                snapshot::Error::NotFound(_) => (Code::NotFound, "SNAPSHOT_NOT_FOUND"),
                snapshot::Error::NotSynced(_) => (Code::FailedPrecondition, "SNAPSHOT_NOT_SYNCED"),
                snapshot::Error::Stale { .. } => (Code::FailedPrecondition, "SNAPSHOT_STALE"),
                snapshot::Error::RevisionMismatch { .. } => (Code::Aborted, "REVISION_MISMATCH"),
                snapshot::Error::EpochMismatch { .. } => (Code::Aborted, "EPOCH_MISMATCH"),
                snapshot::Error::Superseded(_) => (Code::Aborted, "FEED_SUPERSEDED"),
                snapshot::Error::Contended(_) => (Code::Aborted, "LOG_CONTENTION"),
                snapshot::Error::OtherCluster(..) => (Code::FailedPrecondition, "OTHER_CLUSTER"),
                snapshot::Error::NotStored(JournalError::NoSpace | JournalError::LogFull(_)) => {
                    (Code::ResourceExhausted, "STORAGE_FULL")
                }
                snapshot::Error::NotStored(JournalError::UnknownFate { .. }) => {
                    (Code::Unavailable, "LOG_UNANSWERED")
                }
                snapshot::Error::NotStored(JournalError::Untrusted(_)) => {
                    (Code::Unavailable, "LOG_UNTRUSTED")
                }
                snapshot::Error::NotStored(JournalError::Unreachable(_)) => {
                    (Code::Unavailable, "LOG_UNREACHABLE")
                }
                snapshot::Error::NotStored(_) => (Code::Unavailable, "STORAGE_FAILED"),
                snapshot::Error::OverLimit(_) => (Code::ResourceExhausted, "OVER_LIMIT"),
            },
            Self::MinRevision { .. } => (Code::DeadlineExceeded, MIN_REVISION_NOT_REACHED),
            Self::FeedBehind { .. } => (Code::FailedPrecondition, "FEED_BEHIND"),
            Self::NoWorkload { .. } => (Code::NotFound, WORKLOAD_NOT_FOUND),
            Self::NoNode(_) => (Code::NotFound, NODE_NOT_FOUND),
            Self::NoTopologyKey(_) => (Code::FailedPrecondition, "TOPOLOGY_KEY_NOT_FOUND"),
            Self::Deadline => (Code::DeadlineExceeded, "DEADLINE_EXCEEDED"),
            Self::NotReceived(_) => (Code::DeadlineExceeded, "REQUEST_NOT_RECEIVED"),
            Self::OverLimit(_) => (Code::ResourceExhausted, "OVER_LIMIT"),
            Self::Unauthenticated(_) => (Code::Unauthenticated, "UNAUTHENTICATED"),
            Self::Denied { .. } | Self::DeniedAnywhere(_) => {
                (Code::PermissionDenied, "PERMISSION_DENIED")
            }
            Self::Unimplemented(_) => (Code::Unimplemented, "METHOD_NOT_FOUND"),
            Self::Cancelled => (Code::Cancelled, "CANCELLED"),
            Self::Draining => (Code::Unavailable, "DRAINING"),
            Self::Internal => (Code::Internal, "INTERNAL"),
        }
    }

    /// Returns the metadata of the error for programs.
    fn metadata(&self) -> HashMap<String, String> {
        let limit = |limit: Limit| ("limit".to_owned(), limit.name().to_owned());
        match self {
            Self::OverLimit(exceeded) => HashMap::from([
                limit(exceeded.limit),
                ("value".to_owned(), exceeded.most.to_string()),
            ]),
            // Names the first of several limits; the violations name all.
            Self::Invalid(violations) if violations.are_limits() => {
                let first = violations.iter().find_map(|v| v.limit);
                first.map(limit).into_iter().collect()
            }
            Self::DeniedAnywhere(role) => HashMap::from([("role".to_owned(), role.to_string())]),
            Self::Denied { role, snapshot } => HashMap::from([
                ("role".to_owned(), role.to_string()),
                ("snapshot".to_owned(), snapshot.clone()),
            ]),
            Self::Snapshot(snapshot::Error::NotFound(name)) => {
                HashMap::from([("snapshot".to_owned(), name.clone())])
            }
            _ => HashMap::new(),
        }
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let (code, reason) = error.code_and_reason();
        let mut details = ErrorDetails::with_error_info(reason, DOMAIN, error.metadata());
        let retry_after = match &error {
            Error::OverLimit(exceeded) if exceeded.limit.row().passes => Some(LIMIT_RETRY),
            Error::Snapshot(snapshot::Error::NotStored(_) | snapshot::Error::Contended(_)) => {
                Some(STORAGE_RETRY)
            }
            _ => None,
        };
        if retry_after.is_some() {
            details.set_retry_info(retry_after);
        }
        let message = match &error {
            Error::Invalid(violations) => describe(violations, &mut details),
            // A server that only follows a log returns this error, too. It has not applied the
            // update either.
            Error::Snapshot(snapshot::Error::NotStored(
                JournalError::Unreachable(_)
                | JournalError::Untrusted(_)
                | JournalError::LogFull(_),
            )) => format!("{error}; the update was not applied"),
            error => error.to_string(),
        };
        Self::with_error_details(code, message, details)
    }
}

/// Adds violations to the details of a status and sums them up in a sentence.
fn describe(violations: &Violations, details: &mut ErrorDetails) -> String {
    let mut bytes = 0;
    let mut listed = 0;
    for violation in violations.iter() {
        let length = violation
            .field
            .len()
            .saturating_add(violation.description.len());
        bytes = length.saturating_add(bytes);
        // The first violation is always listed: names are limited, so it is short enough.
        if listed > 0 && bytes > MAX_VIOLATION_BYTES {
            break;
        }
        details.add_bad_request_violation(&violation.field, &violation.description);
        listed = usize::saturating_add(listed, 1);
    }
    let total = violations.total();
    let first = violations.iter().next();
    let first = first.map_or(String::new(), |v| format!("{}: {}", v.field, v.description));
    let more = match total.saturating_sub(1) {
        0 => return first,
        1 => "1 more violation".to_owned(),
        more => format!("{more} more violations"),
    };
    match total.saturating_sub(listed) {
        0 => format!("{first} (and {more})"),
        unlisted => format!("{first} (and {more}, {unlisted} of them not listed)"),
    }
}
