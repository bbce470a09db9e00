//! `evenkeel rebalance`: on files, on a server and on a cluster.

use serde_json::{Value, json};

use crate::evenkeel::Desk;
use crate::kube_api::{self, Refusals};
use crate::process::Server;

/// Three zones; `web` has four pods in zone a, of which `kept` is not to be moved.
fn objects(annotations: &Value, volumes: &Value) -> Vec<Value> {
    let node = |name: &str, zone: &str| json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": {"zone": zone}}});
    let pod = |name: &str, node: &str| {
        let is_kept = name.starts_with("kept");
        json!({
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {
                "name": name, "namespace": "shop", "uid": name, "labels": {"app": "web"},
                "annotations": if is_kept { annotations.clone() } else { json!({}) },
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                    "uid": "u", "controller": true}],
            },
            "spec": {"nodeName": node, "volumes": if is_kept { volumes.clone() } else { json!([]) },
                "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}}}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        })
    };
    vec![
        node("a1", "a"),
        node("b1", "b"),
        node("c1", "c"),
        pod("kept-1", "a1"),
        pod("web-2", "a1"),
        pod("web-3", "a1"),
        pod("kept-4", "a1"),
    ]
}

fn desk(objects: Vec<Value>) -> Desk {
    let list = json!({"kind": "List", "apiVersion": "v1", "items": objects});
    Desk::new().file("cluster.json", &list.to_string())
}

const KEPT: &str = "\
snapshot \"default\", revision 1, default constraints: system
2 moves: 1 of 1 workload even afterwards

MOVE  POD         FROM  TO  WHY
1     shop/web-2  a1    b1  zone a 4 -> b 0
2     shop/web-3  a1    c1  zone a 3 -> c 0

ReplicaSet/shop/web: 2 moves

over zone, max skew 1, DoNotSchedule: skew 4 -> 1
  DOMAIN  BEFORE  AFTER  PODS
  a       4       2      ##--
  b       0       1      +
  c       0       1      +
";

#[test]
fn files_say_which_pods_stay() {
    let none = json!([]);
    let kept = [
        json!({"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}),
        json!({"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""}),
        json!({"karpenter.sh/do-not-disrupt": "true"}),
    ];
    let line = "rebalance --load cluster.json";
    for annotations in kept {
        let desk = desk(objects(&annotations, &none));
        assert_eq!(desk.run(line).expect(0).out, KEPT, "{annotations}");
    }
    // Nothing tells them apart.
    let names = "shop/kept-1\nshop/kept-4\n";
    let other = json!({"karpenter.sh/do-not-disrupt": "false", "other": "x"});
    let free = desk(objects(&other, &none));
    assert_eq!(free.run(&format!("{line} -o name")).expect(0).out, names);
    let stored = desk(objects(&json!({}), &json!([{"name": "v", "emptyDir": {}}])));
    assert_eq!(stored.run(line).expect(0).out, KEPT);
    let all = format!("{line} --local-storage -o name");
    assert_eq!(stored.run(&all).expect(0).out, names);
}

#[test]
fn what_is_left_is_told_with_what_is_in_the_way() {
    let mut objects = objects(&json!({}), &json!([]));
    objects.push(json!({
        "kind": "PodDisruptionBudget", "apiVersion": "policy/v1",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"minAvailable": "100%", "selector": {"matchLabels": {"app": "web"}}},
    }));
    let desk = desk(objects);
    let line = "rebalance rs/shop/web --load cluster.json";
    let told = desk.run(line).expect(1);
    told.says("1 workload violated, and no move helps");
    told.says("in the way: zone a: PodDisruptionBudget web allows no eviction (4)");
    let json = desk.run(&format!("{line} -o json")).expect(1).json();
    assert_eq!(json["workloads"][0]["blockers"][0]["kind"], "KIND_BUDGET");
    // Another workload is none of its business.
    desk.run("rebalance -n shop -l app=db --load cluster.json")
        .expect(0);
}

#[test]
fn a_page_has_an_arrow_for_each_move() {
    let desk = desk(objects(&json!({}), &json!([])));
    let page = desk
        .run("rebalance -n shop --load cluster.json -o html")
        .expect(0);
    for part in ["<!DOCTYPE html>", "a1 → b1", "a1 → c1", "skew 4 → 1"] {
        page.says(part);
    }
}

#[test]
fn a_server_is_told_what_it_does_not_keep() {
    let server = Server::start(&[]);
    let kept = json!({"karpenter.sh/do-not-disrupt": "true"});
    let desk = desk(objects(&kept, &json!([]))).with_server(server.url());
    desk.run("load cluster.json --default-constraints system")
        .expect(0);
    let told = desk.run("rebalance --pods cluster.json").expect(0);
    assert_eq!(told.out, KEPT);
    let names = desk
        .run("rebalance -l app=web --max-moves 1 -o name")
        .expect(1);
    assert_eq!(names.out, "shop/kept-1\n");
}

#[test]
fn a_cluster_is_listed() {
    let address = kube_api::start(objects(&json!({}), &json!([])), "");
    let desk = Desk::new().file("kube.yaml", &kube_api::kubeconfig(&address));
    let line = "rebalance --kubeconfig kube.yaml -o name";
    assert_eq!(desk.run(line).expect(0).out, "shop/kept-1\nshop/kept-4\n");
}

/// The moves of a report: pod, successor and its node.
fn made(report: &Value) -> Vec<(String, String, String)> {
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let moves = report["moves"].as_array().expect("moves").iter();
    moves
        .map(|it| (text(&it["pod"]), text(&it["successor"]), text(&it["to"])))
        .collect()
}

#[test]
fn moves_are_made_one_at_a_time() {
    let refusals = Refusals {
        evictions: 1,
        ..Refusals::default()
    };
    let address = kube_api::start_with(objects(&json!({}), &json!([])), refusals);
    let desk = Desk::new().file("kube.yaml", &kube_api::kubeconfig(&address));
    let line = "rebalance --kubeconfig kube.yaml --apply";
    // Nobody is there to be asked, and nothing is evicted without an answer.
    desk.run(line)
        .expect(2)
        .complains("--yes evicts without a question");
    // The first eviction is refused, as by a budget: that is told, and repeated.
    let run = desk.run(&format!("{line} --yes")).expect(0);
    run.complains("waiting: shop/kept-1: Cannot evict pod");
    run.complains("moved shop/kept-1 from a1: kept-1-next is on b1 (planned: b1)");
    let report = run.json();
    let expected = [("kept-1", "b1"), ("kept-4", "c1")]
        .map(|(pod, node)| (pod.to_owned(), format!("{pod}-next"), node.to_owned()));
    assert_eq!(made(&report), expected);
    assert_eq!(
        (&report["ended"], &report["left"]),
        (&json!("even"), &json!(0))
    );
    // Nothing is left to do.
    let again = desk.run(&format!("{line} --yes")).expect(0).json();
    assert_eq!(made(&again), []);
}

#[test]
fn a_dry_run_evicts_nothing() {
    let address = kube_api::start(objects(&json!({}), &json!([])), "");
    let desk = Desk::new().file("kube.yaml", &kube_api::kubeconfig(&address));
    let line = "rebalance --kubeconfig kube.yaml --apply";
    let run = desk.run(&format!("{line} --dry-run=server")).expect(0);
    run.complains("dry run: shop/kept-1: would be evicted");
    // All pods are still there: one move, as many as there may be.
    let report = desk
        .run(&format!("{line} --yes --max-moves 1"))
        .expect(1)
        .json();
    assert_eq!(made(&report).len(), 1);
    assert_eq!(
        (&report["ended"], &report["left"]),
        (&json!("capped"), &json!(0))
    );
    desk.run("rebalance --load x.yaml --apply").expect(2);
}

/// What is not there is named, as by other commands.
#[test]
fn what_is_not_there_is_refused() {
    let desk = desk(objects(&json!({}), &json!([])));
    for (line, told) in [
        (
            "rebalance --by nope",
            "no node has the label \"nope\"; nodes have zone",
        ),
        (
            "rebalance deploy/nope -n shop",
            "Deployment nope of namespace shop has no pods",
        ),
        (
            "rebalance deploy/web",
            "Deployment web of namespace default has no pods",
        ),
        (
            "rebalance deployy/web -n shop",
            "deployy web of namespace shop has no pods",
        ),
    ] {
        let refused = desk.run(&format!("{line} --load cluster.json"));
        refused.expect(2).complains(told);
    }
    let none = desk.run("rebalance -n nope --load cluster.json").expect(0);
    assert!(
        none.out.starts_with("snapshot \"default\", revision 1,"),
        "{}",
        none.out
    );
}
