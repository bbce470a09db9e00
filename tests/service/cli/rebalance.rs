//! `evenkeel rebalance`: on files, on a server and on a cluster.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::cli::api_server::ApiServer;
use crate::cli::evenkeel::{Outcome, Workspace};
use crate::cli::process::{Server, until};

/// Three zones; `web` has four pods in zone a. Those named `kept` may be marked as not to move.
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

fn workspace(objects: Vec<Value>) -> Workspace {
    let list = json!({"kind": "List", "apiVersion": "v1", "items": objects});
    Workspace::new().file("cluster.json", &list.to_string())
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
        let workspace = workspace(objects(&annotations, &none));
        assert_eq!(workspace.expect(0, line).out, KEPT, "{annotations}");
    }
    // Without a mark nothing tells the pods apart.
    let names = "shop/kept-1\nshop/kept-4\n";
    let other = json!({"karpenter.sh/do-not-disrupt": "false", "other": "x"});
    let free = workspace(objects(&other, &none));
    assert_eq!(free.expect(0, &format!("{line} -o name")).out, names);
    let stored = workspace(objects(&json!({}), &json!([{"name": "v", "emptyDir": {}}])));
    assert_eq!(stored.expect(0, line).out, KEPT);
    let all = format!("{line} --local-storage -o name");
    assert_eq!(stored.expect(0, &all).out, names);
}

#[test]
fn what_is_left_is_told_with_what_is_in_the_way() {
    let mut objects = objects(&json!({}), &json!([]));
    objects.push(json!({
        "kind": "PodDisruptionBudget", "apiVersion": "policy/v1",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"minAvailable": "100%", "selector": {"matchLabels": {"app": "web"}}},
    }));
    let workspace = workspace(objects);
    let line = "rebalance rs/shop/web --load cluster.json";
    let told = workspace.expect(1, line);
    told.says("1 workload violated, and no move helps");
    told.says("in the way: zone a: PodDisruptionBudget web allows no eviction (4)");
    let json = workspace.expect(1, &format!("{line} -o json")).json();
    assert_eq!(json["workloads"][0]["blockers"][0]["kind"], "KIND_BUDGET");
}

#[test]
fn a_page_has_a_row_for_each_move() {
    let workspace = workspace(objects(&json!({}), &json!([])));
    let page = workspace.expect(0, "rebalance -n shop --load cluster.json -o html");
    for part in [
        "<!DOCTYPE html>",
        "<td>a1</td><td>b1</td>",
        "<td>a1</td><td>c1</td>",
        "skew 4 -&gt; 1",
    ] {
        page.says(part);
    }
}

#[test]
fn a_server_is_told_what_it_does_not_keep() {
    let server = Server::start(&[]);
    let kept = json!({"karpenter.sh/do-not-disrupt": "true"});
    let workspace = workspace(objects(&kept, &json!([]))).with_server(server.url());
    workspace.expect(0, "load cluster.json --default-constraints system");
    let told = workspace.expect(0, "rebalance --pods cluster.json");
    assert_eq!(told.out, KEPT);
    let names = workspace.expect(1, "rebalance -l app=web --max-moves 1 -o name");
    assert_eq!(names.out, "shop/kept-1\n");
}

#[test]
fn a_cluster_is_listed() {
    let api = ApiServer::holding(objects(&json!({}), &json!([])));
    let workspace = Workspace::new().file("kube.yaml", &api.config("shop"));
    let line = "rebalance --kubeconfig kube.yaml -o name";
    assert_eq!(workspace.expect(0, line).out, "shop/kept-1\nshop/kept-4\n");
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
    let api = ApiServer::holding(objects(&json!({}), &json!([])));
    api.fault(|faults| faults.refused_evictions = 1);
    let workspace = Workspace::new().file("kube.yaml", &api.config("shop"));
    let line = "rebalance --kubeconfig kube.yaml --apply";
    // Nobody can be asked without a terminal, and nothing is evicted without an answer.
    workspace
        .expect(2, line)
        .complains("--yes evicts without a question");
    // The first eviction is refused, as by a budget. The command reports that and tries again.
    let run = workspace.expect(0, &format!("{line} --yes"));
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
    let again = workspace.expect(0, &format!("{line} --yes")).json();
    assert_eq!(made(&again), []);
}

/// While a pod is moved, a Deployment is rolled out: another ReplicaSet makes the successor. A pod
/// of another Deployment, whose name begins alike, is no successor.
#[test]
fn a_successor_is_known_by_its_owner() {
    let mut objects = objects(&json!({}), &json!([]));
    for (name, uid, above) in [("web", "u", "d"), ("web-2", "v", "d"), ("web-3", "w", "e")] {
        objects.push(json!({
            "kind": "ReplicaSet", "apiVersion": "apps/v1",
            "metadata": {"name": name, "namespace": "shop", "uid": uid, "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "uid": above,
                    "controller": true}]},
            "spec": {"selector": {"matchLabels": {"app": name}}},
        }));
    }
    let api = ApiServer::holding(objects);
    let beside: fn(&mut Value) -> Value = |successor| {
        let mut other = successor.clone();
        let owners = |name: &str, uid: &str| {
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet",
            "name": name, "uid": uid, "controller": true}])
        };
        other["metadata"]["ownerReferences"] = owners("web-3", "w");
        other["metadata"]["labels"] = json!({"app": "web-3"});
        other["metadata"]["name"] = json!("web-3-first");
        other["metadata"]["uid"] = json!("web-3-first");
        other["spec"]["nodeName"] = json!("c1");
        successor["metadata"]["ownerReferences"] = owners("web-2", "v");
        other
    };
    api.fault(|faults| faults.beside = Some(beside));
    let workspace = Workspace::new().file("kube.yaml", &api.config("shop"));
    let line = "rebalance --kubeconfig kube.yaml --apply --yes --max-moves 1";
    let report = workspace.expect(1, line).json();
    let expected = (
        "kept-1".to_owned(),
        "kept-1-next".to_owned(),
        "b1".to_owned(),
    );
    assert_eq!(made(&report), [expected]);
}

/// Ctrl-C ends between two moves, a kill at any time. Started again, the command waits for the
/// successor of the pod that it evicted before, and continues with what is left.
#[test]
fn what_is_interrupted_continues() {
    for signal in ["INT", "KILL"] {
        let api = ApiServer::holding(objects(&json!({}), &json!([])));
        let pause = |is_paused| api.fault(|faults| faults.is_paused = is_paused);
        pause(true);
        let workspace = Workspace::new().file("kube.yaml", &api.config("shop"));
        let start = || {
            let mut command = workspace.command("rebalance --kubeconfig kube.yaml --apply --yes");
            let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
            command
                .stderr(Stdio::piped())
                .spawn()
                .expect("the binary starts")
        };
        let mut first = start();
        until("a pod is evicted", || (api.evicted() == 1).then_some(()));
        let pid = first.id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), &pid])
            .status();
        assert!(sent.expect("it can be sent").success());
        let second = match signal {
            "KILL" => {
                first.wait().expect("it ends");
                // Nothing is evicted while the first pod has no successor.
                let mut second = start();
                let mut lines = BufReader::new(second.stderr.take().expect("piped")).lines();
                let told = lines.find(|line| line.as_ref().is_ok_and(|it| it.contains("waiting")));
                assert!(told.is_some());
                assert_eq!(api.evicted(), 1);
                pause(false);
                api.start_pods();
                Outcome::of(second.wait_with_output().expect("it ends"))
            }
            _ => {
                let mut lines = BufReader::new(first.stderr.take().expect("piped")).lines();
                let told =
                    lines.find(|line| line.as_ref().is_ok_and(|it| it.contains("no more moves")));
                assert!(told.is_some());
                pause(false);
                api.start_pods();
                let report = Outcome::of(first.wait_with_output().expect("it ends"));
                let report = report.expect(1).json();
                assert_eq!(
                    (&report["ended"], &report["left"]),
                    (&json!("interrupted"), &json!(1))
                );
                assert_eq!(api.evicted(), 1);
                Outcome::of(start().wait_with_output().expect("it ends"))
            }
        };
        let report = second.expect(0).json();
        assert_eq!((made(&report).len(), &report["ended"]), (1, &json!("even")));
        assert_eq!(api.evicted(), 2, "{signal}");
    }
}

#[test]
fn what_was_moved_is_reported_also_after_an_error() {
    let api = ApiServer::holding(objects(&json!({}), &json!([])));
    api.fault(|faults| faults.most_evictions = Some(1));
    let workspace = Workspace::new().file("kube.yaml", &api.config("shop"));
    let run = workspace.expect(2, "rebalance --kubeconfig kube.yaml --apply --yes");
    run.complains("may not create pods/eviction in one");
    run.complains("resources: [pods/eviction], verbs: [create]}");
    let report = run.json();
    assert_eq!(made(&report).len(), 1);
    assert_eq!(
        (&report["ended"], &report["left"]),
        (&json!("failed"), &Value::Null)
    );
}

/// The answer to the first eviction is lost, and the API server is away for a while.
#[test]
fn an_api_server_that_is_away_is_waited_for() {
    let api = ApiServer::holding(objects(&json!({}), &json!([])));
    api.fault(|faults| faults.lost_answers = 4);
    let workspace = Workspace::new().file("kube.yaml", &api.config("shop"));
    let line = "rebalance --kubeconfig kube.yaml --apply --yes";
    let run = workspace.expect(0, line);
    run.complains("waiting: cannot reach the API server of one");
    assert_eq!(made(&run.json()).len(), 2);
    assert_eq!(run.json()["left"], 0);
}

#[test]
fn what_is_blocked_is_left() {
    let mut objects = objects(&json!({}), &json!([]));
    objects.push(json!({
        "kind": "PodDisruptionBudget", "apiVersion": "policy/v1",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"minAvailable": "100%", "selector": {"matchLabels": {"app": "web"}}},
    }));
    let api = ApiServer::holding(objects);
    let workspace = Workspace::new().file("kube.yaml", &api.config("shop"));
    let line = "rebalance --kubeconfig kube.yaml --apply --yes --wait 0s";
    let report = workspace.expect(1, line).json();
    assert_eq!(
        (&report["ended"], &report["left"]),
        (&json!("timedOut"), &Value::Null)
    );
}

#[test]
fn a_dry_run_evicts_nothing() {
    let api = ApiServer::holding(objects(&json!({}), &json!([])));
    let workspace = Workspace::new().file("kube.yaml", &api.config("shop"));
    let line = "rebalance --kubeconfig kube.yaml --apply";
    for line in [line, "rebalance --kubeconfig kube.yaml"] {
        let run = workspace.expect(0, &format!("{line} --dry-run=server"));
        run.complains("dry run: shop/kept-1: would be evicted");
    }
    // All pods are still there. One move is made, the most that is allowed.
    let report = workspace
        .expect(1, &format!("{line} --yes --max-moves 1"))
        .json();
    assert_eq!(made(&report).len(), 1);
    assert_eq!(
        (&report["ended"], &report["left"]),
        (&json!("capped"), &json!(1))
    );
    workspace.expect(2, "rebalance --load x.yaml --apply");
}

/// Objects that are not there are named, as by other commands.
#[test]
fn what_is_not_there_is_refused() {
    let workspace = workspace(objects(&json!({}), &json!([])));
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
        let refused = workspace.run(&format!("{line} --load cluster.json"));
        refused.expect(2).complains(told);
    }
}

/// Pods with a constraint that no scheduler accepts are not called even.
#[test]
fn pods_that_cannot_be_judged_are_told() {
    let mut objects = objects(&json!({}), &json!([]));
    for pod in &mut objects[3..] {
        pod["spec"]["topologySpreadConstraints"][0]["maxSkew"] = json!(0);
    }
    let told = workspace(objects).expect(0, "rebalance -n shop --load cluster.json");
    for line in [
        "no constraint is violated: nothing to move",
        "not judged for what their pods ask for: 1 workload",
        "ReplicaSet/shop/web: 0 moves",
    ] {
        assert!(told.out.contains(line), "{}", told.out);
    }
}

/// Two Deployments that one selector counts, all on n1: both are even once pods of both have moved.
#[test]
fn workloads_that_share_a_selector_are_even_together() {
    let node = |name: &str| json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": {"host": name}}});
    let pod = |owner: &str, index: usize| {
        json!({
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {
                "name": format!("{owner}-{index}"), "namespace": "shop", "labels": {"app": "foo"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner,
                    "uid": owner, "controller": true}],
            },
            "spec": {"nodeName": "n1", "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "foo"}}}]},
            "status": {"phase": "Running"},
        })
    };
    let mut objects: Vec<Value> = ["n1", "n2", "n3", "n4"].map(node).to_vec();
    for owner in ["one", "two"] {
        objects.extend((0..2).map(|index| pod(owner, index)));
    }
    let workspace = workspace(objects);
    let line = "rebalance --max-unavailable 2 --load cluster.json";
    let plan = workspace.expect(0, line);
    plan.says("3 moves: 2 of 2 workloads even afterwards");
    assert!(!plan.out.contains("in the way"), "{}", plan.out);
    // Alone, one cannot be even: the pods of the other are counted.
    let plan = workspace.expect(1, &format!("{line} rs/shop/one"));
    plan.says("in the way: host n1: pods of other workloads, which the constraint counts (2)");
    // The page draws each side with its own limit.
    let page = workspace.expect(0, &format!("{line} -o html")).out;
    let over = page.matches("class=\"bar limited over\"").count();
    assert_eq!(over, 2, "{page}");
}

/// A pod that waits takes the one place that is left.
#[test]
fn the_only_pod_that_may_be_unavailable_is_one() {
    let node = |name: &str| json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": {"host": name}}});
    let pod = |index: usize, spec: Value| {
        let mut pod = json!({
            "kind": "Pod", "apiVersion": "v1", "spec": spec, "status": {"phase": "Pending"},
            "metadata": {
                "name": format!("one-{index}"), "namespace": "shop", "labels": {"app": "foo"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "one",
                    "uid": "one", "controller": true}],
            },
        });
        pod["spec"]["topologySpreadConstraints"] = json!([{
            "maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "foo"}}}]);
        pod
    };
    let mut objects: Vec<Value> = ["n1", "n2"].map(node).to_vec();
    objects.extend((0..4).map(|index| pod(index, json!({"nodeName": "n1"}))));
    objects.push(pod(4, json!({})));
    let line = "rebalance --max-unavailable 1 --load cluster.json";
    let plan = workspace(objects).expect(1, line);
    plan.says("in the way: host n1: 1 pod may be unavailable, and is (4)");
}
