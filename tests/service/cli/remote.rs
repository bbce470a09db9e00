//! Commands that talk to a server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use serde_json::json;
use tokio::runtime::Runtime;

use crate::cli::evenkeel::{Workspace, objects};
use crate::cli::process::until;
use crate::cli::workspace;
use support::server::Server;

/// A server and a workspace that talks to it. The runtime keeps the server running.
pub fn with_server() -> (Runtime, Server, Workspace) {
    let runtime = Runtime::new().expect("a runtime starts");
    let server = runtime.block_on(Server::start());
    let workspace = workspace().with_server(&server.address);
    (runtime, server, workspace)
}

#[test]
fn a_server_answers_as_the_files_do() {
    let (_runtime, _server, workspace) = with_server();
    workspace.expect(0, "load cluster.yaml --default-constraints system");
    for line in [
        "filter -f workloads.yaml --name web",
        "filter -f workloads.yaml --name web --spread-only --overlay-delete pod/w1",
        "score -f workloads.yaml --name db",
    ] {
        let remote = workspace.run(line);
        let local = workspace.run(&format!(
            "{line} --load cluster.yaml --default-constraints system"
        ));
        assert_eq!(local.out, remote.out, "{line}");
        assert_eq!(local.code, remote.code, "{line}");
    }
}

#[test]
fn load_sums_up_and_replaces_or_merges() {
    let (_runtime, _server, workspace) = with_server();
    let workspace = workspace.file("node.yaml", "kind: Node\nmetadata: {name: d1}");
    let cases = [
        (
            "load cluster.yaml",
            "snapshot \"default\", revision 1\n  loaded   5 Node, 3 Pod, 1 Service\n  \
             changed  9, unchanged 0\n  skipped  1 ConfigMap\n",
        ),
        (
            "load node.yaml --merge",
            "snapshot \"default\", revision 2\n  loaded   1 Node\n  changed  1, unchanged 0\n",
        ),
        (
            "load node.yaml --merge",
            "snapshot \"default\", revision 3\n  loaded   1 Node\n  changed  0, unchanged 1\n",
        ),
    ];
    for (line, expected) in cases {
        assert_eq!(workspace.expect(0, line).out, expected);
    }
    let counts = |line: &str| {
        let snapshot = workspace.expect(0, &format!("{line} -o json")).json();
        json!([snapshot["nodeCount"], snapshot["podCount"]])
    };
    assert_eq!(counts("snapshot get"), json!(["6", "3"]));
    workspace.expect(0, "load node.yaml --snapshot other");
    for line in [
        "snapshot get othr",
        "snapshot save saved.json -s othr",
        "verify -s othr",
    ] {
        let refused = workspace.expect(2, line);
        refused.complains("(NotFound); the nearest are other, default");
    }
    for line in ["snapshot get -s other", "snapshot get other"] {
        assert_eq!(counts(line), json!(["1", null]), "{line}");
    }
    workspace.expect(0, "load node.yaml");
    assert_eq!(counts("snapshot get"), json!(["1", null]));
}

#[test]
fn many_objects_go_in_batches_and_appear_at_once() {
    let (_runtime, _server, workspace) = with_server();
    let nodes: Vec<_> = (0..2_500)
        .map(|number| json!({"kind": "Node", "metadata": {"name": format!("n{number}")}}))
        .collect();
    let workspace = workspace.file(
        "nodes.json",
        &json!({"kind": "List", "items": nodes}).to_string(),
    );
    let answer = workspace.expect(0, "load nodes.json -o json").json();
    assert_eq!(answer["revision"], "1");
    assert_eq!(answer["changedCount"], "2500");

    let mut bad = nodes;
    bad[2_200]["metadata"]["labels"] = json!({"bad key": "v"});
    let workspace = workspace.file(
        "bad.json",
        &json!({"kind": "List", "items": bad}).to_string(),
    );
    let outcome = workspace.expect(2, "load bad.json");
    let expected = "  Node n2200 (bad.json, item 2201): metadata.labels: key \"bad key\" ";
    assert!(
        outcome.err.lines().any(|line| line.starts_with(expected)),
        "{}",
        outcome.err
    );
    let snapshot = workspace.expect(0, "snapshot get -o json").json();
    assert_eq!(snapshot["revision"], "1");
}

#[test]
fn snapshots_are_listed_saved_restored_and_deleted() {
    let (_runtime, _server, workspace) = with_server();
    assert_eq!(workspace.expect(0, "snapshot list").out, "no snapshots\n");
    workspace.expect(0, "load cluster.yaml --default-constraints system");
    workspace.expect(0, "snapshot save saved.json");
    workspace.expect(0, "snapshot restore saved.json --snapshot copy");
    assert_eq!(
        workspace.expect(0, "snapshot list -o name").out,
        "copy\ndefault\n"
    );
    let copy = workspace.expect(0, "snapshot save - --snapshot copy").out;
    let saved = std::fs::read_to_string(workspace.path("saved.json")).expect("it was written");
    assert_eq!(objects(&copy), objects(&saved));

    workspace.expect(0, "snapshot restore saved.json --snapshot again");
    workspace.expect(0, "snapshot delete --snapshot again");
    workspace.expect(0, "snapshot delete default");
    assert_eq!(workspace.expect(0, "snapshot list -o name").out, "copy\n");
    for line in [
        "snapshot delete default",
        "snapshot get",
        "snapshot save gone.json",
        "filter -f workloads.yaml --name web",
    ] {
        let outcome = workspace.expect(2, line);
        outcome.complains("(NotFound)");
    }
    assert!(!workspace.path("gone.json").exists());
}

#[test]
fn a_server_is_verified() {
    let (_runtime, _server, workspace) = with_server();
    workspace.expect(0, "load cluster.yaml");
    workspace.expect(1, "filter -f workloads.yaml --name web");
    let out = workspace.expect(0, "verify").out;
    let start = "OK: snapshot \"default\", revision 1: views 1, partitions ";
    assert!(out.starts_with(start), "{out}");
    assert!(out.ends_with(", label sets 1, nodes 5, pods 3\n"), "{out}");
    // A snapshot from files was asked nothing yet, so it has no views.
    let answer = workspace.expect(0, "verify --load cluster.yaml -o json");
    assert_eq!(
        answer.json(),
        json!({
            "revision": "1", "epoch": answer.json()["epoch"], "nodeCount": "5", "podCount": "3",
            "labelSetCount": "1",
        })
    );
    let outcome = workspace.expect(2, "verify -s none");
    outcome.complains("(NotFound)");
}

#[test]
fn a_revision_can_be_waited_for() {
    let (_runtime, _server, workspace) = with_server();
    workspace.expect(0, "load cluster.yaml");
    let line = "filter -f workloads.yaml --name db -o name --min-revision";
    workspace.expect(0, &format!("{line} 1"));
    // A slow machine may end the call before the answer is there.
    let outcome = until("the answer that the revision was not reached", || {
        let outcome = workspace.run(&format!("{line} 2 --timeout 500ms"));
        (outcome.code != 3).then_some(outcome)
    });
    let outcome = outcome.expect(2);
    let told = "error: snapshot \"default\" is at revision 1 and did not reach 2 in time";
    assert!(outcome.err.starts_with(told), "{}", outcome.err);
}

#[test]
fn the_environment_names_server_and_snapshot_and_flags_win() {
    let (_runtime, _server, workspace) = with_server();
    workspace.expect(0, "load cluster.yaml --snapshot named");
    let run = |line: &str| {
        let output = workspace
            .command(line)
            .env("EVENKEEL_SNAPSHOT", "named")
            .output();
        output.expect("the binary runs").status.code()
    };
    assert_eq!(run("snapshot get"), Some(0));
    assert_eq!(run("snapshot get --snapshot other"), Some(2));
    assert_eq!(run("snapshot get named"), Some(0));
    assert_eq!(run("snapshot get other"), Some(2));
    // With files, the server that the environment names is not asked.
    assert_eq!(run("snapshot get --load cluster.yaml"), Some(0));
}

/// A port that answers every connection in HTTP/1, as an admin port does.
fn http1() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().take(20).flatten() {
            let mut stream = stream;
            let mut begun = [0; 512];
            // The request is ignored, because it is not HTTP/1.
            let _ = stream.read(&mut begun);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        }
    });
    address
}

/// A port that answers every call in HTTP/2 with this status, as a proxy does
/// that knows no server.
fn http2(status: u8) -> SocketAddr {
    // Settings, and the head of an answer without a body on the first stream.
    const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
    const HEADERS: u8 = 1;
    const PREFACE: usize = 24;
    let answer = [0, 0, 1, HEADERS, 5, 0, 0, 0, 1, status];
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let serve = move |mut stream: TcpStream| -> std::io::Result<()> {
        stream.write_all(SETTINGS)?;
        stream.read_exact(&mut [0; PREFACE])?;
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head)?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            stream.read_exact(&mut vec![0; length as usize])?;
            if head[3] == HEADERS {
                stream.write_all(&answer)?;
            }
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().take(20).flatten() {
            // `serve` ends with an error when the connection closes.
            let _ = serve(stream);
        }
    });
    address
}

/// An error about an address is a sentence of the program, not of a library.
#[test]
fn a_wrong_address_is_named() {
    let (_runtime, server, _) = with_server();
    let plain = server.address.trim_start_matches("http://");
    let http1 = http1();
    // The bytes are the statuses 404 and 200 in HPACK.
    let (not_found, ok) = (http2(0x8d), http2(0x88));
    let cases = [
        (
            format!("http://{not_found}"),
            3,
            format!("{not_found} answers with HTTP status 404 Not Found, and not in gRPC"),
        ),
        (
            format!("http://{ok}"),
            3,
            format!("{ok} answers with HTTP status 200 OK, and not in gRPC"),
        ),
        (
            format!("https://{plain}"),
            3,
            format!("{plain} speaks plain text, without TLS: use http://{plain}"),
        ),
        (
            format!("http://{http1}"),
            3,
            format!("{http1} answers in HTTP/1, so it is not the gRPC port of a server"),
        ),
        (
            format!("https://{http1}"),
            3,
            format!("{http1} answers in HTTP/1, so it is not the gRPC port of a server"),
        ),
        (
            "ipv4:10.0.0.1:50051,10.0.0.2:50051".to_owned(),
            2,
            "must be one address, such as 10.0.0.1:50051".to_owned(),
        ),
        (
            "10.0.0.1:50051,10.0.0.2:50051".to_owned(),
            2,
            "must be one address, such as 10.0.0.1:50051".to_owned(),
        ),
        (
            "grpc://10.0.0.1:50051".to_owned(),
            2,
            "must be one address, such as 10.0.0.1:50051".to_owned(),
        ),
    ];
    let workspace = workspace();
    for command in [
        "snapshot list",
        "load cluster.yaml",
        "filter -f workloads.yaml --name web",
    ] {
        for (address, code, said) in &cases {
            let outcome = workspace.run(&format!("{command} --server {address}"));
            let outcome = outcome.expect(*code);
            outcome.complains(said);
        }
    }
}
