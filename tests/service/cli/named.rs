//! Questions about pods and workloads by name, and about pending pods: in files, on a server and in
//! a cluster.

use serde_json::json;

use crate::cli::api_server::ApiServer;
use crate::cli::evenkeel::Workspace;
use crate::cli::shop::{CLUSTER, objects, workspace};

#[test]
fn what_an_account_may_not_list_is_named_with_the_rule_to_add() {
    let api = ApiServer::holding(objects());
    api.fault(|faults| faults.forbidden.extend(["replicasets"]));
    let workspace = Workspace::new().file("kube.yaml", &api.config("shop"));
    let refused = workspace.expect(2, "explain --pending --kubeconfig kube.yaml");
    for part in [
        "may not list replicasets in one",
        "ClusterRole",
        "resources: [replicasets]",
    ] {
        refused.complains(part);
    }
}

/// A tenant may read its own namespace, and the nodes.
#[test]
fn who_may_list_one_namespace_alone_can_ask_about_it() {
    let api = ApiServer::holding(objects());
    api.fault(|faults| faults.only_namespace = Some("shop"));
    let workspace = workspace().file("kube.yaml", &api.config("shop"));
    let all = "pods, services, replicasets, statefulsets, replicationcontrollers, \
               poddisruptionbudgets, persistentvolumeclaims";
    // Where pods may run, nothing but pods of other namespaces matters.
    for (line, code, kinds) in [
        ("explain deploy/web", 1, "pods"),
        ("explain --pending -n shop", 1, all),
        ("filter pod/shop/web-new-1", 0, "pods"),
        ("spread -n shop", 0, all),
        ("spread deploy/web", 0, all),
        ("report -n shop", 0, all),
        ("lint deploy -n shop", 1, all),
    ] {
        let told = workspace.expect(code, &format!("{line} {CLUSTER}"));
        told.complains(&format!(
            "this account may not list {kinds} in all namespaces: those of namespace shop alone \
             are known. What other pods take on the nodes is not"
        ));
    }
    for line in ["explain deploy/web", "place deploy/web --add 1"] {
        let answer = workspace.run(&format!("{line} {CLUSTER} -o json")).json();
        let unchecked = answer["unchecked"].as_array().expect("a list");
        assert!(
            unchecked.contains(&json!("pods of other namespaces")),
            "{line}: {answer}"
        );
    }
    for line in ["explain --pending", "spread -A", "report"] {
        let refused = workspace.expect(2, &format!("{line} {CLUSTER}"));
        refused.complains("may not list pods in one");
        refused.complains("; or ask about one namespace, with -n");
    }
    let refused = workspace.run(&format!("explain pod/default/db-0 {CLUSTER}"));
    refused
        .expect(2)
        .complains("add this rule to a Role of the account");
}

/// Of other namespaces than the pod's only pods can matter, and none that has finished.
#[test]
fn a_cluster_is_asked_for_what_the_question_needs() {
    let api = ApiServer::holding(objects());
    let workspace = Workspace::new().file("kube.yaml", &api.config("shop"));
    workspace.expect(1, "explain pod/web-new-2 --kubeconfig kube.yaml");
    let asked = api.take_asked();
    let lists = |path: &str| {
        let lists = asked.iter().filter(|target| target.starts_with(path));
        lists.cloned().collect::<Vec<_>>()
    };
    let pods = lists("/api/v1/pods?");
    assert!(!pods.is_empty());
    for target in pods {
        let phases = "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed";
        assert!(target.contains(phases), "{target}");
    }
    assert!(!lists("/api/v1/namespaces/shop/services?").is_empty());
    for path in [
        "/api/v1/services",
        "/apis/apps/v1/replicasets",
        "/apis/policy",
        // The pod has no claims.
        "/api/v1/persistentvolumes",
        "/api/v1/namespaces/shop/persistentvolumeclaims",
        "/apis/storage.k8s.io",
    ] {
        assert!(lists(path).is_empty(), "{path}");
    }
    // Spread constraints count the pods of their own namespace.
    workspace.expect(
        0,
        "explain pod/web-new-2 --spread-only --kubeconfig kube.yaml",
    );
    let asked = api.take_asked();
    let mut pods = asked.iter().filter(|target| target.contains("/pods?"));
    assert!(pods.all(|target| target.starts_with("/api/v1/namespaces/shop/pods?")));
    // What is planned for all pods reads more.
    workspace.run("rebalance --kubeconfig kube.yaml");
    let asked = api.take_asked();
    assert!(
        asked
            .iter()
            .any(|target| target.starts_with("/apis/policy"))
    );
}
