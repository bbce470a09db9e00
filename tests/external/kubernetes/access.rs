//! An account that may not read everything.

use serde_json::json;

use crate::kubernetes::api::{Api, path};
use crate::kubernetes::control_plane::turn;
use crate::kubernetes::evenkeel::Evenkeel;
use crate::kubernetes::filled::fill;
use crate::kubernetes::http;
use crate::kubernetes::process::until;
use crate::kubernetes::witness::everybody;

/// Grants the user `reader` the rights of the chart, those on pods only if `pods`.
async fn grant(api: &Api, pods: bool) {
    let mut core = vec!["nodes", "namespaces", "services", "replicationcontrollers"];
    core.extend(pods.then_some("pods"));
    let verbs = ["get", "list", "watch"];
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "reader" },
        "rules": [
            { "apiGroups": [""], "resources": core, "verbs": verbs },
            { "apiGroups": ["apps"], "resources": ["replicasets", "statefulsets"], "verbs": verbs },
            { "apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": verbs },
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": "reader" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader" }],
    });
    for object in [role, binding] {
        let kind = object["kind"].as_str().expect("a kind");
        api.delete(&path(kind, "", "reader"), 0).await;
        api.create(&object).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: deploy/tools.sh install_control_plane"]
async fn an_account_that_may_not_list_pods() {
    let plane = turn().await;
    let api = Api::connect(&plane.kubeconfig()).await;
    fill(&api).await;
    grant(&api, false).await;
    let kubeconfig = plane.kubeconfig_for(&json!({ "token": "reader" }));
    let mut evenkeel = Evenkeel::start(&kubeconfig, &["--admin-listen", "127.0.0.1:0"]);
    let admin = evenkeel.server.logged("admin listening", "address");
    let page = until("the refusal is told", || {
        let page = http::get(&admin, "/readyz");
        page.body.contains("pods").then_some(page)
    });
    assert_eq!(page.status, 503, "{page:?}");
    for word in ["list", "pods", "default"] {
        assert!(page.body.contains(word), "no {word}: {page:?}");
    }
    let early = evenkeel.filter(&everybody()).await;
    assert!(early.is_err(), "an answer without pods");
    grant(&api, true).await;
    evenkeel.agrees_with(&api).await;
    until("it becomes ready", || {
        (http::get(&admin, "/readyz").status == 200).then_some(())
    });
    api.clear().await;
}
