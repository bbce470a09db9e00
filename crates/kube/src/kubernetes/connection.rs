//! A client of a cluster's API server.

use kube::Client;
use kube::client::{Body, ClientBuilder, DynBody};
use tokio::time::sleep;
use tonic::codegen::http::{Request, Response};
use tower::layer::layer_fn;
use tower::{BoxError, service_fn};

use super::credentials::Credentials;
use super::error::{ApiRequest, Error};
use super::guard::{self, SentRequests};
use super::protobuf::Translating;
use super::pulse::Pulses;
use super::renewal::Renewing;
use super::resource::ApiResource;
use super::target::Target;

/// The purpose of a client, which decides what it reads of the objects that it lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
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
pub struct ClusterClient {
    pub(super) client: Client,
    /// The times when the client's watches were last heard.
    pub(super) pulses: Pulses,
    /// The context of the cluster; `in-cluster` for the cluster in which this pod runs.
    pub name: String,
    /// The target of the client, with the chosen context.
    pub(super) target: Target,
    address: String,
    credentials: Credentials,
    /// The part of the client that reads credentials again.
    pub(super) renewing: Renewing,
    /// The namespace of the context; `default` if it has none.
    pub namespace: String,
}

impl Target {
    /// Reads the kubeconfig and the credentials. No request is sent to the API server yet. Later,
    /// the files are read again when they change.
    ///
    /// # Errors
    /// The fault of the kubeconfig or the credentials, or that no cluster is known.
    pub async fn connect(self, reads: Reads) -> Result<ClusterClient, Error> {
        let mut access = self.read().await?;
        access.config.default_retry &= reads != Reads::Refusals;
        let pulses = Pulses::new();
        let address = access.config.cluster_url.to_string();
        let namespace = access.config.default_namespace.clone();
        let (name, target) = (access.name.clone(), access.target.clone());
        let credentials = access.credentials.clone();
        let renewing = Renewing::new(access)?;
        let way = (renewing.clone(), SentRequests::default(), pulses.clone());
        let way = service_fn(move |request| send(way.clone(), request));
        let client = ClientBuilder::new(way, namespace.clone());
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

/// Sends a request of a client within the bounds of `guard`, and tells `pulses` of its answer.
async fn send(
    (renewing, sent, pulses): (Renewing, SentRequests, Pulses),
    request: Request<Body>,
) -> Result<Response<Box<DynBody>>, BoxError> {
    let is_watch = guard::is_watch(request.uri());
    let place = pulses.asked(request.uri());
    sleep(sent.pause(request.uri())).await;
    let answer = renewing.send(request).await?;
    Ok(pulses.listen(place, guard::bounded(answer, is_watch)))
}

impl ClusterClient {
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
