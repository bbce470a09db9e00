//! Commands that talk to a server.

use tokio::runtime::Runtime;

use crate::cli::evenkeel::Workspace;
use crate::cli::workspace;
use support::server::Server;

/// A server and a workspace that talks to it. The runtime keeps the server running.
pub fn with_server() -> (Runtime, Server, Workspace) {
    let runtime = Runtime::new().expect("a runtime starts");
    let server = runtime.block_on(Server::start());
    let workspace = workspace().with_server(server.url());
    (runtime, server, workspace)
}
