//! Writes deletion costs of pods. These and evictions are the only changes that Evenkeel makes to a
//! cluster, and only if the user asks for them.

use serde_json::{Value, json};
use tonic::codegen::http::Request;
use tonic::codegen::http::header::CONTENT_TYPE;

use super::connection::ClusterClient;
use super::error::Error;
use super::listing::ObjectSelection;
use super::resource::ApiResource;
use crate::manifest::ManifestError;
use evenkeel_core::snapshot::ObjectKind;

/// The annotation that a ReplicaSet reads.
const ANNOTATION: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The field manager: the name that the API server records as the owner of the field.
const MANAGER: &str = "evenkeel-deletion-costs";

/// The present deletion cost of a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeletionCost {
    /// The cost; `None` if the pod has none or it is no number.
    pub value: Option<i32>,
    /// True if another field manager wrote the cost.
    pub is_foreign: bool,
}

/// The result of writing a deletion cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostWrite {
    /// The pod has the cost, or in a dry run would have it.
    Written,
    /// Another field manager has written a cost, or another pod has the name now.
    Kept,
    /// The pod does not exist any more.
    Gone,
}

impl DeletionCost {
    fn of(pod: &Value) -> Self {
        let metadata = &pod["metadata"];
        let Some(value) = metadata["annotations"][ANNOTATION].as_str() else {
            return Self::default();
        };
        let mut managers = metadata["managedFields"].as_array().into_iter().flatten();
        let own = format!("f:{ANNOTATION}");
        let is_own = managers.any(|it| {
            let fields = &it["fieldsV1"]["f:metadata"]["f:annotations"];
            it["manager"] == MANAGER && !fields[&own].is_null()
        });
        Self {
            value: value.parse().ok(),
            is_foreign: !is_own,
        }
    }
}

impl ClusterClient {
    /// The deletion costs of the pods of a namespace, by uid.
    ///
    /// # Errors
    /// The reason why they could not be listed.
    pub async fn deletion_costs(
        &self,
        namespace: &str,
    ) -> Result<Vec<(String, DeletionCost)>, Error> {
        let read = |costs: &mut Vec<_>, text: String| -> Result<(), ManifestError> {
            let page: Result<Value, _> = serde_json::from_str(&text);
            let page = page.map_err(|error| self.source().not_json(&error))?;
            for pod in page["items"].as_array().into_iter().flatten() {
                let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
                costs.push((uid.to_owned(), DeletionCost::of(pod)));
            }
            Ok(())
        };
        let pods = ObjectSelection {
            resource: ApiResource::of(ObjectKind::Pod),
            namespace: Some(namespace),
            labels: "",
            fields: "",
        };
        self.list(pods, &mut |_| (), Vec::new, read).await
    }

    /// Sets the deletion cost of the pod with this namespace, name and uid by server-side apply,
    /// unless another field manager has written one. A dry run changes nothing.
    ///
    /// # Errors
    /// The reason why the request failed.
    pub async fn write_deletion_cost(
        &self,
        (namespace, name, uid): (&str, &str, &str),
        cost: i32,
        is_dry_run: bool,
    ) -> Result<CostWrite, Error> {
        let pods = ApiResource::of(ObjectKind::Pod);
        let dry_run = if is_dry_run { "&dryRun=All" } else { "" };
        let path = pods.path(Some(namespace));
        let path = format!("{path}/{name}?fieldManager={MANAGER}&force=false{dry_run}");
        // Because of the uid, the API server does not create the pod if it does not exist.
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": namespace, "uid": uid,
                "annotations": { ANNOTATION: cost.to_string() },
            },
        });
        let request = Request::patch(path).header(CONTENT_TYPE, "application/apply-patch+yaml");
        let request = request.body(pod.to_string().into_bytes());
        let request = request.expect("names of objects make an address");
        match self.client.request_text(request).await {
            Ok(_) => Ok(CostWrite::Written),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(CostWrite::Kept),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(CostWrite::Gone),
            Err(error) => Err(self.asked("patch", pods, true).failed(&error)),
        }
    }
}
