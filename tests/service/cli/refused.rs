//! A server that takes connections and says nothing.

use crate::cli::evenkeel::Workspace;

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
