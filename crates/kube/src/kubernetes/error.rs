//! Errors of clusters, with messages that say how to fix them.

use super::connection::ClusterClient;
use super::counts::ListReason;
use super::sink::Undone;
use crate::manifest::{ApiResource, ManifestError};
use evenkeel_log::visible::causes;

/// The reason why a cluster could not be found, reached or read. The messages name the cluster by its
/// context.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kubeconfig, the credentials, a proxy or the scheduler's configuration cannot be used.
    #[error("{0}")]
    Unusable(String),
    /// The API server did not answer.
    #[error("{0}")]
    Unreachable(String),
    /// The answer cannot be decoded. The message has nothing of its content.
    #[error("{0}")]
    Unreadable(String),
    /// The API server refused.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// The request, and the message of the API server.
        message: String,
    },
    /// An object cannot be read.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

impl Error {
    /// Returns whether the API server gave no answer, or one that says nothing of the request: it
    /// may answer later.
    pub fn is_away(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Unreadable(_) => true,
            Self::Refused { code, .. } => *code >= 500,
            _ => false,
        }
    }

    /// Returns whether the API server refused with this HTTP status.
    pub fn has_code(&self, wanted: u16) -> bool {
        matches!(self, Self::Refused { code, .. } if *code == wanted)
    }

    /// Returns whether the account lacks the permission.
    pub fn is_forbidden(&self) -> bool {
        self.has_code(403)
    }

    /// Returns whether a list or a watch is too old to continue.
    pub fn is_expired(&self) -> bool {
        self.has_code(410)
    }

    /// Returns whether the account lacks the permission, or the API server does not have the
    /// resource.
    pub(super) fn is_refusal(&self) -> bool {
        self.is_forbidden() || self.has_code(404)
    }
}

/// The reason why a feed begins again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The cluster cannot be found, its default constraints cannot be read, or it does not accept the
    /// credentials.
    #[error(transparent)]
    Cluster(#[from] Error),
    /// The server did not complete a step.
    #[error("the snapshot cannot be fed: {0}")]
    Undone(#[from] Undone),
    /// Another reason.
    #[error("{0}")]
    Because(String),
    /// Events of a kind may be lost.
    #[error("{what}")]
    Lost {
        /// The reason to list again.
        reason: ListReason,
        /// What happened.
        what: String,
    },
}

/// The description of a request to an API server, for an [`Error`].
pub(super) struct ApiRequest<'a> {
    pub(super) cluster: &'a ClusterClient,
    pub(super) verb: &'static str,
    pub(super) resource: &'static ApiResource,
    /// True if the request is for only one namespace.
    pub(super) in_namespace: bool,
}

impl ApiRequest<'_> {
    /// Returns the error of this request for `error` of the client.
    pub(super) fn failed(&self, error: &kube::Error) -> Error {
        let (verb, plural) = (self.verb, self.resource.plural);
        let (cluster, address) = (&self.cluster.name, &self.cluster.address);
        if let Some(fault) = self.cluster.credentials.fault(error) {
            return Error::Unusable(format!("cannot connect to {cluster}: {fault}"));
        }
        // The text of the error itself is not used where it may quote the answer.
        let cause = match error {
            kube::Error::Api(status) => return self.refused(status),
            kube::Error::SerdeError(error) => {
                let (line, column) = (error.line(), error.column());
                format!("its answer ends or is wrong at line {line}, column {column}")
            }
            kube::Error::FromUtf8(_) => "its answer is no text".to_owned(),
            error => {
                // The text of the error is the name of a type and the text of its source, so only
                // the source is used.
                let cause = causes(std::error::Error::source(error).unwrap_or(error));
                return Error::Unreachable(format!(
                    "cannot reach the API server of {cluster} at {address}: {cause}"
                ));
            }
        };
        Error::Unreadable(format!("cannot {verb} {plural} of {cluster}: {cause}"))
    }

    /// Returns the error of this request for a refusal by the API server.
    pub(super) fn refused(&self, status: &kube::core::Status) -> Error {
        let (verb, plural) = (self.verb, self.resource.plural);
        let cluster = &self.cluster.name;
        let told = match status.message.as_str() {
            "" => &status.reason,
            message => message,
        };
        let message = match (status.code, &self.cluster.credentials.what) {
            (401, Some(which)) => format!(
                "the API server of {cluster} does not accept these credentials, {which}: {told}"
            ),
            (401, None) => format!(
                "the API server of {cluster} wants credentials, and its user has neither a token \
                 nor a client certificate nor a command that gives one: {told}"
            ),
            (403, _) => {
                let role = match self.in_namespace {
                    true => "Role",
                    false => "ClusterRole",
                };
                let rule = self.resource.rule(verb);
                format!(
                    "may not {verb} {plural} in {cluster}: {told}; add this rule to a {role} of \
                     the account: {rule}"
                )
            }
            (410, _) => format!("cannot continue to {verb} {plural} of {cluster}: {told}"),
            (code, _) => format!("cannot {verb} {plural} of {cluster}: {told} ({code})"),
        };
        Error::Refused {
            code: status.code,
            message,
        }
    }
}
