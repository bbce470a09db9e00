//! What can be wrong with a cluster, in words that say what to do about it.

use super::credentials::Credentials;
use super::resource::ApiResource;
use super::sink::Undone;
use crate::manifest::ManifestError;
use crate::visible::causes;

/// How much is told of what an API server says of a refusal.
const MAX_MESSAGE_BYTES: usize = 1 << 10;

/// Why a cluster could not be found, reached or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Nothing says which cluster.
    #[error(
        "no Kubernetes cluster is known: there is no kubeconfig at {looked}, and this is no pod \
         with a service account; name a file with --kubeconfig or KUBECONFIG"
    )]
    NoCluster {
        /// Where a kubeconfig was looked for.
        looked: String,
    },
    /// A kubeconfig that cannot be used.
    #[error("kubeconfig {file}: {fault}")]
    Kubeconfig {
        /// Its path, or how it was found.
        file: String,
        /// What is wrong with it.
        fault: String,
    },
    /// A context that the kubeconfig does not have.
    #[error("kubeconfig {file}: no context {context:?}; there is {known}")]
    UnknownContext {
        /// Path of the kubeconfig.
        file: String,
        /// The context that was asked for.
        context: String,
        /// Those that there are.
        known: String,
    },
    /// No context was asked for, and the kubeconfig has no current one.
    #[error("kubeconfig {file}: no current context; choose with --context: {known}")]
    NoContext {
        /// Path of the kubeconfig.
        file: String,
        /// The contexts that there are.
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
        /// What went wrong.
        cause: String,
    },
    /// Nothing to connect with: credentials that cannot be read or got, or a proxy that
    /// cannot be used. The API server was not asked.
    #[error("cannot connect to {cluster}: {fault}")]
    NoClient {
        /// The cluster, by its context.
        cluster: String,
        /// What is wrong with which of them.
        fault: String,
    },
    /// Credentials that the API server does not accept (401).
    #[error("the API server of {cluster} does not accept these credentials, {which}: {message}")]
    Unauthorized {
        /// The cluster, by its context.
        cluster: String,
        /// Where they are from.
        which: String,
        /// The API server's words.
        message: String,
    },
    /// It wants credentials (401), and there are none.
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
        /// What it is about.
        resource: &'static ApiResource,
        /// `Role` or `ClusterRole`: which of them grants it.
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
        /// What it is about.
        resource: &'static ApiResource,
        /// The API server's words.
        message: String,
    },
    /// Refused for another reason.
    #[error("cannot {verb} {} of {cluster}: {message} ({code})", .resource.plural)]
    Refused {
        /// The cluster, by its context.
        cluster: String,
        /// `get`, `list` or `watch`.
        verb: &'static str,
        /// What it is about.
        resource: &'static ApiResource,
        /// The API server's words.
        message: String,
        /// Its HTTP status.
        code: u16,
    },
    /// An answer that is not what was asked for.
    #[error("cannot {verb} {} of {cluster}: {cause}", .resource.plural)]
    Unreadable {
        /// The cluster, by its context.
        cluster: String,
        /// `get`, `list` or `watch`.
        verb: &'static str,
        /// What it is about.
        resource: &'static ApiResource,
        /// Where it is wrong, without what stands there.
        cause: String,
    },
    /// A scheduler's configuration that is not there.
    #[error("{place}: {what}")]
    Configuration {
        /// Where it was looked for.
        place: String,
        /// What is missing.
        what: String,
    },
    /// An answer or an object that cannot be read.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

impl Error {
    /// Returns whether the API server does not give this to this account, or to anybody.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Forbidden { .. } | Self::Refused { code: 404, .. }
        )
    }
}

impl ApiResource {
    /// The RBAC rule that allows to read it.
    fn rule(&self) -> String {
        format!(
            "{{apiGroups: [{:?}], resources: [{}], verbs: [get, list, watch]}}",
            self.group_and_version().0,
            self.plural
        )
    }
}

/// Why a feed begins anew.
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
    /// A list of one kind differs in more than goes into one batch.
    #[error("{0} {1} changed while the watch was broken")]
    TooManyChanges(usize, &'static str),
}

/// What was asked of an API server, for an error.
pub(super) struct ApiRequest<'a> {
    /// The cluster, by its context.
    pub(super) cluster: &'a str,
    /// Address of its API server.
    pub(super) address: &'a str,
    /// What was presented.
    pub(super) credentials: &'a Credentials,
    /// `get`, `list` or `watch`.
    pub(super) verb: &'static str,
    /// What was asked for.
    pub(super) resource: &'static ApiResource,
    /// Whether only of one namespace.
    pub(super) in_namespace: bool,
}

impl ApiRequest<'_> {
    /// Returns what `error` means.
    pub(super) fn failed(&self, error: &kube::Error) -> Error {
        if let Some(fault) = self.credentials.fault(error) {
            let cluster = self.cluster.to_owned();
            return Error::NoClient { cluster, fault };
        }
        match error {
            kube::Error::Api(status) => self.refused(status),
            // Its words may quote what the answer holds.
            kube::Error::SerdeError(error) => self.unreadable(format!(
                "its answer ends or is wrong at line {}, column {}",
                error.line(),
                error.column()
            )),
            kube::Error::FromUtf8(_) => self.unreadable("its answer is no text".to_owned()),
            error => Error::Unreachable {
                cluster: self.cluster.to_owned(),
                address: self.address.to_owned(),
                // Its own words are those of its source with a type's name before them.
                cause: causes(std::error::Error::source(error).unwrap_or(error)),
            },
        }
    }

    /// Returns what a refusal by the API server means.
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
