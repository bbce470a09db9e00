//! A small cluster with pods that are pending, as a file and behind an API server.

use serde_json::Value;

use crate::cli::api_server::ApiServer;
use crate::cli::evenkeel::Workspace;

fn list() -> Value {
    serde_saphyr::from_str(include_str!("shop.yaml")).expect("it is YAML")
}

pub(crate) fn objects() -> Vec<Value> {
    list()["items"].as_array().expect("a list").clone()
}

/// A workspace with the objects as a file, and a kubeconfig of an API server that has them.
pub(crate) fn workspace() -> Workspace {
    let api = ApiServer::holding(objects());
    Workspace::new()
        .file("cluster.json", &list().to_string())
        .file("kube.yaml", &api.config("shop"))
}

pub(crate) const CLUSTER: &str = "--kubeconfig kube.yaml";
