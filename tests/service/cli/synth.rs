//! The generator of synthetic clusters: shapes and seeds, and its files, which the program takes.

use std::fs::File;

use clap::Parser;
use evenkeel::proto::v1;
use support::server::Server;
use support::synth::{Flags, Shape, SyntheticCluster};

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
fn is_the_same_for_the_same_seed_alone() {
    assert_eq!(with(|_| ()), with(|_| ()));
    assert_ne!(with(|_| ()), with(|shape| shape.seed = 8));
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
