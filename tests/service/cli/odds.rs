//! `evenkeel healthcheck` of a server that is no other.

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::TcpListenerStream;
use tonic_health::ServingStatus;

use crate::cli::evenkeel::Workspace;

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
}
