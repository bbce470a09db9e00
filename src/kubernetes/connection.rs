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

/// What a client reads of the objects that it lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// All of their text.
    WholeObjects,
    /// What decisions read, which it watches too.
    Decisions,
    /// Nothing but which pods there are: it evicts some. A refusal is told at once,
    /// where others repeat first what is refused for now.
    Refusals,
}

/// A cluster, with a client of its API server.
#[derive(Clone)]
pub(crate) struct ClusterClient {
    /// The client of its API server.
    pub(super) client: Client,
    /// When its watches were last heard.
    pub(super) pulses: Pulses,
    /// The context that it comes from; `in-cluster` for the one around this pod.
    pub(crate) name: String,
    /// What was meant, with the context that it is.
    pub(super) target: Target,
    address: String,
    credentials: Credentials,
    renewing: Renewing,
    /// The namespace of the context; `default` when it has none.
    pub(crate) namespace: String,
}

impl Target {
    /// Reads the kubeconfig and the credentials. Nothing is asked of the API server
    /// yet. From then on they are read again when their files change.
    ///
    /// # Errors
    /// What is wrong with the kubeconfig or the credentials, or that there is none.
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
    /// Waits until the kubeconfig has another address for this cluster, if it ever has.
    pub(super) async fn moved(&self) {
        self.renewing.moved().await;
    }

    /// A question to its API server, for an error.
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
