//! Evicts pods. Evictions are the only changes that Evenkeel makes to a cluster, and only if the user
//! asks for them.

use serde_json::json;
use tonic::codegen::http::Request;
use tonic::codegen::http::header::CONTENT_TYPE;

use super::connection::ClusterClient;
use super::error::Error;
use crate::manifest::{ApiResource, EVICTIONS};
use evenkeel_core::snapshot::ObjectKind;

/// The result of an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Eviction {
    /// The pod is being removed, or in a dry run would be.
    Accepted,
    /// The pod does not exist any more.
    Gone,
    /// A budget does not allow the eviction at present. The text is the API server's message.
    NotNow(String),
}

impl ClusterClient {
    /// Evicts a pod by the Eviction API, which respects budgets. The pod must have this uid, unless
    /// the uid is empty. A dry run changes nothing.
    ///
    /// # Errors
    /// The reason why the request failed.
    pub async fn evict(
        &self,
        (namespace, name): (&str, &str),
        uid: &str,
        is_dry_run: bool,
    ) -> Result<Eviction, Error> {
        let pods = ApiResource::of(ObjectKind::Pod);
        let dry_run = if is_dry_run { "?dryRun=All" } else { "" };
        let path = format!("{}/{name}/eviction{dry_run}", pods.path(Some(namespace)));
        let mut eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": { "name": name, "namespace": namespace },
        });
        if !uid.is_empty() {
            eviction["deleteOptions"] = json!({ "preconditions": { "uid": uid } });
        }
        let request = Request::post(path).header(CONTENT_TYPE, "application/json");
        let request = request.body(eviction.to_string().into_bytes());
        let request = request.expect("names of objects make an address");
        let answer = self.client.request_text(request).await;
        match answer {
            Ok(_) => Ok(Eviction::Accepted),
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {
                Ok(Eviction::Gone)
            }
            Err(kube::Error::Api(status)) if status.code == 429 => {
                Ok(Eviction::NotNow(status.message.clone()))
            }
            Err(error) => Err(self.asked("create", &EVICTIONS, true).failed(&error)),
        }
    }
}
