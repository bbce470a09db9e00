//! `evenkeel admin synth`, which makes synthetic clusters.

use crate::cli::evenkeel::objects;
use crate::cli::workspace;
use support::server::Server;

const SHAPE: &str = "--nodes 12 --pods 300 --zones 4 --workloads 10 --taint-every 5 --seed 3";

#[test]
fn a_made_up_cluster_loads_and_is_what_goes_into_a_server() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let server = runtime.block_on(Server::start());
    let workspace = workspace().with_server(&server.address);

    let written = workspace.expect(0, &format!("synth file.json {SHAPE}"));
    assert_eq!(written.out, "312 objects written to file.json\n");
    let loaded = workspace.expect(0, "load file.json").out;
    let sent = workspace.run(&format!("synth --into {SHAPE} --snapshot sent"));
    let sent = sent.expect(0).out;
    assert_eq!(loaded.replace("default", "sent"), sent);

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
    workspace.expect(0, &format!("synth file.json {SHAPE} --resources"));
    let out = workspace.expect(1, "filter -f large.yaml --load file.json");
    out.says("10 Insufficient cpu");

    workspace.expect(0, &format!("synth file.json {SHAPE}"));
    let out = workspace.expect(0, "filter -f large.yaml --load file.json");
    out.says("feasible: 10 of 12");
}

#[test]
fn either_a_file_or_a_server_is_needed() {
    workspace().expect(2, "synth --nodes 3");
    workspace().expect(2, "synth - --into");
}
