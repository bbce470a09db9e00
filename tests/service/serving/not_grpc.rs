//! Clients that do not speak gRPC, and calls of methods that do not exist, are told so.

use http::{Request, Response};
use tonic::body::Body;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tower::ServiceExt;

use crate::serving::http::ask;
use crate::serving::pki::{Authority, Files};
use crate::serving::process::Server;

#[test]
fn a_browser_is_told_what_the_port_speaks() {
    let plain = Server::start(&[]);
    let (authority, files) = (Authority::new("a"), Files::new());
    let flags = files.tls_flags(&authority.server());
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let encrypted = Server::start(&flags);
    for (server, speaks) in [
        (&plain, "speaks gRPC,"),
        (&encrypted, "speaks gRPC over TLS,"),
    ] {
        for (method, body) in [("GET", ""), ("POST", "{}"), ("PUT", "x"), ("OPTIONS", "")] {
            let answer = ask(server.address(), method, "/", body);
            assert_eq!(answer.status, 400, "{method}: {answer:?}");
            assert!(answer.body.contains(speaks), "{method}: {answer:?}");
            assert!(
                answer.body.contains("--admin-listen"),
                "{method}: {answer:?}"
            );
        }
    }
}

async fn call(channel: &Channel, kind: &str, path: &str) -> Response<Body> {
    let request = Request::post(format!("http://test{path}")).header("content-type", kind);
    let request = request.body(Body::empty()).expect("a request");
    let answer = channel.clone().oneshot(request).await;
    answer.expect("an answer")
}

#[tokio::test]
async fn a_request_of_http_2_that_is_no_call_is_told() {
    let server = Server::start(&[]);
    let channel = server.channel();
    let path = "/evenkeel.v1.SpreadService/Filter";
    for kind in ["application/json", "text/html"] {
        let answer = call(&channel, kind, path).await;
        assert_eq!(answer.status(), 415, "{answer:?}");
        assert_eq!(answer.headers()["content-type"], "text/plain");
    }
}

#[tokio::test]
async fn a_method_that_does_not_exist_is_named() {
    let server = Server::start(&[]);
    let channel = server.channel();
    for path in [
        "/evenkeel.v1.SpreadService/Guess",
        "/evenkeel.v2.SpreadService/Filter",
        "/grpc.health.v1.Health/List",
    ] {
        let answer = call(&channel, "application/grpc", path).await;
        let status = Status::from_header_map(answer.headers()).expect("it has ended");
        assert_eq!(status.code(), Code::Unimplemented, "{status}");
        assert_eq!(
            status.message(),
            format!("this server has no method {path}")
        );
    }
}
