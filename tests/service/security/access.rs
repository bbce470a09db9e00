//! Rules on snapshots: patterns, lists, streams, and names of certificates.

use evenkeel::access::TokenHash;
use evenkeel::proto::v1::stream_snapshot_request::Step;
use evenkeel::proto::v1::{
    BeginReplace, CommitReplace, GetSnapshotRequest, ListSnapshotsRequest, PlaceRequest, Pod,
    Reservation, StreamSnapshotRequest, UpdateSnapshotRequest,
};
use support::build::{place_of, plain_node};
use support::model::Stored;
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::security::client::{Client, batch, client, connect, serve};
use crate::security::identity::{Role, access_file, access_text, rule_text};
use crate::security::pki::{Authority, Files, Subject};
use crate::security::process::Server;

fn with_token(server: &Server, token: &str) -> Client {
    client(server.channel(), Some(&format!("Bearer {token}")))
}

async fn get(client: &mut Client, snapshot: &str) -> Code {
    let request = GetSnapshotRequest {
        snapshot: snapshot.into(),
    };
    let answer = client.get_snapshot(request).await;
    answer.err().map_or(Code::Ok, |status| status.code())
}

#[tokio::test]
async fn a_rule_holds_for_the_snapshots_of_its_patterns() {
    let files = Files::new();
    let rules = [
        ("root", Role::Admin, &["*"][..]),
        ("one", Role::Reader, &["a"]),
        ("many", Role::Reader, &["team-?/*", "b"]),
        ("default", Role::Reader, &["default"]),
        // Rules about the same caller add up.
        ("both", Role::Reader, &["*"]),
        ("both", Role::Feeder, &["b"]),
    ];
    let server = serve(&["--access-file".into(), access_file(&files, &rules)]);
    let names = [
        "a",
        "ab",
        "b",
        "default",
        "team-1/x",
        "team-1/x/y",
        "team-12/x",
        "team-1",
    ];
    for name in names {
        let made = with_token(&server, "root")
            .update_snapshot(batch(name))
            .await;
        made.expect("root may");
    }
    let readable: [(&str, &[&str]); 5] = [
        ("root", &names),
        ("one", &["a"]),
        ("many", &["b", "team-1/x", "team-1/x/y"]),
        ("default", &["default"]),
        ("both", &names),
    ];
    for (token, readable) in readable {
        let mut client = with_token(&server, token);
        for name in names {
            let expected = match readable.contains(&name) {
                true => Code::Ok,
                false => Code::PermissionDenied,
            };
            assert_eq!(get(&mut client, name).await, expected, "{token} {name}");
        }
        // No name means the default snapshot.
        let expected = get(&mut client, "default").await;
        assert_eq!(get(&mut client, "").await, expected, "{token}");
        assert_eq!(listed(&mut client).await, sorted(readable), "{token}");
    }
    let mut both = with_token(&server, "both");
    both.update_snapshot(batch("b"))
        .await
        .expect("a feeder of b");
    let refused = both.update_snapshot(batch("a")).await;
    assert_eq!(
        refused.expect_err("a reader of a").code(),
        Code::PermissionDenied
    );
}

fn sorted(names: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_denied_call_is_logged_with_the_name_of_its_rule() {
    let files = Files::new();
    let who = format!(
        "name = \"scheduler\"\ntoken_sha256 = \"{}\"",
        TokenHash::of("token")
    );
    let access = files.write("access.toml", &rule_text(&who, Role::Reader, &["a"]));
    let flags = [
        "--access-file",
        &access,
        "--log-level",
        "info,evenkeel=debug",
    ];
    let mut server = serve(&flags.map(str::to_owned));
    let denied = with_token(&server, "token")
        .update_snapshot(batch("a"))
        .await;
    let denied = denied.expect_err("it may only read");
    assert_eq!(denied.code(), Code::PermissionDenied);
    assert_eq!(server.logged("denied a call", "caller"), "scheduler");
}

/// Lists pages of one snapshot each. Snapshots that are left out leave no gap.
async fn listed(client: &mut Client) -> Vec<String> {
    let mut names = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = ListSnapshotsRequest {
            page_size: 1,
            page_token,
        };
        let page = client
            .list_snapshots(request)
            .await
            .expect("a page")
            .into_inner();
        assert!(page.snapshots.len() <= 1);
        names.extend(page.snapshots.into_iter().map(|snapshot| snapshot.name));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return names;
        }
    }
}

fn begin(snapshot: &str) -> Step {
    Step::BeginReplace(BeginReplace {
        snapshot: snapshot.into(),
    })
}

fn commit(snapshot: &str) -> Step {
    Step::CommitReplace(CommitReplace {
        snapshot: snapshot.into(),
        ..CommitReplace::default()
    })
}

/// Sends a feed of these steps. Returns the number of acknowledgements, and the error at its end.
async fn feed(mut client: Client, steps: Vec<Step>) -> (usize, Option<Status>) {
    let steps = steps
        .into_iter()
        .map(|step| StreamSnapshotRequest { step: Some(step) });
    let feed = client
        .stream_snapshot(tokio_stream::iter(steps.collect::<Vec<_>>()))
        .await;
    let mut feed = match feed {
        Ok(feed) => feed.into_inner(),
        Err(status) => return (0, Some(status)),
    };
    let mut done = 0;
    loop {
        match feed.message().await {
            Ok(Some(_)) => done += 1,
            Ok(None) => return (done, None),
            Err(status) => return (done, Some(status)),
        }
    }
}

#[tokio::test]
async fn every_step_of_a_feed_is_checked() {
    let files = Files::new();
    let rules = [("feeder", Role::Feeder, &["mine"][..])];
    let server = serve(&["--access-file".into(), access_file(&files, &rules)]);
    let update = |snapshot: &str| Step::Update(batch(snapshot));
    let cases = [
        (vec![update("mine"), begin("mine"), commit("mine")], 3, true),
        (
            vec![update("mine"), update("yours"), update("mine")],
            1,
            false,
        ),
        (vec![begin("mine"), begin("yours")], 1, false),
        (vec![update("mine"), commit("yours")], 1, false),
    ];
    for (index, (steps, done, is_whole)) in cases.into_iter().enumerate() {
        let (acknowledged, end) = feed(with_token(&server, "feeder"), steps).await;
        assert_eq!(acknowledged, done, "{index}");
        let code = end.map(|status| status.code());
        let expected = (!is_whole).then_some(Code::PermissionDenied);
        assert_eq!(code, expected, "{index}");
    }
}

#[tokio::test]
async fn certificates_are_known_by_their_names() {
    let (authority, files) = (Authority::new("ours"), Files::new());
    let rules = [
        rule_text("certificate = \"feeder.test\"", Role::Feeder, &["s"]),
        rule_text(
            "certificate = \"spiffe://test/reader\"",
            Role::Reader,
            &["s"],
        ),
        rule_text("certificate = \"plain\"", Role::Admin, &["s"]),
        access_text(&[("token", Role::Admin, &["s"])]),
        rule_text("anyone = true", Role::Reader, &["open"]),
    ];
    let mut flags = files.mutual_tls_flags(&authority);
    flags.extend(["--tls-client-auth".into(), "optional".into()]);
    flags.extend([
        "--access-file".into(),
        files.write("access.toml", &rules.concat()),
    ]);
    let server = serve(&flags);

    let subject = |common_name, dns, uri| Subject {
        common_name,
        dns,
        uri,
        ends: None,
    };
    let (reads, feeds, none) = (Some(Role::Reader), Some(Role::Feeder), None);
    // Each case has the subject of a certificate, a token, and the role on snapshot s.
    let cases = [
        (Some(subject("", &["feeder.test"], &[])), None, feeds),
        (
            Some(subject("plain", &[], &["spiffe://test/reader"])),
            None,
            reads,
        ),
        (Some(subject("plain", &[], &[])), None, Some(Role::Admin)),
        // A common name does not count beside better names.
        (Some(subject("plain", &["other.test"], &[])), None, none),
        (Some(subject("feeder.test.evil", &[], &[])), None, none),
        // A name of one kind that is spelled as one of another does not count either.
        (
            Some(subject("", &["spiffe://test/reader"], &[])),
            None,
            none,
        ),
        (Some(subject("spiffe://test/reader", &[], &[])), None, none),
        (Some(subject("", &[], &["feeder.test"])), None, none),
        (
            Some(subject("", &["feeder.test"], &[])),
            Some("Bearer token"),
            Some(Role::Admin),
        ),
        (None, Some("bearer token"), Some(Role::Admin)),
        (None, None, none),
    ];
    for (index, (subject, token, role)) in cases.into_iter().enumerate() {
        let tls = match subject {
            Some(subject) => authority
                .trusted()
                .identity(authority.issue(subject).identity()),
            None => authority.trusted(),
        };
        let channel = connect(&server, tls).await.expect("it may connect");
        let mut client = client(channel, token);
        let code = client
            .update_snapshot(batch("s"))
            .await
            .err()
            .map(|s| s.code());
        let may_feed = role >= Some(Role::Feeder);
        assert_eq!(
            code,
            (!may_feed).then_some(Code::PermissionDenied),
            "{index}"
        );
        let code = get(&mut client, "s").await;
        assert_eq!(code == Code::Ok, role.is_some(), "{index}: {code:?}");
        // Everybody may read `open`, but not with a wrong token.
        assert_eq!(get(&mut client, "open").await, Code::NotFound, "{index}");
    }
    let channel = connect(&server, authority.trusted())
        .await
        .expect("it may connect");
    let mut mistaken = client(channel, Some("Bearer wrong"));
    assert_eq!(get(&mut mistaken, "open").await, Code::Unauthenticated);
}

/// Returns the answers of health about a name: to a check, and the first one to a watch.
async fn health(server: &Server, token: Option<&str>, name: &str) -> (Code, ServingStatus) {
    let mut health = HealthClient::new(server.channel());
    let request = || {
        let mut request = Request::new(HealthCheckRequest {
            service: name.into(),
        });
        if let Some(token) = token {
            let value = format!("Bearer {token}").parse().expect("it can be sent");
            request.metadata_mut().insert("authorization", value);
        }
        request
    };
    let checked = health.check(request()).await;
    let watch = health.watch(request()).await.expect("it is open");
    let first = watch.into_inner().message().await.expect("it goes on");
    let code = checked.err().map_or(Code::Ok, |status| status.code());
    (code, first.expect("it begins with a status").status())
}

#[tokio::test]
async fn health_tells_of_a_snapshot_to_those_who_may_read_it() {
    let files = Files::new();
    let rules = [
        access_text(&[
            ("root", Role::Admin, &["*"]),
            ("mine", Role::Reader, &["mine"]),
        ]),
        rule_text("anyone = true", Role::Reader, &["open"]),
    ];
    let access = files.write("access.toml", &rules.concat());
    let server = serve(&["--access-file".into(), access]);
    for name in ["mine", "theirs", "open"] {
        let made = with_token(&server, "root")
            .update_snapshot(batch(name))
            .await;
        made.expect("root may");
    }
    let seen = (Code::Ok, ServingStatus::Serving);
    let unseen = (Code::NotFound, ServingStatus::ServiceUnknown);
    let service = "evenkeel.v1.SpreadService";
    // Each case has the token of a caller, and the names that the caller is told of.
    let cases: [(Option<&str>, &[&str]); 4] = [
        (None, &["", service, "open"]),
        (Some("wrong"), &["", service]),
        (Some("mine"), &["", service, "open", "mine"]),
        (Some("root"), &["", service, "open", "mine", "theirs"]),
    ];
    for (token, told) in cases {
        for name in ["", service, "open", "mine", "theirs", "none"] {
            let expected = if told.contains(&name) { seen } else { unseen };
            let got = health(&server, token, name).await;
            assert_eq!(got, expected, "{token:?} {name:?}");
        }
    }
}

/// The id of a request belongs to its caller. Another caller that uses the same id reserves for
/// itself, and sees nothing of the first answer.
#[tokio::test]
async fn an_id_of_a_request_is_its_callers_own() {
    let files = Files::new();
    let rules = [
        ("one", Role::Feeder, &["s"][..]),
        ("two", Role::Feeder, &["s"]),
    ];
    let server = serve(&["--access-file".into(), access_file(&files, &rules)]);
    let fed = UpdateSnapshotRequest {
        changes: vec![plain_node("n", &[]).change()],
        ..batch("s")
    };
    let mut one = with_token(&server, "one");
    one.update_snapshot(fed).await.expect("one may");
    let request = PlaceRequest {
        snapshot: "s".into(),
        reserve: Some(Reservation {
            owner: "them".into(),
            ttl: Some(std::time::Duration::from_secs(600).into()),
        }),
        request_id: "1".into(),
        ..place_of(Pod::default(), 1)
    };
    let mut ids = Vec::new();
    for token in ["one", "two", "one", "two"] {
        let placed = with_token(&server, token).place(request.clone()).await;
        let placed = placed.expect("it is placed").into_inner();
        ids.push(placed.placements[0].reservation_id.clone());
    }
    assert_ne!(ids[0], ids[1]);
    assert_eq!(ids[..2], ids[2..]);
}
