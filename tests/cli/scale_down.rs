//! `evenkeel scale-down`: on files, on a server and on a cluster.

use serde_json::{Value, json};

use crate::evenkeel::Workspace;
use crate::kube_api;
use crate::process::Server;

/// Three zones; `web` has four pods in zone a, of which one is not ready, one in b and
/// one in c.
fn objects() -> Vec<Value> {
    let node = |name: &str, zone: &str| json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": {"zone": zone}}});
    let pod = |name: &str, node: &str, ready: &str, cost: &str| {
        json!({
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {
                "name": name, "namespace": "shop", "labels": {"app": "web"},
                "annotations": {"controller.kubernetes.io/pod-deletion-cost": cost, "other": "x"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                    "uid": "u", "controller": true}],
            },
            "spec": {"nodeName": node, "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}}}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
        })
    };
    vec![
        node("a1", "a"),
        node("b1", "b"),
        node("c1", "c"),
        pod("web-1", "a1", "True", "5"),
        pod("web-2", "a1", "True", "-5"),
        pod("web-3", "a1", "False", "0"),
        pod("web-4", "a1", "True", "9"),
        pod("web-5", "b1", "True", "0"),
        pod("web-6", "c1", "False", "0"),
    ]
}

fn workspace() -> Workspace {
    let list = json!({"kind": "List", "apiVersion": "v1", "items": objects()});
    Workspace::new().file("cluster.json", &list.to_string())
}

const TABLE: &str = "\
snapshot \"default\", revision 1, default constraints: system
ReplicaSet/shop/web: 2 of 6 pods should go

POD    NODE  OUT OF
web-3  a1    a 4
web-2  a1    a 3

over zone, max skew 1, DoNotSchedule: skew 3 -> 1
  DOMAIN  BEFORE  AFTER  PODS
  a       4       2      ##--
  b       1       1      #
  c       1       1      #
";

#[test]
fn files_say_what_is_ready_and_what_deleting_costs() {
    let line = "scale-down -n shop rs/web --by 2 --load cluster.json";
    assert_eq!(workspace().expect(0, line).out, TABLE);
    let names = workspace().expect(0, &format!("{line} -o name"));
    assert_eq!(names.out, "web-3\nweb-2\n");
    let json = workspace().expect(0, &format!("{line} -o json")).json();
    assert_eq!(json["removals"][0]["name"], "web-3");
    // Removing one pod is not enough to meet the constraint.
    let line = "scale-down rs/shop/web --by 1 --load cluster.json -o name";
    assert_eq!(workspace().expect(1, line).out, "web-3\n");
    let unknown = workspace().run("scale-down rs/shop/db --by 1 --load cluster.json");
    unknown.expect(2).complains("has no pods");
}

#[test]
fn a_server_is_told_what_it_does_not_keep() {
    let server = Server::start(&[]);
    let workspace = workspace().with_server(server.url());
    workspace.expect(0, "load cluster.json --default-constraints system");
    let line = "scale-down -n shop rs/web --by 2";
    let told = workspace.expect(0, &format!("{line} --pods cluster.json"));
    assert_eq!(told.out, TABLE);
    let untold = workspace.expect(0, line);
    untold.says("not known of 6 pods: readiness, deletion cost, restarts and age (--pods)");
    untold.says("web-1  a1    a 4\nweb-2  a1    a 3\n");
}

#[test]
fn a_cluster_is_listed() {
    let address = kube_api::start(objects(), "");
    let workspace = Workspace::new().file("kube.yaml", &kube_api::kubeconfig(&address));
    // The namespace is that of the context.
    let line = "scale-down rs/web --by 2 --kubeconfig kube.yaml -o name";
    assert_eq!(workspace.expect(0, line).out, "web-3\nweb-2\n");
}
