//! The admin port of a running server: it answers odd requests, and answers while the server is busy.

use std::io::{Read, Write};
use std::net::TcpStream;

use evenkeel::proto::v1::{FilterRequest, Mode, Pod, UpdateSnapshotRequest};
use support::build::{self, filter_of, hard, plain_node, spread, update_of};
use support::caller::Client;
use support::model::Stored;

use crate::serving::http::{ask, get};
use crate::serving::metrics::Page;
use crate::serving::process::{Server, until};

/// A server with an admin port, and the address of that port.
pub(super) fn start(args: &[&str]) -> (Server, String) {
    let mut all = vec!["--admin-listen", "127.0.0.1:0"];
    all.extend(args);
    let mut server = Server::start(&all);
    let admin = server.logged("admin listening", "address");
    (server, admin)
}

/// A batch of nodes, each in a zone of its own.
pub(super) fn nodes(snapshot: &str, names: &[&str], mode: Mode) -> UpdateSnapshotRequest {
    let node = |name: &&str| plain_node(name, &[("zone", name), ("app", "web")]).change();
    UpdateSnapshotRequest {
        snapshot: snapshot.into(),
        mode: mode.into(),
        ..update_of(names.iter().map(node).collect())
    }
}

/// Sends a batch of [`nodes`].
pub(super) async fn fill(client: &mut Client, snapshot: &str, names: &[&str], mode: Mode) {
    let filled = client.update_snapshot(nodes(snapshot, names, mode)).await;
    filled.expect("valid nodes");
}

/// A pod with a hard constraint over zones.
pub(super) fn pod() -> Pod {
    let pod = build::pod("pod", &[("zone", "pod"), ("app", "web")]);
    spread(pod, vec![hard(1, "zone", &[("app", "web")])])
}

pub(super) fn question(snapshot: &str) -> FilterRequest {
    FilterRequest {
        snapshot: snapshot.into(),
        ..filter_of(pod())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admin_port_answers_while_every_thread_is_taken() {
    let (server, admin) = start(&["--threads", "1", "--max-connections", "1"]);
    let held = server
        .endpoint()
        .connect()
        .await
        .expect("the one connection");
    let _open = crate::serving::streams::feed(held).await;
    assert_eq!(get(&admin, "/readyz").status, 200);
    let page = Page::of(&admin);
    assert_eq!(page.value("evenkeel_open_connections", &[]), 1.0);
    let refused = server.endpoint().connect().await;
    drop(refused);
    until("the second connection is refused", || {
        let page = Page::of(&admin);
        (page.value("evenkeel_connections_refused_total", &[]) >= 1.0).then_some(())
    });
}

#[test]
fn odd_requests_do_no_harm() {
    let (_server, admin) = start(&[]);
    for (method, path, status) in [("GET", "/nowhere", 404), ("POST", "/metrics", 405)] {
        let answer = ask(&admin, method, path, "");
        assert_eq!(answer.status, status, "{method} {path}: {answer:.300?}");
    }
    // Connections that send nothing.
    let silent: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(&admin).expect("the port listens"))
        .collect();
    until("the port answers", || {
        let mut stream = TcpStream::connect(&admin).ok()?;
        stream.write_all(b"GET /livez HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.contains(" 200 ").then_some(())
    });
    drop(silent);
}
