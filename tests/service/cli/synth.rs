//! The generator of synthetic clusters: shapes and seeds, and its files, which the program takes.

use std::collections::HashSet;
use std::fs::File;

use clap::Parser;
use evenkeel::proto::v1;
use fastrand::Rng;
use support::server::Server;
use support::synth::{
    Flags, HOSTNAME_KEY, INSTANCE_TYPE_KEY, NameSuffixes, RACK_KEY, Shape, SyntheticCluster,
    ZONE_KEY,
};

use super::evenkeel::{Workspace, objects};
use super::workspace;

fn shape() -> Shape {
    Shape {
        nodes: 70,
        pods: 2_000,
        zones: 3,
        workloads: 40,
        namespaces: 4,
        taint_every: 10,
        seed: 7,
    }
}

fn with(change: impl FnOnce(&mut Shape)) -> Vec<v1::Change> {
    let mut shape = shape();
    change(&mut shape);
    SyntheticCluster::new(shape)
        .into_batches(1_000)
        .flatten()
        .collect()
}

#[test]
fn has_the_shape_that_was_asked_for() {
    let cluster = SyntheticCluster::new(shape());
    let pods: Vec<v1::Pod> = cluster.pods().collect();
    let metadata = || pods.iter().filter_map(|pod| pod.metadata.as_ref());
    let distinct =
        |value: fn(&v1::ObjectMeta) -> String| metadata().map(value).collect::<HashSet<_>>().len();
    assert_eq!(pods.len(), 2_000);
    assert_eq!(distinct(|m| format!("{}/{}", m.namespace, m.name)), 2_000);
    assert_eq!(distinct(|m| m.uid.clone()), 2_000);
    assert_eq!(distinct(|m| m.namespace.clone()), 4);
    assert_eq!(distinct(|m| m.labels["app"].clone()), 40);
    assert_eq!(distinct(|m| format!("{:?}", m.labels)), 45);

    let nodes: Vec<v1::Node> = cluster.nodes().collect();
    let label = |key: &str| {
        let labels = nodes.iter().filter_map(|node| node.metadata.as_ref());
        labels
            .map(|m| m.labels[key].clone())
            .collect::<HashSet<_>>()
            .len()
    };
    let tainted = nodes.iter().filter_map(|node| node.spec.as_ref());
    assert_eq!(tainted.filter(|spec| !spec.taints.is_empty()).count(), 7);
    assert_eq!(
        [HOSTNAME_KEY, ZONE_KEY, RACK_KEY, INSTANCE_TYPE_KEY].map(label),
        [70, 3, 2, 2]
    );
}

#[test]
fn is_the_same_for_the_same_seed_alone() {
    assert_eq!(with(|_| ()), with(|_| ()));
    assert_ne!(with(|_| ()), with(|shape| shape.seed = 8));
}

#[test]
fn has_resources_on_demand_and_is_the_same_otherwise() {
    let plain = SyntheticCluster::new(shape());
    let with = plain.clone().with_resources();
    for (plain, mut node) in plain.nodes().zip(with.nodes()) {
        let status = node.status.take().expect("a node says what it has");
        let names: Vec<&String> = status.allocatable.keys().collect();
        assert_eq!(names, ["cpu", "ephemeral-storage", "memory", "pods"]);
        assert_eq!(node, plain);
    }
    let mut requests = HashSet::new();
    for (plain, mut pod) in plain.pods().zip(with.pods()) {
        let spec = pod.spec.as_mut().expect("a pod has a spec");
        for container in spec.containers.drain(..) {
            requests.insert(format!("{:?}", container.resources));
        }
        assert_eq!(pod, plain);
    }
    assert_eq!(requests.len(), 5);
}

#[test]
fn needs_nodes_for_pods_and_no_more() {
    assert!(with(|shape| shape.nodes = 0).is_empty());
    assert_eq!(with(|shape| shape.pods = 0).len(), 70);
    let zeros = |shape: &mut Shape| (shape.zones, shape.workloads, shape.namespaces) = (0, 0, 0);
    assert_eq!(with(zeros).len(), 2_070);
}

#[test]
fn suffixes_outgrow_their_length() {
    let names = NameSuffixes::new(&mut Rng::with_seed(1), 27_usize.pow(5) + 1);
    assert_eq!(
        names.take(2).map(|name| name.len()).collect::<Vec<_>>(),
        [6, 6]
    );
}

/// The cluster of a file, `file.json` in a workspace.
fn write(workspace: &Workspace, flags: &str) -> SyntheticCluster {
    let shape = "synth --nodes 12 --pods 300 --zones 4 --workloads 10 --taint-every 5 --seed 3";
    let flags = shape.split(' ').chain(flags.split_whitespace());
    let file = File::create(workspace.path("file.json")).expect("a file is made");
    let cluster = Flags::parse_from(flags).cluster();
    cluster.write_list(file).expect("it is written");
    cluster
}

#[test]
fn a_file_has_the_objects_of_the_cluster() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let server = runtime.block_on(Server::start());
    let workspace = workspace().with_server(&server.address);
    let cluster = write(&workspace, "");
    let loaded = workspace.expect(0, "load file.json").out;
    assert!(loaded.contains("12 Node, 300 Pod"), "{loaded}");
    let all = cluster.into_batches(1_000).flatten().collect();
    let defaults = v1::DefaultConstraints {
        system: true,
        ..Default::default()
    };
    runtime.block_on(server.replace("sent", all, defaults));

    let save = |snapshot: &str| {
        let line = format!("snapshot save - --snapshot {snapshot}");
        workspace.expect(0, &line).out
    };
    assert_eq!(objects(&save("default")), objects(&save("sent")));
}

/// Nodes with resources are checked for room.
#[test]
fn a_cluster_with_resources_refuses_what_is_too_large() {
    let large = "kind: Pod\nspec: {containers: [{resources: {requests: {cpu: 16}}}]}\n";
    let workspace = workspace().file("large.yaml", large);
    write(&workspace, "--resources");
    let out = workspace.expect(1, "filter -f large.yaml --load file.json");
    out.says("10 Insufficient cpu");

    write(&workspace, "");
    let out = workspace.expect(0, "filter -f large.yaml --load file.json");
    out.says("feasible: 10 of 12");
}
