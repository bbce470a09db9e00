//! `/readyz` and `/livez` of a running server, at every step of its life, with
//! reasons.

use std::net::TcpListener;

use evenkeel::proto::v1::Mode;

use super::admin::{fill, start};
use crate::serving::http::get;
use crate::serving::metrics::Page;
use crate::serving::process::until;
use crate::serving::process::{self, Server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_gives_its_reasons() {
    let (mut server, admin) = start(&["--expect-snapshot", "a,b", "--drain-pause", "60s"]);
    server.logged("admin listening", "address");
    let unready = until("loading is over", || {
        let answer = get(&admin, "/readyz");
        (!answer.body.contains("loading")).then_some(answer)
    });
    assert_eq!(unready.status, 503);
    assert_eq!(
        unready.body,
        "snapshot a is not synced\nsnapshot b is not synced\n"
    );
    assert_eq!(Page::of(&admin).value("evenkeel_ready", &[]), 0.0);

    let mut client = server.client();
    for snapshot in ["a", "b"] {
        fill(&mut client, snapshot, &["n"], Mode::Replace).await;
    }
    let ready = get(&admin, "/readyz");
    assert_eq!((ready.status, ready.body.as_str()), (200, "ready\n"));
    assert_eq!(Page::of(&admin).value("evenkeel_ready", &[]), 1.0);

    server.signal("TERM");
    let draining = until("the drain begins", || {
        let answer = get(&admin, "/readyz");
        (answer.status == 503).then_some(answer)
    });
    assert_eq!(draining.body, "draining\n");
    assert_eq!(get(&admin, "/livez").status, 200);
}

#[tokio::test]
async fn readiness_names_snapshots_whose_feed_is_silent() {
    let (server, admin) = start(&["--max-age", "1s"]);
    fill(&mut server.client(), "a", &["n"], Mode::Replace).await;
    let stale = until("the snapshot is stale", || {
        let answer = get(&admin, "/readyz");
        (!["loading\n", "ready\n"].contains(&&*answer.body)).then_some(answer)
    });
    let said = "ready\nsnapshot a is stale\n";
    assert_eq!((stale.status, stale.body.as_str()), (200, said));
}

#[tokio::test]
async fn a_server_that_waits_for_its_log_is_live_and_not_ready() {
    // Nothing listens there: the port was free, and is closed again.
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let log = format!("nats://{}", free.local_addr().expect("it is bound"));
    drop(free);
    let flags = ["--fleet", "f", "--admin-listen", "127.0.0.1:0"];
    let mut command = process::command(&["serve", "--log", &log]);
    let mut server = Server::begin_on("127.0.0.1:0", command.args(flags));
    let admin = server.logged("admin listening", "address");
    server.logged("waiting for the log", "error");
    let unready = until("the reason is told", || {
        let answer = get(&admin, "/readyz");
        (answer.body != "loading\n").then_some(answer)
    });
    assert_eq!(unready.status, 503);
    let reason = unready.body.strip_prefix("loading\nwaiting for the log: ");
    assert!(reason.is_some(), "{}", unready.body);
    for (page, status) in [("/livez", 200), ("/metrics", 200)] {
        assert_eq!(get(&admin, page).status, status, "{page}");
    }
    server.signal("TERM");
    server.exited().await;
}

#[test]
fn a_server_that_loads_is_live_and_not_ready() {
    // A pipe that nobody writes to keeps the server loading.
    let directory = tempfile::tempdir().expect("a temporary directory");
    let pipe = directory.path().join("pipe.yaml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo is there").success());
    let (_server, admin) = start(&["--load", pipe.to_str().expect("a text path")]);
    assert_eq!(get(&admin, "/livez").status, 200);
    let answer = get(&admin, "/readyz");
    assert_eq!((answer.status, answer.body.as_str()), (503, "loading\n"));
    // Ends the thread that reads the pipe.
    let written = std::fs::write(&pipe, "apiVersion: v1\nkind: List\nitems: []\n");
    written.expect("the pipe is read");
}
