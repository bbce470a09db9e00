//! Errors of clusters, with messages that say how to fix them.

use super::credentials::Credentials;
use super::resource::ApiResource;
use super::sink::Undone;
use crate::manifest::ManifestError;
use evenkeel_log::visible::causes;

/// The most bytes of an API server's message that are shown.
const MAX_MESSAGE_BYTES: usize = 1 << 10;

/// The reason why a cluster could not be found, reached or read.
///
/// A `file` is the path of a kubeconfig, or the way in which it was found. A `cluster` is named by
/// its context, a `verb` is one of RBAC, such as `list`, a `resource` is that of the objects in
/// question, and a `message` is one of the API server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No kubeconfig or service account names a cluster.
    #[error(
        "no Kubernetes cluster is known: there is no kubeconfig at {looked}, and this is no pod \
         with a service account; name a file with --kubeconfig or KUBECONFIG"
    )]
    NoCluster {
        /// The places where a kubeconfig was searched.
        looked: String,
    },
    /// A kubeconfig cannot be used.
    #[error("kubeconfig {file}: {fault}")]
    Kubeconfig {
        /// The path of the kubeconfig.
        file: String,
        /// The fault.
        fault: String,
    },
    /// The kubeconfig does not have the requested context.
    #[error("kubeconfig {file}: no context {context:?}; there is {known}")]
    UnknownContext {
        /// The path of the kubeconfig.
        file: String,
        /// The requested context.
        context: String,
        /// The names of the existing contexts.
        known: String,
    },
    /// No context was requested, and the kubeconfig has no current one.
    #[error("kubeconfig {file}: no current context; choose with --context: {known}")]
    NoContext {
        /// The path of the kubeconfig.
        file: String,
        /// The names of the existing contexts.
        known: String,
    },
    /// The service account cannot be used.
    #[error("service account of this pod: {0}")]
    ServiceAccount(String),
    /// The API server did not answer.
    #[error("cannot reach the API server of {cluster} at {address}: {cause}")]
    Unreachable {
        /// The context or the address of the cluster.
        cluster: String,
        /// The address of the API server.
        address: String,
        /// The cause.
        cause: String,
    },
    /// No client can be built, because credentials cannot be read or obtained, or a proxy cannot be
    /// used. No request was sent.
    #[error("cannot connect to {cluster}: {fault}")]
    NoClient {
        /// The context or the address of the cluster.
        cluster: String,
        /// The fault, and the credentials or the proxy that have it.
        fault: String,
    },
    /// The API server does not accept the credentials (401).
    #[error("the API server of {cluster} does not accept these credentials, {which}: {message}")]
    Unauthorized {
        /// The context or the address of the cluster.
        cluster: String,
        /// The source of the credentials.
        which: String,
        /// The message of the API server.
        message: String,
    },
    /// The API server requires credentials (401), and there are none.
    #[error(
        "the API server of {cluster} wants credentials, and its user has neither a token nor a \
         client certificate nor a command that gives one: {message}"
    )]
    Anonymous {
        /// The context or the address of the cluster.
        cluster: String,
        /// The message of the API server.
        message: String,
    },
    /// The account does not have the permission (403).
    #[error(
        "may not {verb} {} in {cluster}: {message}; add this rule to a {role} of the account: \
         {}", .resource.plural, .resource.rule(verb)
    )]
    Forbidden {
        /// The context or the address of the cluster.
        cluster: String,
        /// The verb of RBAC.
        verb: &'static str,
        /// The resource.
        resource: &'static ApiResource,
        /// `Role` or `ClusterRole`: the kind that grants the permission.
        role: &'static str,
        /// The message of the API server.
        message: String,
    },
    /// A list or watch is too old to continue (410).
    #[error("cannot continue to {verb} {} of {cluster}: {message}", .resource.plural)]
    Expired {
        /// The context or the address of the cluster.
        cluster: String,
        /// The verb of RBAC.
        verb: &'static str,
        /// The resource.
        resource: &'static ApiResource,
        /// The message of the API server.
        message: String,
    },
    /// The API server refused for another reason.
    #[error("cannot {verb} {} of {cluster}: {message} ({code})", .resource.plural)]
    Refused {
        /// The context or the address of the cluster.
        cluster: String,
        /// The verb of RBAC.
        verb: &'static str,
        /// The resource.
        resource: &'static ApiResource,
        /// The message of the API server.
        message: String,
        /// The HTTP status.
        code: u16,
    },
    /// The answer cannot be decoded.
    #[error("cannot {verb} {} of {cluster}: {cause}", .resource.plural)]
    Unreadable {
        /// The context or the address of the cluster.
        cluster: String,
        /// The verb of RBAC.
        verb: &'static str,
        /// The resource.
        resource: &'static ApiResource,
        /// The place of the fault, without content of the answer.
        cause: String,
    },
    /// A scheduler's configuration, or its key, does not exist.
    #[error("{place}: {what}")]
    Configuration {
        /// The place where it was expected.
        place: String,
        /// The fault, such as a missing key.
        what: String,
    },
    /// An answer or an object cannot be read.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

impl Error {
    /// Returns whether the API server gave no answer, or one that says nothing of the request: it
    /// may answer later.
    pub fn is_away(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Unreadable { .. } => true,
            Self::Refused { code, .. } => *code >= 500,
            _ => false,
        }
    }

    /// Returns whether the account lacks the permission, or the API server does not have the
    /// resource.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Forbidden { .. } | Self::Refused { code: 404, .. }
        )
    }
}

impl ApiResource {
    /// The RBAC rule that grants the permission for this resource.
    fn rule(&self, verb: &str) -> String {
        let verbs = match verb {
            "get" | "list" | "watch" => "get, list, watch",
            other => other,
        };
        format!(
            "{{apiGroups: [{:?}], resources: [{}], verbs: [{verbs}]}}",
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
    /// The server did not complete a step.
    #[error("the snapshot cannot be fed: {0}")]
    Undone(#[from] Undone),
    /// The snapshot was deleted, or the server has lost what it acknowledged.
    #[error("the snapshot has another history")]
    OtherHistory,
    /// The snapshot is fed from another cluster.
    #[error(
        "it is fed from the cluster {fed_from}, not from {own}: feed another snapshot, give the \
         servers another --fleet, or delete the snapshot first"
    )]
    OtherCluster {
        /// The uid of `kube-system` in the cluster of the snapshot.
        fed_from: String,
        /// The name and the uid of this cluster.
        own: String,
    },
    /// The kubeconfig has another address for the cluster.
    #[error("the kubeconfig has another address for the cluster")]
    Moved,
    /// The lease was lost, so another server may feed now.
    #[error("another server may feed now")]
    Superseded,
    /// A list of one kind has more differences than a batch may have changes.
    #[error("{0} {1} changed while the watch was broken")]
    TooManyChanges(usize, &'static str),
}

/// The description of a request to an API server, for an [`Error`].
pub(super) struct ApiRequest<'a> {
    pub(super) cluster: &'a str,
    pub(super) address: &'a str,
    /// The credentials that were presented.
    pub(super) credentials: &'a Credentials,
    pub(super) verb: &'static str,
    pub(super) resource: &'static ApiResource,
    /// True if the request is for only one namespace.
    pub(super) in_namespace: bool,
}

impl ApiRequest<'_> {
    /// Returns the error of this request for `error` of the client.
    pub(super) fn failed(&self, error: &kube::Error) -> Error {
        if let Some(fault) = self.credentials.fault(error) {
            let cluster = self.cluster.to_owned();
            return Error::NoClient { cluster, fault };
        }
        match error {
            kube::Error::Api(status) => self.refused(status),
            // The text of the error itself is not used, because it may quote the answer.
            kube::Error::SerdeError(error) => self.unreadable(format!(
                "its answer ends or is wrong at line {}, column {}",
                error.line(),
                error.column()
            )),
            kube::Error::FromUtf8(_) => self.unreadable("its answer is no text".to_owned()),
            error => Error::Unreachable {
                cluster: self.cluster.to_owned(),
                address: self.address.to_owned(),
                // The text of the error is the name of a type and the text of its source, so only
                // the source is used.
                cause: causes(std::error::Error::source(error).unwrap_or(error)),
            },
        }
    }

    /// Returns the error of this request for a refusal by the API server.
    pub(super) fn refused(&self, status: &kube::core::Status) -> Error {
        let Self { verb, resource, .. } = *self;
        let cluster = self.cluster.to_owned();
        let message = match status.message.as_str() {
            "" => &status.reason,
            message => message,
        };
        let message = message[..message.floor_char_boundary(MAX_MESSAGE_BYTES)].to_owned();
        match status.code {
            401 => match self.credentials.what.clone() {
                Some(which) => Error::Unauthorized {
                    cluster,
                    which,
                    message,
                },
                None => Error::Anonymous { cluster, message },
            },
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
}
