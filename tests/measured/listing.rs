//! What a question to a large cluster takes: time, memory, and the bytes that its API server sends.
//! `PODS=150000 cargo test --release --test measured -- --nocapture listing` prints the figures of
//! docs/evidence/kubernetes.md.

use std::io::Seek;
use std::process::Stdio;
use std::time::{Duration, Instant};

use evenkeel::proto::v1::{
    Container, LabelSelector, ObjectMeta, Pod, PodSpec, Quantity, ResourceRequirements,
    TopologySpreadConstraint,
};
use serde_json::json;
use support::api_server::{ApiServer, Crowd};
use support::build::{HOSTNAME, ZONE, pairs};
use support::process;

const NODES: usize = 5_000;

/// A pod of one of 1,000 workloads in 100 namespaces. Number 0 waits for a node.
fn pod(number: usize) -> Pod {
    let (workload, revision) = (number % 1_000, number / 1_000 % 2);
    let app = format!("app-{workload}");
    let labels = pairs(&[("app", &app), ("revision", &revision.to_string())]);
    let constraint = TopologySpreadConstraint {
        max_skew: 1,
        topology_key: ZONE.to_owned(),
        when_unsatisfiable: "DoNotSchedule".to_owned(),
        label_selector: Some(LabelSelector {
            match_labels: pairs(&[("app", &app)]),
            ..LabelSelector::default()
        }),
        ..TopologySpreadConstraint::default()
    };
    let requests = [("cpu", "100m"), ("memory", "128Mi")].map(|(name, value)| {
        let value = Quantity {
            string: value.to_owned(),
        };
        (name.to_owned(), value)
    });
    let node_name = match number {
        0 => String::new(),
        _ => format!("node-{}", number * 7 % NODES),
    };
    Pod {
        metadata: Some(ObjectMeta {
            name: format!("{app}-6bf4c7d9f8-{number:06}"),
            namespace: format!("team-{}", workload % 100),
            uid: format!("00000000-0000-4000-8000-{number:012}"),
            labels,
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            node_name,
            containers: vec![Container {
                name: "main".to_owned(),
                resources: Some(ResourceRequirements {
                    requests: requests.into(),
                }),
                ..Container::default()
            }],
            topology_spread_constraints: vec![constraint],
            ..PodSpec::default()
        }),
        ..Pod::default()
    }
}

fn cluster(pods: usize) -> ApiServer {
    let cluster = ApiServer::start();
    for number in 0..NODES {
        let name = format!("node-{number}");
        let labels = json!({ZONE: format!("zone-{}", number % 10), HOSTNAME: name});
        let room = json!({"cpu": "16", "memory": "64Gi", "pods": "110"});
        let node = json!({"kind": "Node", "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": room}});
        cluster.put("nodes", node);
    }
    for number in 0..100 {
        let name = format!("team-{number}");
        cluster.put("namespaces", json!({"metadata": {"name": name}}));
    }
    let mut waiting = serde_json::to_value(pod(0)).expect("JSON");
    waiting["kind"] = json!("Pod");
    waiting["apiVersion"] = json!("v1");
    cluster.put("pods", waiting);
    cluster.crowd(Crowd {
        count: pods,
        pod,
        unknown_bytes: 5_000,
    });
    cluster
}

/// What a question took.
struct Taken {
    seconds: f64,
    peak_mib: u64,
    sent_mib: u64,
    asked: Vec<String>,
}

/// Asks about the pod that waits, and checks the answer.
fn ask(cluster: &ApiServer, flags: &[&str]) -> Taken {
    let kubeconfig = cluster.kubeconfig();
    let kubeconfig = kubeconfig.to_str().expect("a path");
    let mut args = vec!["explain", "pod/app-0-6bf4c7d9f8-000000", "-n", "team-0"];
    args.extend(["--kubeconfig", kubeconfig, "-o", "json"]);
    args.extend(flags);
    let (start, sent) = (Instant::now(), cluster.crowd_bytes());
    cluster.take_asked();
    // A pipe would hold up the program once it is full.
    let mut answer = tempfile::tempfile().expect("a temporary file");
    let into = answer.try_clone().expect("another handle");
    let mut child = process::command(&args)
        .stdout(Stdio::from(into))
        .spawn()
        .expect("the binary starts");
    let mut peak_kib = 0;
    while child.try_wait().expect("it is our child").is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let status = status.unwrap_or_default();
        let peak = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|it| it.trim().strip_suffix(" kB")?.parse().ok());
        peak_kib = peak.unwrap_or(peak_kib);
        std::thread::sleep(Duration::from_millis(20));
    }
    let seconds = start.elapsed().as_secs_f64();
    assert!(child.wait().expect("it has ended").success());
    answer.rewind().expect("it is a file");
    let answer: serde_json::Value = serde_json::from_reader(answer).expect("JSON");
    // All pods of the workload are in one zone of ten.
    let feasible = (NODES / 10 * 9).to_string();
    assert_eq!(answer["feasibleCount"], json!(feasible));
    let asked = cluster.take_asked();
    Taken {
        seconds,
        peak_mib: peak_kib >> 10,
        sent_mib: (cluster.crowd_bytes() - sent) >> 20,
        asked: asked
            .into_iter()
            .filter(|it| it.contains("/pods?"))
            .collect(),
    }
}

/// The pods of a page take memory only until they are counted.
#[test]
fn a_question_to_a_large_cluster_takes_little() {
    let pods = std::env::var("PODS").map_or(15_000, |it| it.parse().expect("a number"));
    let cluster = cluster(pods);
    let whole = ask(&cluster, &[]);
    let spread = ask(&cluster, &["--spread-only"]);
    let pages = pods.div_ceil(500);
    assert_eq!(whole.asked.len(), pages, "{:?}", whole.asked);
    // What the constraint counts is asked for by its namespace and its label.
    let (namespace, label) = ("/namespaces/team-0/pods?", "labelSelector=app%3Dapp-0");
    let is_narrow = |it: &String| it.contains(namespace) && it.contains(label);
    assert!(spread.asked.iter().all(is_narrow), "{:?}", spread.asked);
    assert!(
        spread.sent_mib <= whole.sent_mib / 100,
        "{}",
        spread.sent_mib
    );
    // A page takes some 10 MiB, and a pod that is counted some 500 bytes.
    let most = 96 + (pods as u64 / 1_000);
    assert!(whole.peak_mib <= most, "{} MiB of {most}", whole.peak_mib);
    for (what, it) in [("", &whole), (" --spread-only", &spread)] {
        println!(
            "explain pod/x{what}: {pods} pods, {:.1} s, {} MiB at most, {} MiB of pods in {} pages",
            it.seconds,
            it.peak_mib,
            it.sent_mib,
            it.asked.len(),
        );
    }
}
