//! Requests to the API server, with objects as plain JSON.

use std::path::Path;

use futures::{StreamExt, stream};
use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

/// The kinds that the server under test watches.
pub(crate) const KINDS: [&str; 11] = [
    "Node",
    "Namespace",
    "Pod",
    "Service",
    "ReplicationController",
    "ReplicaSet",
    "StatefulSet",
    "PodDisruptionBudget",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
];

/// Kinds that make pods and are not watched.
const MAKERS: [&str; 4] = ["Deployment", "DaemonSet", "CronJob", "Job"];

/// Requests under way at a time.
const AT_ONCE: usize = 16;

/// An administrator's client.
pub(crate) struct Api(kube::Client);

impl Api {
    /// A client for this task's runtime.
    pub(crate) async fn connect(kubeconfig: &Path) -> Self {
        let file = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
        let current = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(file, &current).await;
        let config = config.expect("a whole kubeconfig");
        Self(kube::Client::try_from(config).expect("a client"))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        mime: &str,
        body: &Value,
    ) -> Result<Value, kube::Error> {
        let body = match body {
            Value::Null => Vec::new(),
            body => serde_json::to_vec(body).expect("JSON"),
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", mime)
            .body(body)
            .expect("a request");
        self.0.request(request).await
    }

    /// Creates an object, in a namespace or in none. Fails unless it is accepted.
    pub(crate) async fn create(&self, object: &Value) -> Value {
        self.post(&collection_of(object), object).await
    }

    /// Returns the object that creating would store, with all that admission fills in.
    pub(crate) async fn admitted(&self, object: &Value) -> Value {
        let path = format!("{}?dryRun=All", collection_of(object));
        self.post(&path, object).await
    }

    /// Posts an object to a path. Fails unless it is accepted.
    pub(crate) async fn post(&self, path: &str, object: &Value) -> Value {
        let made = self
            .send(Method::POST, path, "application/json", object)
            .await;
        made.unwrap_or_else(|error| panic!("POST {path}: {error}\n{object}"))
    }

    /// Reads an object; `None` if it does not exist.
    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        present(
            self.send(Method::GET, path, "application/json", &json!(null))
                .await,
        )
    }

    /// Changes an object by a merge patch; `None` if it does not exist.
    pub(crate) async fn patch(&self, path: &str, patch: &Value) -> Option<Value> {
        let mime = "application/merge-patch+json";
        present(self.send(Method::PATCH, path, mime, patch).await)
    }

    /// Deletes an object after these seconds; `None` if it does not exist.
    pub(crate) async fn delete(&self, path: &str, grace_seconds: u32) -> Option<Value> {
        let options = json!({ "gracePeriodSeconds": grace_seconds });
        present(
            self.send(Method::DELETE, path, "application/json", &options)
                .await,
        )
    }

    /// All objects of a kind.
    pub(crate) async fn list(&self, kind: &str) -> Vec<Value> {
        self.list_at(&all(kind)).await
    }

    /// The objects of a kind that a field selector selects.
    pub(crate) async fn list_where(&self, kind: &str, selector: &str) -> Vec<Value> {
        let path = format!("{}?fieldSelector={selector}", all(kind));
        self.list_at(&path).await
    }

    async fn list_at(&self, path: &str) -> Vec<Value> {
        let mut list = self.get(path).await.expect("the kind is known");
        serde_json::from_value(list["items"].take()).expect("a list")
    }

    /// Creates objects, several at a time.
    pub(crate) async fn create_all(&self, objects: impl Iterator<Item = Value>) {
        let create = |object: Value| async move { drop(self.create(&object).await) };
        stream::iter(objects)
            .for_each_concurrent(AT_ONCE, create)
            .await;
    }

    /// Removes the finalizers of an object, for which no controller runs here.
    pub(crate) async fn release(&self, kind: &str, object: &Value) {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
        let none = json!({ "metadata": { "finalizers": null } });
        let path = path(kind, text("namespace"), text("name"));
        self.patch(&path, &none).await;
    }

    /// Deletes all objects of the kinds that are watched or make pods, except namespaces, whose
    /// deletion no controller finishes here.
    pub(crate) async fn clear(&self) {
        let mut paths = Vec::new();
        let kinds = KINDS.into_iter().filter(|kind| *kind != "Namespace");
        for kind in MAKERS.into_iter().chain(kinds) {
            let objects = self.list(kind).await;
            for pod in objects
                .iter()
                .filter(|it| !it["metadata"]["finalizers"].is_null())
            {
                self.release(kind, pod).await;
            }
            let objects = objects.into_iter();
            paths.extend(objects.map(|object| {
                let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
                path(kind, text("namespace"), text("name"))
            }));
        }
        // The API server makes its own Service again at once.
        paths.retain(|path| !path.ends_with("/services/kubernetes"));
        let delete = |path: String| async move { drop(self.delete(&path, 0).await) };
        stream::iter(paths)
            .for_each_concurrent(AT_ONCE, delete)
            .await;
    }
}

/// `None` for an object that does not exist. Fails on any other refusal.
fn present(answer: Result<Value, kube::Error>) -> Option<Value> {
    match answer {
        Ok(object) => Some(object),
        Err(kube::Error::Api(status)) if status.is_not_found() => None,
        Err(error) => panic!("{error}"),
    }
}

fn collection_of(object: &Value) -> String {
    let kind = object["kind"].as_str().expect("a kind");
    let namespace = object["metadata"]["namespace"].as_str();
    collection(kind, namespace.unwrap_or_default())
}

/// The path of the collection of a kind in a namespace; `""` is for kinds without.
pub(crate) fn collection(kind: &str, namespace: &str) -> String {
    let (group, plural) = match kind {
        "ReplicaSet" => ("apis/apps/v1", "replicasets"),
        "StatefulSet" => ("apis/apps/v1", "statefulsets"),
        "Deployment" => ("apis/apps/v1", "deployments"),
        "DaemonSet" => ("apis/apps/v1", "daemonsets"),
        "Job" => ("apis/batch/v1", "jobs"),
        "CronJob" => ("apis/batch/v1", "cronjobs"),
        "PriorityClass" => ("apis/scheduling.k8s.io/v1", "priorityclasses"),
        "ClusterRole" => ("apis/rbac.authorization.k8s.io/v1", "clusterroles"),
        "ClusterRoleBinding" => ("apis/rbac.authorization.k8s.io/v1", "clusterrolebindings"),
        "LimitRange" => ("api/v1", "limitranges"),
        "Namespace" => ("api/v1", "namespaces"),
        "PodDisruptionBudget" => ("apis/policy/v1", "poddisruptionbudgets"),
        "Node" => ("api/v1", "nodes"),
        "PersistentVolume" => ("api/v1", "persistentvolumes"),
        "PersistentVolumeClaim" => ("api/v1", "persistentvolumeclaims"),
        "Pod" => ("api/v1", "pods"),
        "StorageClass" => ("apis/storage.k8s.io/v1", "storageclasses"),
        "RuntimeClass" => ("apis/node.k8s.io/v1", "runtimeclasses"),
        "Service" => ("api/v1", "services"),
        "ReplicationController" => ("api/v1", "replicationcontrollers"),
        other => panic!("{other}?"),
    };
    match namespace {
        "" => format!("/{group}/{plural}"),
        _ => format!("/{group}/namespaces/{namespace}/{plural}"),
    }
}

/// The path of all objects of a kind, in all namespaces.
pub(crate) fn all(kind: &str) -> String {
    collection(kind, "")
}

/// The path of an object.
pub(crate) fn path(kind: &str, namespace: &str, name: &str) -> String {
    format!("{}/{name}", collection(kind, namespace))
}
