//! Plans of nodes in a real cluster, where kwok does what kubelets do: random nodes are drained as the
//! plan says, and the nodes are made that a plan needs. What the plan says of pods that wait is what
//! happens.
//!
//! `ROUNDS=100` drains more often.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};

use crate::kubernetes::api::{Api, path};
use crate::kubernetes::control_plane::{ControlPlane, turn};
use crate::kubernetes::objects::{NAMESPACE, ZONE, status, topology};
use crate::kubernetes::plans::{PATIENCE, ZONES, end, is_ready, name, start, workload};
use crate::kubernetes::process;

/// How long pods that still wait are given to find a node.
const SETTLING: Duration = Duration::from_secs(6);

/// The pause before pods that wait are made again. The scheduler of these tests tries no pod twice.
const RETRY: Duration = Duration::from_secs(1);

/// Runs `evenkeel nodes` on the cluster. Returns the answer.
fn nodes(plane: &ControlPlane, line: &str) -> Value {
    let kubeconfig = plane.kubeconfig().display().to_string();
    let mut arguments = vec!["nodes"];
    arguments.extend(line.split_whitespace());
    arguments.extend(["--kubeconfig", &kubeconfig, "-o", "json"]);
    let output = process::command(&arguments).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{line}: {said}"))
}

/// A workload whose pods request a processor each.
fn requesting(name: &str, replicas: usize) -> Value {
    let mut it = workload("Deployment", name, replicas);
    it["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({ "requests": { "cpu": "1" } });
    it
}

async fn add_node(api: &Api, name: &str, zone: &str) {
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": topology(name, zone, None) },
        "status": status(4000),
    });
    api.create(&node).await;
}

/// Waits until this many pods are ready. Pods that no node admits are deleted, and their controller
/// makes others. Returns the number in each zone, or with `None` that some wait for a node.
async fn settled(api: &Api, pods: usize) -> Option<BTreeMap<String, usize>> {
    let began = Instant::now();
    let mut waits_since = None;
    loop {
        let all = api.list("Pod").await;
        let ready = all.iter().filter(|pod| is_ready(pod));
        let mut counts = BTreeMap::new();
        for pod in ready.clone() {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            *counts.entry(node[..1].to_owned()).or_default() += 1;
        }
        if all.len() == pods && ready.clone().count() == pods {
            return Some(counts);
        }
        let refused = |pod: &Value| {
            let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            conditions.any(|it| it["reason"] == "Unschedulable")
        };
        let waiting: Vec<&Value> = all.iter().filter(|pod| refused(pod)).collect();
        if all.len() == pods && !waiting.is_empty() {
            let since = *waits_since.get_or_insert_with(Instant::now);
            if since.elapsed() > SETTLING {
                return None;
            }
            tokio::time::sleep(RETRY).await;
            for pod in waiting {
                api.delete(&path("Pod", NAMESPACE, name(pod)), 0).await;
            }
        }
        assert!(began.elapsed() < PATIENCE, "{pods} pods: {all:#?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Carries out a plan: cordons its nodes, evicts its pods in order, and deletes the nodes.
async fn carry_out(api: &Api, plan: &Value, pods: usize) -> Option<BTreeMap<String, usize>> {
    let going = plan["nodes"].as_array().expect("nodes");
    for node in going {
        let cordon = json!({ "spec": { "unschedulable": true } });
        api.patch(&path("Node", "", text(node, "name")), &cordon)
            .await;
    }
    let moves = plan["moves"].as_array().cloned().unwrap_or_default();
    for node in going.iter().filter(|node| node["emptied"] == true) {
        for step in moves.iter().filter(|step| step["from"] == node["name"]) {
            api.delete(&path("Pod", NAMESPACE, text(step, "pod")), 0)
                .await;
            if step["waitsForNode"] != true {
                settled(api, pods).await?;
            }
        }
        api.delete(&path("Node", "", text(node, "name")), 0).await;
        settled(api, pods).await?;
    }
    settled(api, pods).await
}

fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object[field].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: deploy/tools.sh install_control_plane"]
async fn drains_end_as_planned() {
    const PODS: usize = 21;
    let mut plane = turn().await;
    let rounds = std::env::var("ROUNDS").ok().and_then(|it| it.parse().ok());
    let rounds: usize = rounds.unwrap_or(20);
    let api = Api::connect(&plane.kubeconfig()).await;
    let _scheduler = start(&mut plane, &api).await;
    let mut number = 0;
    for zone in ZONES {
        for _ in 0..3 {
            add_node(&api, &format!("{zone}{number}"), zone).await;
            number += 1;
        }
    }
    api.create(&requesting("web", 12)).await;
    api.create(&requesting("db", 9)).await;
    settled(&api, PODS).await.expect("all pods fit");
    let mut rng = Rng::with_seed(7);
    let (mut whole, mut waited) = (0, 0);
    for round in 0..rounds {
        let all = api.list("Node").await;
        let names = all.iter().map(|node| name(node).to_owned());
        let names = rng.choose_multiple(names, 1 + round % 3);
        let plan = nodes(&plane, &format!("drain {}", names.join(" ")));
        let is_whole = plan["blocked"].as_array().is_none_or(Vec::is_empty);
        if is_whole {
            let landed = carry_out(&api, &plan, PODS).await;
            // The scheduler chooses other nodes than the plan, but no pod waits.
            let landed = landed.unwrap_or_else(|| panic!("pods wait after {plan:#}"));
            println!("drained {names:?}: {landed:?}");
            whole += 1;
        } else {
            for node in &names {
                api.delete(&path("Node", "", node), 0).await;
                for pod in api.list("Pod").await {
                    if pod["spec"]["nodeName"] == **node {
                        api.delete(&path("Pod", NAMESPACE, name(&pod)), 0).await;
                    }
                }
            }
            waited += usize::from(settled(&api, PODS).await.is_none());
        }
        for node in &names {
            if let Some(node) = api.get(&path("Node", "", node)).await {
                api.delete(&path("Node", "", name(&node)), 0).await;
            }
            add_node(&api, &format!("{}{number}", &node[..1]), &node[..1]).await;
            number += 1;
        }
        settled(&api, PODS).await.expect("all pods fit again");
    }
    println!("{whole} of {rounds} drains were whole; pods waited after {waited} of the others");
    assert!(whole > 0, "no drain was whole");
    end(&mut plane, &api).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: deploy/tools.sh install_control_plane"]
async fn nothing_waits_once_the_needed_nodes_are_made() {
    let mut plane = turn().await;
    let api = Api::connect(&plane.kubeconfig()).await;
    let _scheduler = start(&mut plane, &api).await;
    for zone in &ZONES[..2] {
        add_node(&api, &format!("{zone}0"), zone).await;
    }
    api.create(&requesting("web", 20)).await;
    assert_eq!(
        settled(&api, 20).await,
        None,
        "20 pods do not fit on 2 nodes"
    );
    let line = format!("need --pending --like a0 --in {ZONE}=a,b,c");
    let plan = nodes(&plane, &line);
    assert!(
        plan["unplaced"].as_array().is_none_or(Vec::is_empty),
        "{plan:#}"
    );
    let mut made = 0;
    for it in plan["newNodes"].as_array().expect("new nodes") {
        let zone = text(&it["domains"], ZONE);
        for _ in it["names"].as_array().into_iter().flatten() {
            made += 1;
            add_node(&api, &format!("{zone}{made}"), zone).await;
        }
    }
    let landed = settled(&api, 20).await;
    let landed = landed.unwrap_or_else(|| panic!("pods wait on the nodes of {plan:#}"));
    println!("{made} nodes were made: {landed:?}");
    end(&mut plane, &api).await;
}
