//! `evenkeel nodes`: on files, on a server and on a cluster.

use serde_json::{Value, json};

use crate::cli::api_server::ApiServer;
use crate::cli::evenkeel::Workspace;
use crate::cli::process::Server;

/// Three nodes in two zones, with a pod of `web` on each of the first two, and what `more` adds.
fn objects(more: Vec<Value>) -> Vec<Value> {
    let node = |name: &str, zone: &str| {
        json!({"kind": "Node", "apiVersion": "v1",
            "metadata": {"name": name, "labels": {"zone": zone, "kubernetes.io/hostname": name}},
            "status": {"allocatable": {"cpu": "2", "pods": "9"}}})
    };
    let mut all = vec![
        node("a1", "a"),
        node("a2", "a"),
        node("b1", "b"),
        pod("web-1", "a1", &json!({}), &json!([])),
        pod("web-2", "b1", &json!({}), &json!([])),
    ];
    all.extend(more);
    all
}

fn pod(name: &str, node: &str, annotations: &Value, volumes: &Value) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "name": name, "namespace": "shop", "labels": {"app": "web"}, "annotations": annotations,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                "uid": "u", "controller": true}],
        },
        "spec": {
            "nodeName": node, "volumes": volumes,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}}}],
        },
        "status": {"phase": if node.is_empty() { "Pending" } else { "Running" }},
    })
}

fn workspace(objects: Vec<Value>) -> Workspace {
    let list = json!({"kind": "List", "apiVersion": "v1", "items": objects});
    Workspace::new().file("cluster.json", &list.to_string())
}

const DRAINED: &str = "\
snapshot \"default\", revision 1, default constraints: system
1 node: 1 can be emptied, 1 move

NODE  EMPTY  MOVES  CANNOT GO  GO WITH IT
a1    yes    1      0          0

MOVE  POD         FROM  TO  WHY
1     shop/web-1  a1    a2  zone a 1 stays

ReplicaSet/shop/web: 1 move

over zone, max skew 1, DoNotSchedule: skew 0 -> 0
  DOMAIN  BEFORE  AFTER  PODS
  a       1       1      #
  b       1       1      #
";

#[test]
fn a_drain_is_told_on_files_a_server_and_a_cluster() {
    let files = workspace(objects(vec![]));
    let line = "nodes drain a1 --load cluster.json";
    assert_eq!(files.expect(0, line).out, DRAINED);
    assert_eq!(files.expect(0, &format!("{line} -o name")).out, "a1\n");
    let json = files.expect(0, &format!("{line} -o json")).json();
    assert_eq!(json["moves"][0]["to"], "a2");
    let page = files.expect(0, &format!("{line} -o html"));
    for part in [
        "<!DOCTYPE html>",
        "Where the pods of nodes go",
        "a1",
        "skew 0 -&gt; 0",
    ] {
        page.says(part);
    }
    let server = Server::start(&[]);
    let served = workspace(objects(vec![])).with_server(server.url());
    served.expect(0, "load cluster.json --default-constraints system");
    assert_eq!(served.expect(0, "nodes drain a1").out, DRAINED);
    let api = ApiServer::holding(objects(vec![]));
    let cluster = Workspace::new().file("kube.yaml", &api.config("shop"));
    let told = cluster.expect(0, "nodes drain a1 --kubeconfig kube.yaml");
    told.says("1 node: 1 can be emptied, 1 move");
}

const IN_TURN: &str = "\
MOVE  POD         FROM  TO  WHY
1     shop/web-1  a1    a2  zone a 1 stays
2     shop/web-2  b1    b1  zone b 1 stays, waits for the node
";

#[test]
fn nodes_come_back_one_at_a_time() {
    let files = workspace(objects(vec![]));
    let line = "nodes drain a1 b1 --one-at-a-time --load cluster.json";
    files.expect(0, line).says(IN_TURN);
}

#[test]
fn marks_keep_pods_and_nodes() {
    let kept = |annotations: Value, volumes: Value| {
        workspace(objects(vec![pod("kept", "a1", &annotations, &volumes)]))
    };
    let line = "nodes drain a1 --load cluster.json";
    let local = json!([{"name": "v", "emptyDir": {}}]);
    let not_safe = json!({"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"});
    let told = kept(not_safe, json!([])).expect(1, line);
    told.says("shop/kept  a1    annotation cluster-autoscaler.kubernetes.io/safe-to-evict");
    kept(json!({}), local.clone())
        .expect(1, line)
        .says("local storage");
    kept(json!({}), local.clone()).expect(0, &format!("{line} --local-storage"));
    let safe = json!({"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"});
    kept(safe, local).expect(0, line);
    let spare = "nodes spare --max 9 --load cluster.json -o name";
    assert_eq!(workspace(objects(vec![])).expect(0, spare).out, "a2\na1\n");
    for mark in [
        "cluster-autoscaler.kubernetes.io/scale-down-disabled",
        "karpenter.sh/do-not-disrupt",
    ] {
        let mut marked = objects(vec![]);
        marked[1]["metadata"]["annotations"] = json!({mark: "true"});
        assert_eq!(workspace(marked).expect(0, spare).out, "a1\nb1\n", "{mark}");
    }
}

const NEEDED: &str = "\
snapshot \"default\", revision 1, default constraints: system
2 nodes like a1 in zone b
proven: less than a price of 2 does not do: room: 3 of web have none on the nodes that there are, and a new node has it for 2

NEW NODES  LIKE  IN      PRICE  NAMES
2          a1    zone b  1      a1+1, a1+2

The pods go to
  NODE  PODS  OF
  a1    1     shop/web
  a1+1  2     shop/web
  a1+2  1     shop/web
  a2    2     shop/web
  b1    1     shop/web
";

#[test]
fn needed_nodes_are_told_with_what_proves_them() {
    let mut template = pod("", "", &json!({}), &json!([]));
    template["metadata"] = json!({"labels": {"app": "web"}});
    let deployment = json!({
        "kind": "Deployment", "apiVersion": "apps/v1",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    });
    let node = json!({"kind": "Node", "apiVersion": "v1",
        "metadata": {"name": "large", "labels": {"zone": "b"}},
        "status": {"allocatable": {"cpu": "8", "pods": "9"}}});
    let files = workspace(objects(vec![deployment])).file("large.json", &node.to_string());
    let line = "nodes need deploy/web -n shop --load cluster.json --like a1";
    let in_zones = format!("{line} --replicas 7 --in zone=a,b,c");
    assert_eq!(files.expect(0, &in_zones).out, NEEDED);
    let none = files.expect(1, &format!("{line} --replicas 7"));
    none.says("no new node helps");
    none.says("4 pods of web fit on no node: 2 Insufficient cpu");
    let priced = format!("{line} --replicas 7 -f large.json --in large:zone=b --price large=3");
    let told = files.expect(0, &priced);
    told.says("1 node like large in zone b");
    files
        .expect(2, &format!("{line} --price x=3"))
        .complains("there is no template x, but a1");
    files
        .expect(2, "nodes drain nope --load cluster.json")
        .complains("there is no node \"nope\"");
    let waits = pod("web-3", "", &json!({}), &json!([]));
    let pending = "nodes need --pending --load cluster.json --like a1";
    let told = workspace(objects(vec![waits])).expect(0, pending);
    told.says("no node is needed: all pods fit");
}
