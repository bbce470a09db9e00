//! A state directory that goes away under a running server.

use std::fs;
use std::path::Path;

use tonic::{Code, Status};

use crate::restart::home::{Home, Running};
use crate::restart::http::get;
use crate::restart::metrics::Page;
use crate::restart::process::until;
use support::build::{ZONE, filter_of, node, pod};
use support::model::Stored;

type Removal = fn(&Path);

async fn try_update(server: &Running) -> Result<i64, Status> {
    let change = node("b", &[(ZONE, "z")]).change();
    server.try_update(vec![change]).await
}

async fn assert_refuses(server: &Running, case: &str) {
    let refused = try_update(server).await.expect_err(case);
    assert_eq!(refused.code(), Code::Unavailable, "{case}: {refused}");
    assert!(
        refused.message().contains("removed or replaced"),
        "{case}: {refused}"
    );
}

/// A server with one node, and its admin port.
async fn start(home: &Home) -> (Running, String) {
    let mut server = home.start(&["--admin-listen", "127.0.0.1:0"]);
    let admin = server.server.logged("admin listening", "address");
    server
        .update("", vec![node("a", &[(ZONE, "z")]).change()])
        .await;
    assert_eq!(get(&admin, "/readyz").body, "ready\n");
    (server, admin)
}

#[tokio::test]
async fn it_is_noticed_and_updates_are_refused() {
    let cases: [(&str, Removal); 3] = [
        ("all is removed", |state| {
            fs::remove_dir_all(state).expect("it is there");
        }),
        ("the file is removed", |state| {
            fs::remove_file(state.join(evenkeel::store::FILE)).expect("it is there");
        }),
        ("another file is in its place", |state| {
            let (file, other) = (state.join(evenkeel::store::FILE), state.join("other"));
            fs::copy(&file, &other).expect("there is room");
            fs::rename(&other, &file).expect("it can be renamed");
        }),
    ];
    for (case, remove) in cases {
        let home = Home::new();
        let (server, admin) = start(&home).await;
        remove(&home.state());
        // The server notices before anybody wants to write.
        until(case, || {
            let ready = get(&admin, "/readyz");
            assert_eq!(ready.status, 200, "{case}: decisions go on");
            ready
                .body
                .contains("read-only: the state directory was removed")
                .then_some(())
        });
        assert_eq!(
            Page::of(&admin).value("evenkeel_store_writable", &[]),
            0.0,
            "{case}"
        );
        assert_refuses(&server, case).await;
        let filter = filter_of(pod("", &[]));
        let answer = server.client.clone().filter(filter).await;
        let answer = answer.expect("decisions go on").into_inner();
        assert_eq!((answer.feasible_count, answer.revision), (1, 1), "{case}");
    }
}

#[tokio::test]
async fn another_server_on_the_path_does_not_make_two_histories() {
    let home = Home::new();
    let (first, _) = start(&home).await;
    fs::remove_dir_all(home.state()).expect("it is there");
    let second = home.start(&[]);
    let there = second.update("", vec![node("x", &[]).change()]).await;
    assert_refuses(&first, "while another has the path").await;
    second.stop().await;
    assert_refuses(&first, "after another had the path").await;
    let here = first.describe("").await.expect("it is in memory");
    assert_ne!(here.epoch, there.epoch);
    first.stop().await;
    // What the second server wrote is unchanged.
    let third = home.start(&[]);
    let kept = third.describe("").await.expect("it was acknowledged");
    assert_eq!((kept.epoch, kept.revision), (there.epoch, 1));
}

#[tokio::test]
async fn one_that_comes_back_is_used_again() {
    let home = Home::new();
    let (server, admin) = start(&home).await;
    let away = home.state().with_file_name("away");
    fs::rename(home.state(), &away).expect("it can be renamed");
    assert_refuses(&server, "while it is away").await;
    fs::rename(&away, home.state()).expect("it can be renamed");
    until("it is back", || {
        (get(&admin, "/readyz").body == "ready\n").then_some(())
    });
    assert_eq!(try_update(&server).await.expect("it is written"), 2);
    let before = server.export("").await;
    server.kill().await;
    let again = home.start(&[]);
    assert_eq!(again.export("").await, before);
}
