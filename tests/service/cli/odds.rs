//! Commands other than decisions, and the form of output.

use std::process::Stdio;

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::TcpListenerStream;
use tonic_health::ServingStatus;

use crate::cli::evenkeel::Workspace;
use crate::cli::process::Server;
use crate::cli::workspace;

#[test]
fn healthcheck_asks_the_health_service() {
    let runtime = Runtime::new().expect("a runtime starts");
    let address = runtime.block_on(async {
        let (reporter, service) = tonic_health::server::health_reporter();
        reporter
            .set_service_status("ready", ServingStatus::Serving)
            .await;
        reporter
            .set_service_status("waiting", ServingStatus::NotServing)
            .await;
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port is free");
        let address = listener.local_addr().expect("it is bound").to_string();
        let serve = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(serve.serve_with_incoming(TcpListenerStream::new(listener)));
        address
    });
    let workspace = Workspace::new().with_server(&address);
    for (line, code, expected) in [
        ("healthcheck", 0, "SERVING\n"),
        ("healthcheck --service ready", 0, "SERVING\n"),
        ("healthcheck --service waiting", 1, "NOT_SERVING\n"),
        ("healthcheck --service nothing", 1, "SERVICE_UNKNOWN\n"),
    ] {
        assert_eq!(workspace.expect(code, line).out, expected, "{line}");
    }
    // The other server has no snapshots to name.
    let server = Server::start(&[]);
    let workspace = cluster_in(server.url());
    for (line, said) in [
        ("default", "SERVING"),
        (
            "defualt",
            "no service or snapshot is called defualt; the nearest are default,",
        ),
        (
            "evenkeel.v1.Spread",
            "nearest are evenkeel.v1.SpreadService,",
        ),
    ] {
        let told = workspace.run(&format!("healthcheck --service {line}"));
        assert!(
            told.out.contains(said) || told.err.contains(said),
            "{told:?}"
        );
    }
}

/// Commands that talk to this server, whose default snapshot has two nodes.
fn cluster_in(server: &str) -> Workspace {
    let node = |name: &str| format!("kind: Node\nmetadata: {{name: {name}}}\n---\n");
    let workspace = Workspace::new()
        .with_server(server)
        .file("nodes.yaml", &(node("worker-one") + &node("worker-two")))
        .file("pod.yaml", "kind: Pod\nmetadata: {name: p}\n");
    workspace.expect(0, "load nodes.yaml");
    workspace
}

#[test]
fn colours_are_written_only_where_they_are_wanted() {
    let workspace = workspace();
    let line = "filter -f workloads.yaml --name web --load cluster.yaml";
    let escape = '\u{1b}';
    assert!(!workspace.run(line).out.contains(escape));
    assert!(
        workspace
            .run(&format!("{line} --color always"))
            .out
            .contains(escape)
    );
    let forced = workspace
        .command(line)
        .env("CLICOLOR_FORCE", "1")
        .output()
        .expect("the binary runs");
    assert!(forced.stdout.contains(&(escape as u8)));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let workspace = workspace();
    for (line, code) in [
        ("completions bash", 0),
        ("filter -f workloads.yaml --name web --load cluster.yaml", 1),
        ("snapshot save - --load cluster.yaml", 0),
    ] {
        let mut child = workspace
            .command(line)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("the binary ends");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), err.as_ref()),
            (Some(code), ""),
            "{line}"
        );
    }
}
