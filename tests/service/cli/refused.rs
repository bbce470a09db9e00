//! Refusals: their words, and the exit code.

use crate::cli::evenkeel::Workspace;
use crate::cli::workspace;

#[test]
fn a_server_that_is_not_there_ends_with_3() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    drop(listener);
    let workspace = workspace().with_server(&address);
    for line in [
        "load cluster.yaml",
        "filter -f workloads.yaml --name web",
        "score -f workloads.yaml --name web",
        "snapshot list",
        "snapshot get",
        "snapshot save saved.json",
        "snapshot delete default",
        "healthcheck",
    ] {
        let outcome = workspace.expect(3, line);
        let expected = format!("error: cannot reach the server at {address}: ");
        assert!(
            outcome.err.starts_with(&expected),
            "{line}\n{}",
            outcome.err
        );
    }
    assert!(!workspace.path("saved.json").exists());
}

#[test]
fn a_server_that_does_not_answer_ends_with_3() {
    // The listener takes connections and sends nothing.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    let workspace = Workspace::new().with_server(&address);
    for line in [
        "snapshot list --timeout 200ms",
        "healthcheck --timeout 200ms",
    ] {
        workspace.expect(3, line);
    }
}
