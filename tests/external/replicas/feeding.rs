//! One of several servers that watch a cluster feeds the fleet. When it fails, another one soon
//! takes over.

use std::time::Duration;

use serde_json::{Value, json};

use crate::replicas::api_server::ApiServer;
use crate::replicas::fleet::{Client, Fleet, described};
use crate::replicas::http::get;
use crate::replicas::metrics::Page;
use crate::replicas::process::{Server, command, until};

fn node(name: &str) -> Value {
    json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "uid": name}})
}

/// Returns whether a server says that it feeds.
fn is_feeding(admin: &str) -> bool {
    let labels = ["snapshot=\"default\""];
    Page::of(admin).value("evenkeel_kubernetes_feeding", &labels) > 0.0
}

/// Waits until all servers hold these nodes and nothing else.
async fn hold(fleet: &Fleet, names: &[&str]) {
    loop {
        let held = fleet.agree("default").await.objects;
        let has = |name: &&str| held.iter().any(|it| it.contains(&format!("\"{name}\"")));
        if held.len() == names.len() && names.iter().all(has) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until a server knows that its fleet has read the nodes, whichever server feeds.
async fn has_read(fleet: &Fleet, number: usize, cluster: &ApiServer) {
    let nodes = cluster.objects("nodes");
    let version = |node: &Value| {
        let version = node["metadata"]["resourceVersion"].as_str();
        version.expect("text").parse().expect("a number")
    };
    let newest: u64 = nodes.iter().map(version).max().expect("there are some");
    let mut client = fleet.client(number);
    loop {
        let snapshot = described(&mut client, "default").await;
        let read = snapshot.ok().map(|it| it.resource_versions);
        if read.is_some_and(|read| read.get("Node").is_some_and(|it| *it >= newest)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn one_server_feeds_and_another_takes_over() {
    let cluster = ApiServer::start();
    cluster.put("nodes", node("first"));
    let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig().display());
    let watching = ["--kubernetes", &kubeconfig, "--admin-listen", "127.0.0.1:0"];
    let mut fleet = Fleet::start(1, 2, &watching);
    let admins = [fleet.admin(0), fleet.admin(1)];
    let feeder = until("one feeds", || (0..2).find(|at| is_feeding(&admins[*at])));
    let other = 1 - feeder;
    hold(&fleet, &["first"]).await;
    for number in [feeder, other] {
        has_read(&fleet, number, &cluster).await;
    }
    let told = until("the other one stands by", || {
        let page = get(&admins[other], "/readyz");
        (page.status == 200 && page.body.contains("stands by")).then_some(page.body)
    });
    assert!(told.contains("feed of snapshot default: "), "{told}");
    assert!(!is_feeding(&admins[other]));

    // A paused server cannot say that it stops feeding.
    fleet.signal(feeder, "STOP");
    cluster.put("nodes", node("second"));
    cluster.delete("nodes", "first");
    until("the other one feeds", || {
        is_feeding(&admins[other]).then_some(())
    });
    until("it has what changed", || {
        let lists = cluster.lists("nodes");
        (lists >= 2).then_some(())
    });
    fleet.signal(feeder, "CONT");
    until("it knows", || (!is_feeding(&admins[feeder])).then_some(()));
    hold(&fleet, &["second"]).await;

    fleet.signal(other, "KILL");
    until("the first one feeds again", || {
        is_feeding(&admins[feeder]).then_some(())
    });
    fleet.run(other);
    cluster.put("nodes", node("third"));
    hold(&fleet, &["second", "third"]).await;
    for number in [feeder, other] {
        has_read(&fleet, number, &cluster).await;
    }
}

/// Two clusters whose servers share a fleet by mistake: the second one is refused, says which
/// cluster feeds, and does not feed when the first one is gone.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn a_second_cluster_is_refused() {
    let clusters = ["one", "two"].map(|name| {
        let cluster = ApiServer::start();
        let uid = format!("uid-of-{name}");
        let system = json!({"kind": "Namespace", "apiVersion": "v1",
            "metadata": {"name": "kube-system", "uid": uid}});
        cluster.put("namespaces", system);
        cluster.put("nodes", node(name));
        cluster
    });
    let [first, second] = clusters
        .each_ref()
        .map(|cluster| format!("--kubeconfig={}", cluster.kubeconfig().display()));
    let watching = ["--kubernetes", &first, "--admin-listen", "127.0.0.1:0"];
    let mut fleet = Fleet::start(1, 1, &watching);
    hold(&fleet, &["one", "kube-system"]).await;
    let mut serve = command(&["serve", "--kubernetes", &second, "--admin-listen"]);
    serve.arg("127.0.0.1:0").args(fleet.log_flags());
    let mut other = Server::spawn(&mut serve);
    let admin = other.logged("admin listening", "address");
    let is_refused = || {
        let page = get(&admin, "/readyz");
        let line = "feed of snapshot default: it is fed from the cluster uid-of-one";
        let is_told = page.body.contains(line) && page.body.contains("(uid-of-two)");
        (page.status == 503 && is_told).then_some(())
    };
    until("it is refused", is_refused);
    fleet.signal(0, "KILL");
    // By then the lease of the first server is over.
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert!(is_refused().is_some() && !is_feeding(&admin));
    let held = described(&mut Client::new(other.channel()), "default").await;
    assert_eq!(held.expect("it answers").node_count, 1);
    assert_eq!(clusters[1].lists("nodes"), 0, "nothing is read to be fed");
}
