//! Commands that talk to a server.

use tokio::runtime::Runtime;

use crate::cli::evenkeel::Workspace;
use crate::cli::workspace;
use support::server::Server;

/// A server and a workspace that talks to it. The runtime keeps the server running.
pub fn with_server() -> (Runtime, Server, Workspace) {
    let runtime = Runtime::new().expect("a runtime starts");
    let server = runtime.block_on(Server::start());
    let workspace = workspace().with_server(&server.address);
    (runtime, server, workspace)
}

/// An error about an address is a sentence of the program, not of a library.
#[test]
fn a_wrong_address_is_named() {
    let (_runtime, server, _) = with_server();
    let plain = server.address.trim_start_matches("http://");
    let cases = [
        (
            format!("https://{plain}"),
            3,
            "TLS wants https://".to_owned(),
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
