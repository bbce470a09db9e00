//! `evenkeel rebalance --apply`, on a cluster that refuses, hides or delays.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::cli::api_server::ApiServer;
use crate::cli::evenkeel::{Outcome, Workspace};
use crate::cli::process::until;

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
    fn of(pod: &mut Value, deployment: &str, hash: &str) {
        pod["metadata"]["labels"]["pod-template-hash"] = json!(hash);
        pod["metadata"]["ownerReferences"][0]["name"] = json!(format!("{deployment}-{hash}"));
    }
    let mut objects = objects(&json!({}), &json!([]));
    objects[3..].iter_mut().for_each(|pod| of(pod, "web", "1"));
    let api = ApiServer::holding(objects);
    let beside: fn(&mut Value) -> Value = |successor| {
        let mut other = successor.clone();
        other["metadata"]["labels"]["app"] = json!("web-b");
        other["metadata"]["name"] = json!("web-b-first");
        other["metadata"]["uid"] = json!("web-b-first");
        of(&mut other, "web-b", "3");
        of(successor, "web", "2");
        other
    };
    api.fault(|faults| faults.beside = Some(beside));
    let workspace = Workspace::new().file("kube.yaml", &api.config("shop"));
    let line = "rebalance --kubeconfig kube.yaml --apply --yes --max-moves 1";
    let report = workspace.expect(1, line).json();
    let expected = ["kept-1", "kept-1-next", "b1"].map(str::to_owned);
    assert_eq!(made(&report), [<(_, _, _)>::from(expected)]);
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
