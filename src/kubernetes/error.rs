//! The faults of a cluster, in words that tell how to mend them.

use super::credentials::Credentials;
use super::resource::ApiResource;
use super::sink::Undone;
use crate::manifest::ManifestError;
use crate::visible::causes;

/// The most bytes of an API server's message that are shown.
const MAX_MESSAGE_BYTES: usize = 1 << 10;

/// The reason why a cluster could not be found, reached or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// No kubeconfig or service account names a cluster.
    #[error(
        "no Kubernetes cluster is known: there is no kubeconfig at {looked}, and this is no pod \
         with a service account; name a file with --kubeconfig or KUBECONFIG"
    )]
    NoCluster {
        /// The places where a kubeconfig was searched.
        looked: String,
    },
    /// A kubeconfig that cannot be used.
    #[error("kubeconfig {file}: {fault}")]
    Kubeconfig {
        /// The kubeconfig's path, or the way in which it was found.
        file: String,
        /// The fault.
        fault: String,
    },
    /// A context that the kubeconfig does not have.
    #[error("kubeconfig {file}: no context {context:?}; there is {known}")]
    UnknownContext {
        /// Path of the kubeconfig.
        file: String,
        /// The requested context.
        context: String,
        /// The names of the existing contexts.
        known: String,
    },
    /// No context was requested, and the kubeconfig has no current one.
    #[error("kubeconfig {file}: no current context; choose with --context: {known}")]
    NoContext {
        /// Path of the kubeconfig.
        file: String,
        /// The existing contexts.
        known: String,
    },
    /// A service account that cannot be used.
    #[error("service account of this pod: {0}")]
    ServiceAccount(String),
    /// No answer from the API server.
    #[error("cannot reach the API server of {cluster} at {address}: {cause}")]
    Unreachable {
        /// The cluster, by its context.
        cluster: String,
        /// Address of the API server.
        address: String,
        /// The cause.
        cause: String,
    },
    /// No client: credentials that cannot be read or obtained, or a proxy that cannot be used. The
    /// API server was not asked.
    #[error("cannot connect to {cluster}: {fault}")]
    NoClient {
        /// The cluster, by its context.
        cluster: String,
        /// The fault, and the credentials or the proxy that have it.
        fault: String,
    },
    /// Credentials that the API server does not accept (401).
    #[error("the API server of {cluster} does not accept these credentials, {which}: {message}")]
    Unauthorized {
        /// The cluster, by its context.
        cluster: String,
        /// The source of the credentials.
        which: String,
        /// The API server's words.
        message: String,
    },
    /// The API server wants credentials (401), and there are none.
    #[error(
        "the API server of {cluster} wants credentials, and its user has neither a token nor a \
         client certificate nor a command that gives one: {message}"
    )]
    Anonymous {
        /// The cluster, by its context.
        cluster: String,
        /// The API server's words.
        message: String,
    },
    /// An account that may not do this.
    #[error(
        "may not {verb} {} in {cluster}: {message}; add this rule to a {role} of the account: \
         {}", .resource.plural, .resource.rule()
    )]
    Forbidden {
        /// The cluster, by its context.
        cluster: String,
        /// `get`, `list` or `watch`.
        verb: &'static str,
        /// The kind of objects.
        resource: &'static ApiResource,
        /// `Role` or `ClusterRole`: the kind that grants the permission.
        role: &'static str,
        /// The API server's words.
        message: String,
    },
    /// A list or watch that is too old to continue (410).
    #[error("cannot continue to {verb} {} of {cluster}: {message}", .resource.plural)]
    Expired {
        /// The cluster, by its context.
        cluster: String,
        /// `list` or `watch`.
        verb: &'static str,
        /// The kind of objects.
        resource: &'static ApiResource,
        /// The API server's words.
        message: String,
    },
    /// The API server refused for another reason.
    #[error("cannot {verb} {} of {cluster}: {message} ({code})", .resource.plural)]
    Refused {
        /// The cluster, by its context.
        cluster: String,
        /// `get`, `list` or `watch`.
        verb: &'static str,
        /// The kind of objects.
        resource: &'static ApiResource,
        /// The API server's words.
        message: String,
        /// The HTTP status.
        code: u16,
    },
    /// The answer is not of the requested kind.
    #[error("cannot {verb} {} of {cluster}: {cause}", .resource.plural)]
    Unreadable {
        /// The cluster, by its context.
        cluster: String,
        /// `get`, `list` or `watch`.
        verb: &'static str,
        /// The kind of objects.
        resource: &'static ApiResource,
        /// The place of the fault, without the content there.
        cause: String,
    },
    /// A scheduler's configuration does not exist.
    #[error("{place}: {what}")]
    Configuration {
        /// The place where it was searched.
        place: String,
        /// The fault, such as a missing key.
        what: String,
    },
    /// An answer or an object that cannot be read.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

impl Error {
    /// Returns whether the API server refuses this to the account, or to every account.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Forbidden { .. } | Self::Refused { code: 404, .. }
        )
    }
}

impl ApiResource {
    /// The RBAC rule that grants the permission.
    fn rule(&self) -> String {
        format!(
            "{{apiGroups: [{:?}], resources: [{}], verbs: [get, list, watch]}}",
            self.group_and_version().0,
            self.plural
        )
    }
}

/// The reason why a feed begins again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The cluster cannot be found, or its default constraints cannot be read.
    #[error(transparent)]
    Cluster(#[from] Error),
    /// The server did not do a step.
    #[error("the snapshot cannot be fed: {0}")]
    Undone(#[from] Undone),
    /// The snapshot was deleted, or the server restarted.
    #[error("the snapshot has another history")]
    OtherHistory,
    /// The kubeconfig has another address for the cluster.
    #[error("the kubeconfig has another address for the cluster")]
    Moved,
    /// The lease was lost: another server feeds, or may.
    #[error("another server may feed now")]
    Superseded,
    /// A list of one kind has more differences than one batch may have.
    #[error("{0} {1} changed while the watch was broken")]
    TooManyChanges(usize, &'static str),
}

/// A request to an API server, for an error.
pub(super) struct ApiRequest<'a> {
    /// The cluster, by its context.
    pub(super) cluster: &'a str,
    /// Address of its API server.
    pub(super) address: &'a str,
    /// The credentials that were presented.
    pub(super) credentials: &'a Credentials,
    /// `get`, `list` or `watch`.
    pub(super) verb: &'static str,
    /// The kind that was asked for.
    pub(super) resource: &'static ApiResource,
    /// True if only one namespace was asked for.
    pub(super) in_namespace: bool,
}

impl ApiRequest<'_> {
    /// Returns the meaning of `error`.
    pub(super) fn failed(&self, error: &kube::Error) -> Error {
        if let Some(fault) = self.credentials.fault(error) {
            let cluster = self.cluster.to_owned();
            return Error::NoClient { cluster, fault };
        }
        match error {
            kube::Error::Api(status) => self.refused(status),
            // The error's own text may quote the content of the answer.
            kube::Error::SerdeError(error) => self.unreadable(format!(
                "its answer ends or is wrong at line {}, column {}",
                error.line(),
                error.column()
            )),
            kube::Error::FromUtf8(_) => self.unreadable("its answer is no text".to_owned()),
            error => Error::Unreachable {
                cluster: self.cluster.to_owned(),
                address: self.address.to_owned(),
                // The error's own text is that of its source after the name of a type.
                cause: causes(std::error::Error::source(error).unwrap_or(error)),
            },
        }
    }

    /// Returns the meaning of a refusal by the API server.
    pub(super) fn refused(&self, status: &kube::core::Status) -> Error {
        let Self { verb, resource, .. } = *self;
        let cluster = self.cluster.to_owned();
        let message = match status.message.as_str() {
            "" => &status.reason,
            message => message,
        };
        let message = message[..message.floor_char_boundary(MAX_MESSAGE_BYTES)].to_owned();
        match status.code {
            401 => self.unauthorized(message),
            403 => Error::Forbidden {
                cluster,
                verb,
                resource,
                role: match self.in_namespace {
                    true => "Role",
                    false => "ClusterRole",
                },
                message,
            },
            410 => Error::Expired {
                cluster,
                verb,
                resource,
                message,
            },
            code => Error::Refused {
                cluster,
                verb,
                resource,
                message,
                code,
            },
        }
    }

    fn unreadable(&self, cause: String) -> Error {
        Error::Unreadable {
            cluster: self.cluster.to_owned(),
            verb: self.verb,
            resource: self.resource,
            cause,
        }
    }

    fn unauthorized(&self, message: String) -> Error {
        let cluster = self.cluster.to_owned();
        match self.credentials.what.clone() {
            Some(which) => Error::Unauthorized {
                cluster,
                which,
                message,
            },
            None => Error::Anonymous { cluster, message },
        }
    }
}
