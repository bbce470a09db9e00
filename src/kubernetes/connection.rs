//! A client of a cluster's API server.

use kube::Client;
use kube::client::ClientBuilder;
use tower::layer::layer_fn;

use super::credentials::Credentials;
use super::error::{ApiRequest, Error};
use super::guard::{Guarding, SentRequests};
use super::protobuf::Translating;
use super::pulse::{Listening, Pulses};
use super::renewal::Renewing;
use super::resource::ApiResource;
use super::target::Target;

/// The purpose of a client, which decides what it reads of the objects that it lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// The client reads whole objects.
    WholeObjects,
    /// The client reads the fields that decisions read. It also watches objects.
    Decisions,
    /// The client changes pods and reads little. It reports refusals at once, while other clients
    /// first repeat calls that are refused temporarily.
    Refusals,
}

/// A cluster, with a client of its API server.
#[derive(Clone)]
pub(crate) struct ClusterClient {
    /// The client of the API server.
    pub(super) client: Client,
    /// The times when the client's watches were last heard.
    pub(super) pulses: Pulses,
    /// The context of the cluster; `in-cluster` for the cluster in which this pod runs.
    pub(crate) name: String,
    /// The target of the client, with the chosen context.
    pub(super) target: Target,
    address: String,
    credentials: Credentials,
    renewing: Renewing,
    /// The namespace of the context; `default` if it has none.
    pub(crate) namespace: String,
}

impl Target {
    /// Reads the kubeconfig and the credentials. No request is sent to the API server yet. Later,
    /// the files are read again when they change.
    ///
    /// # Errors
    /// The fault of the kubeconfig or the credentials, or that no cluster is known.
    pub(crate) async fn connect(self, reads: Reads) -> Result<ClusterClient, Error> {
        let mut access = self.read().await?;
        access.config.default_retry &= reads != Reads::Refusals;
        let pulses = Pulses::new(ApiResource::read_by_decisions());
        let address = access.config.cluster_url.to_string();
        let namespace = access.config.default_namespace.clone();
        let (name, target) = (access.name.clone(), access.target.clone());
        let credentials = access.credentials.clone();
        let renewing = Renewing::new(access)?;
        let sent = SentRequests::default();
        let client = ClientBuilder::new(renewing.clone(), namespace.clone());
        let client = client.with_layer(&layer_fn(|inner| Guarding {
            inner,
            sent: sent.clone(),
        }));
        let client = client.with_layer(&layer_fn(|inner| Listening {
            inner,
            pulses: pulses.clone(),
        }));
        Ok(ClusterClient {
            client: match reads {
                Reads::WholeObjects | Reads::Refusals => client.build(),
                Reads::Decisions => client.with_layer(&layer_fn(Translating)).build(),
            },
            pulses,
            name,
            target,
            address: address.trim_end_matches('/').to_owned(),
            credentials,
            renewing,
            namespace,
        })
    }
}

impl ClusterClient {
    /// Waits until the kubeconfig has another address for this cluster, which may never happen.
    pub(super) async fn moved(&self) {
        self.renewing.moved().await;
    }

    /// Describes a request to the cluster's API server, for an error.
    pub(super) fn asked(
        &self,
        verb: &'static str,
        resource: &'static ApiResource,
        in_namespace: bool,
    ) -> ApiRequest<'_> {
        ApiRequest {
            cluster: &self.name,
            address: &self.address,
            credentials: &self.credentials,
            verb,
            resource,
            in_namespace,
        }
    }
}
