//! Credentials that expire, and an account that may not read everything.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kubernetes::api::{Api, path};
use crate::kubernetes::control_plane::turn;
use crate::kubernetes::evenkeel::Evenkeel;
use crate::kubernetes::filled::{PODS, change, fill};
use crate::kubernetes::http;
use crate::kubernetes::process::{DEADLINE, until};
use crate::kubernetes::proxy::Proxy;
use crate::kubernetes::witness::{Witness, everybody};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: deploy/tools.sh install_control_plane"]
async fn a_token_that_expires() {
    let plane = turn().await;
    let api = Api::connect(&plane.kubeconfig()).await;
    fill(&api).await;
    let proxy = Proxy::start(api.client(), 1).await;
    let issuer = Issuer::new(plane.directory());
    issuer.issue(&proxy, "first");
    let kubeconfig = plane.kubeconfig_for(&proxy.url(), &issuer.user());
    let evenkeel = Arc::new(Evenkeel::start(&kubeconfig, &[]));
    evenkeel.agrees_with(&api).await;
    let witness = Witness::start(&evenkeel);
    // The token has expired, and there is no other one yet.
    proxy.faults().token = Some("second".into());
    proxy.cut_watches();
    let (lists, watches) = proxy.begun();
    until("attempts", || {
        let begun = proxy.begun();
        (begun.0 + begun.1 > lists + watches + 6).then_some(())
    });
    change(&api, 0).await;
    issuer.issue(&proxy, "second");
    evenkeel.agrees_with(&api).await;
    let told = witness.saw_no_less(PODS - 5).await;
    assert_eq!(told.refusals, 0, "{told:?}");
    api.clear().await;
}

/// A program that clients run for a token, which is good for a second.
struct Issuer {
    program: PathBuf,
    token: PathBuf,
}

impl Issuer {
    fn new(directory: &Path) -> Self {
        let (program, token) = (directory.join("issuer"), directory.join("token"));
        let script = format!(
            r#"#!/bin/sh
exec printf '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"%s","expirationTimestamp":"%s"}}}}' \
    "$(cat '{}')" "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
"#,
            token.display()
        );
        fs::write(&program, script).expect("a file");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).expect("it is ours");
        Self { program, token }
    }

    fn issue(&self, proxy: &Proxy, token: &str) {
        fs::write(&self.token, token).expect("a file");
        proxy.faults().token = Some(token.into());
    }

    fn user(&self) -> Value {
        json!({ "exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": self.program,
            "interactiveMode": "Never",
        }})
    }
}

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
    let kubeconfig = plane.kubeconfig_for(&plane.url(), &json!({ "token": "reader" }));
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
    let start = Instant::now();
    evenkeel.agrees_with(&api).await;
    while http::get(&admin, "/readyz").status != 200 {
        assert!(start.elapsed() < DEADLINE, "it does not become ready");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    api.clear().await;
}
