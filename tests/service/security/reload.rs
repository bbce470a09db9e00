//! Files that change while the server runs.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use evenkeel::proto::v1::StreamSnapshotRequest;
use evenkeel::proto::v1::stream_snapshot_request::Step;
use support::refusal::code;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;
use tonic::transport::Channel;

use crate::security::client::{batch, client, connect, list, serve};
use crate::security::identity::{Role, access_file};
use crate::security::pki::{Authority, CLIENT, Files, Issued, Subject};
use crate::security::process::{self, Server, eventually};

/// Makes a new connection; `None` if client and server do not trust each other.
async fn answer(server: &Server, ours: &Authority, identity: Option<&Issued>) -> Option<Channel> {
    let tls = match identity {
        Some(issued) => ours.trusted().identity(issued.identity()),
        None => ours.trusted(),
    };
    let channel = connect(server, tls).await.ok()?;
    list(channel.clone()).await.ok()?;
    Some(channel)
}

/// Waits until a new connection is answered.
async fn comes(server: &Server, ours: &Authority, identity: Option<&Issued>) -> Channel {
    let answered = async || answer(server, ours, identity).await;
    eventually("the files are read again", answered).await
}

#[tokio::test]
async fn a_new_certificate_is_served_and_open_connections_stay() {
    let (old, new, files) = (Authority::new("old"), Authority::new("new"), Files::new());
    let mut server = serve(&files.tls_flags(&old.server()));
    let open = answer(&server, &old, None)
        .await
        .expect("the first certificate");

    // A certificate without its key is not taken, and the former pair stays.
    let next = new.server();
    files.write("tls.crt", &next.cert);
    server.logged("not reloaded: what was in use before stays", "what");
    answer(&server, &old, None)
        .await
        .expect("the first certificate still");

    files.write("tls.key", &next.key);
    comes(&server, &new, None).await;
    assert!(
        answer(&server, &old, None).await.is_none(),
        "the first is gone"
    );
    list(open).await.expect("what is open stays open");

    files.write("tls.crt", "no certificate");
    server.logged("not reloaded: what was in use before stays", "error");
    answer(&server, &new, None)
        .await
        .expect("the second certificate still");
}

#[tokio::test]
async fn a_secret_mount_that_swaps_its_directory_is_noticed() {
    let (old, new, files) = (Authority::new("old"), Authority::new("new"), Files::new());
    for (directory, issued) in [("..1", old.server()), ("..2", new.server())] {
        fs::create_dir(files.path(directory)).expect("a directory");
        files.write(&format!("{directory}/tls.crt"), &issued.cert);
        files.write(&format!("{directory}/tls.key"), &issued.key);
    }
    symlink("..1", files.path("..data")).expect("a link");
    for name in ["tls.crt", "tls.key"] {
        symlink(format!("..data/{name}"), files.path(name)).expect("a link");
    }
    let server = serve(&[
        "--tls-cert".into(),
        files.arg("tls.crt"),
        "--tls-key".into(),
        files.arg("tls.key"),
    ]);
    answer(&server, &old, None)
        .await
        .expect("the first certificate");
    symlink("..2", files.path("..new")).expect("a link");
    fs::rename(files.path("..new"), files.path("..data")).expect("it can be swapped");
    comes(&server, &new, None).await;
}

#[tokio::test]
async fn another_client_authority_lets_others_in() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let files = Files::new();
    let (mine, other) = (ours.issue(CLIENT), theirs.issue(CLIENT));
    let server = serve(&files.mutual_tls_flags(&ours));
    answer(&server, &ours, Some(&mine))
        .await
        .expect("of the first authority");
    assert!(answer(&server, &ours, Some(&other)).await.is_none());
    files.write("ca.crt", theirs.pem());
    comes(&server, &ours, Some(&other)).await;
    assert!(answer(&server, &ours, Some(&mine)).await.is_none());
}

#[tokio::test]
async fn rules_that_change_hold_at_once_for_open_streams_too() {
    let files = Files::new();
    let rule = |role| [("feeder", role, &["s"][..])];
    let access = access_file(&files, &rule(Role::Feeder));
    let mut server = serve(&["--access-file".into(), access]);
    let mut feeder = client(server.channel(), Some("Bearer feeder"));
    let (steps, requests) = mpsc::channel(1);
    let step = || StreamSnapshotRequest {
        step: Some(Step::Update(batch("s"))),
    };
    steps.send(step()).await.expect("the receiver is held");
    let feed = feeder.stream_snapshot(ReceiverStream::new(requests)).await;
    let mut feed = feed.expect("a feeder").into_inner();
    feed.message().await.expect("a feeder");

    // A file that cannot be read takes no rights away, nor does a file that was emptied to be
    // written.
    for (text, fault) in [("[[allow]", "line 1"), ("", "no rule")] {
        files.write("access.toml", text);
        server.logged_with("not reloaded: what was in use before stays", "error", fault);
        feeder
            .update_snapshot(batch("s"))
            .await
            .expect("still a feeder");
    }

    access_file(&files, &rule(Role::Reader));
    server.logged("reloaded", "what");
    let refused = feeder.update_snapshot(batch("s")).await;
    assert_eq!(code(refused), Code::PermissionDenied);
    steps.send(step()).await.expect("the feed is open");
    let ended = feed.message().await.expect_err("a reader");
    assert_eq!(ended.code(), Code::PermissionDenied);

    access_file(&files, &[("another", Role::Reader, &["s"])]);
    let unknown = async || {
        let refused = feeder.update_snapshot(batch("s")).await;
        (refused.expect_err("nobody").code() == Code::Unauthenticated).then_some(())
    };
    eventually("the feeder is unknown", unknown).await;
}

#[tokio::test]
async fn a_hangup_has_the_files_read_at_once() {
    let (old, new, files) = (Authority::new("old"), Authority::new("new"), Files::new());
    let mut command = process::command(&["serve", "--reload-interval", "1h"]);
    let mut server = Server::spawn(command.args(files.tls_flags(&old.server())));
    let next = new.server();
    files.write("tls.crt", &next.cert);
    files.write("tls.key", &next.key);
    server.signal("HUP");
    server.logged_with("reloaded", "what", "certificates");
    comes(&server, &new, None).await;

    // Without a file there is nothing to read, and the server goes on.
    let mut bare = Server::start(&["--drain-pause", "0s"]);
    bare.signal("HUP");
    bare.logged("SIGHUP: looking at certificates and access rules", "level");
    bare.signal("TERM");
    assert_eq!(bare.exited().await.code(), Some(0));
}

/// The day that comes this many days after today.
fn day_after(days: u64) -> (i32, u8, u8) {
    let then = SystemTime::now() + Duration::from_secs(days * 24 * 3_600);
    let text = humantime::format_rfc3339_seconds(then).to_string();
    let number = |part: Range<usize>| text[part].parse::<u16>().expect("a number");
    let small = |part| u8::try_from(number(part)).expect("a day or month");
    (number(0..4).into(), small(5..7), small(8..10))
}

#[tokio::test]
async fn an_expired_certificate_replaces_none_and_the_end_of_one_is_told() {
    let (authority, files) = (Authority::new("a"), Files::new());
    let server = Subject {
        dns: &["evenkeel.test"],
        ..Subject::default()
    };
    let expired = authority.issue(Subject {
        ends: Some((2020, 1, 1)),
        ..server
    });
    let short = authority.issue(Subject {
        ends: Some(day_after(5)),
        ..server
    });
    let long = authority.issue(Subject {
        ends: Some(day_after(9)),
        ..server
    });
    const SOON: &str = "the certificate expires within a week";
    let mut running = serve(&files.tls_flags(&long));
    answer(&running, &authority, None)
        .await
        .expect("a good one");
    files.write("tls.key", &expired.key);
    files.write("tls.crt", &expired.cert);
    let kept = "not reloaded: what was in use before stays";
    running.logged_with(kept, "error", "has expired");
    answer(&running, &authority, None)
        .await
        .expect("the good one still");
    assert!(!running.lines().iter().any(|line| line.contains(SOON)));
    files.write("tls.key", &short.key);
    files.write("tls.crt", &short.cert);
    running.logged(SOON, "expires_at");

    let mut late = serve(&files.tls_flags(&expired));
    late.logged_with(
        "the certificate has expired: clients refuse it",
        "expires_at",
        "2020",
    );
}
