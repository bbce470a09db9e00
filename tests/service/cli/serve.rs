//! `serve` with files to load first.

use crate::cli::ports::free_ports;
use crate::cli::process::{Server, until};
use crate::cli::workspace;

#[test]
fn a_server_is_ready_once_its_files_are_loaded() {
    let workspace = workspace();
    let line = "serve --load cluster.yaml --snapshot prod --default-constraints system";
    let mut server = Server::spawn(&mut workspace.command(line));
    let loaded = server.logged("loaded files", "loaded");
    assert_eq!(loaded, "5 Node, 3 Pod, 1 Service");

    let workspace = workspace.with_server(server.url());
    until("the server is ready", || {
        (workspace.run("healthcheck").code == 0).then_some(())
    });
    workspace.expect(0, "healthcheck --service prod");
    let question = "score -f workloads.yaml --name db --snapshot prod";
    let remote = workspace.expect(0, question);
    let files = "--load cluster.yaml --default-constraints system";
    assert_eq!(
        remote.out,
        workspace.expect(0, &format!("{question} {files}")).out
    );
}

/// The reader of the logs may end before the server does.
#[test]
fn a_server_outlives_the_reader_of_its_logs() {
    let address = format!("127.0.0.1:{}", free_ports(1));
    let workspace = workspace().with_server(&address);
    let mut server = workspace
        .command(&format!("serve --listen {address}"))
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the binary starts");
    drop(server.stderr.take());
    until("the server is ready", || {
        (workspace.run("healthcheck").code == 0).then_some(())
    });
    workspace.expect(0, "load cluster.yaml");
    server.kill().expect("it still runs");
    server.wait().expect("it has ended");
}

#[test]
fn a_file_that_cannot_be_loaded_ends_the_server_and_says_why() {
    let workspace = workspace()
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
            "Node n1 (bad.yaml, document 1): metadata.labels: key \"bad key\" must be",
        ),
    ];
    for (flags, expected) in cases {
        let serve = format!("serve --listen 127.0.0.1:0 {flags}");
        let outcome = workspace.expect(1, &format!("{serve} --log-format human"));
        outcome.complains(expected);
        // Without a terminal, as in a container, the log is JSON.
        for format in ["", " --log-format json --log-level off"] {
            let outcome = workspace.expect(1, &format!("{serve}{format}"));
            let message = fatal(&outcome.err);
            let expected = expected.trim_start_matches("error: ").trim_start();
            assert!(message.contains(expected), "{message}");
        }
    }
}

/// The message of the last log line, which is an error in JSON.
fn fatal(log: &str) -> String {
    let last = log.lines().last().unwrap_or_default();
    let line: serde_json::Value = serde_json::from_str(last).expect(log);
    assert_eq!(line["level"], "ERROR", "{log}");
    assert!(line["timestamp"].is_string(), "{log}");
    line["message"].as_str().expect(log).to_owned()
}

#[test]
fn bad_settings_are_told_as_the_server_logs() {
    let workspace = workspace()
        .file("bad.toml", "max_nodes = \"many\"")
        .file("json.toml", "log_format = \"json\"\nmax_nodes = 0");
    let cases = [
        ("serve --max-nodes many", "--max-nodes"),
        ("serve --config bad.toml", "bad.toml: max_nodes"),
        ("serve --config nowhere.toml", "nowhere.toml"),
        ("serve --listen 0.0.0.0:0", "plain text"),
        ("serve --config json.toml", "json.toml: max_nodes"),
    ];
    for (line, words) in cases {
        for format in ["", " --log-format json"] {
            let outcome = workspace.expect(64, &format!("{line}{format}"));
            assert_eq!(outcome.err.lines().count(), 1, "{}", outcome.err);
            let message = fatal(&outcome.err);
            assert!(message.contains(words), "{message}");
        }
        let outcome = workspace.expect(64, &format!("{line} --log-format human"));
        assert!(outcome.err.starts_with("error: "), "{}", outcome.err);
        outcome.complains(words);
    }
}
