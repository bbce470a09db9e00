//! `serve` with files to load first.

use crate::desk;
use crate::ports::free_ports;
use crate::process::{Server, until};

#[test]
fn a_server_is_ready_once_its_files_are_loaded() {
    let desk = desk();
    let line = "serve --load cluster.yaml --snapshot prod --default-constraints system";
    let mut server = Server::spawn(&mut desk.command(line));
    let loaded = server.logged("loaded files", "loaded");
    assert_eq!(loaded, "5 Node, 3 Pod, 1 Service");

    let desk = desk.with_server(server.url());
    until("the server is ready", || {
        (desk.run("healthcheck").code == 0).then_some(())
    });
    desk.run("healthcheck --service prod").expect(0);
    let question = "score -f workloads.yaml --name db --snapshot prod";
    let remote = desk.run(question).expect(0);
    let files = "--load cluster.yaml --default-constraints system";
    assert_eq!(
        remote.out,
        desk.run(&format!("{question} {files}")).expect(0).out
    );
}

/// Whatever reads the logs may end before the server does.
#[test]
fn a_server_outlives_the_reader_of_its_logs() {
    let address = format!("127.0.0.1:{}", free_ports(1));
    let desk = desk().with_server(&address);
    let mut server = desk
        .command(&format!("serve --listen {address}"))
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the binary starts");
    drop(server.stderr.take());
    until("the server is ready", || {
        (desk.run("healthcheck").code == 0).then_some(())
    });
    desk.run("load cluster.yaml").expect(0);
    server.kill().expect("it still runs");
    server.wait().expect("it has ended");
}

#[test]
fn a_file_that_cannot_be_loaded_ends_the_server_and_says_why() {
    let desk = desk()
        .file(
            "bad.yaml",
            "kind: Node\nmetadata: {name: n1, labels: {bad key: v}}",
        )
        .file("settings.toml", "load = [\"nowhere.yaml\"]");
    let cases = [
        (
            "--load nowhere.yaml",
            "error: cannot load: nowhere.yaml: No such file or directory",
        ),
        (
            "--config settings.toml",
            "error: cannot load: nowhere.yaml: No such file or directory",
        ),
        (
            "--load bad.yaml",
            "\n  Node n1 (bad.yaml, document 1): metadata.labels: key \"bad key\" must be",
        ),
    ];
    for (flags, expected) in cases {
        let outcome = desk
            .run(&format!("serve --listen 127.0.0.1:0 {flags}"))
            .expect(1);
        outcome.complains(expected);
    }
}
