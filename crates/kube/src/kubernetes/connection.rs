//! A client of a cluster's API server.

use kube::Client;
use kube::client::{Body, ClientBuilder, DynBody};
use tonic::codegen::http::{Request, Response};
use tower::{BoxError, service_fn};

use super::credentials::Credentials;
use super::error::{ApiRequest, Error};
use super::pulse::Pulses;
use super::renewal::Renewing;
use super::resource::ApiResource;
use super::target::Target;

/// What a client does when an API server refuses a call temporarily.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnRefusal {
    /// The client repeats the call a few times.
    Retry,
    /// The client reports the refusal at once.
    Report,
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
    pub async fn connect(self, on_refusal: OnRefusal) -> Result<ClusterClient, Error> {
        let mut access = self.read().await?;
        access.config.default_retry &= on_refusal == OnRefusal::Retry;
        let pulses = Pulses::new();
        let address = access.config.cluster_url.to_string();
        let namespace = access.config.default_namespace.clone();
        let (name, target) = (access.name.clone(), access.target.clone());
        let credentials = access.credentials.clone();
        let renewing = Renewing::new(access)?;
        let (sender, heard) = (renewing.clone(), pulses.clone());
        let way = service_fn(move |request| send(sender.clone(), heard.clone(), request));
        Ok(ClusterClient {
            client: ClientBuilder::new(way, namespace.clone()).build(),
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

/// Sends a request of a client, and tells `pulses` of its answer.
async fn send(
    renewing: Renewing,
    pulses: Pulses,
    request: Request<Body>,
) -> Result<Response<Box<DynBody>>, BoxError> {
    let place = pulses.asked(request.uri());
    let answer = renewing.send(request).await?;
    Ok(pulses.listen(place, answer))
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
