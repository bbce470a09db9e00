//! A server, or somebody between, that answers with text that a terminal would obey.

use std::net::SocketAddr;

use bytes::Bytes;
use evenkeel::proto::v1::{
    FilterResponse, HeldPlacement, ListReservationsResponse, ListSnapshotsResponse, Mismatch,
    ObjectReference, Snapshot, VerifySnapshotResponse,
};
use http::{HeaderMap, Response};
use prost::Message;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::cli::evenkeel::Outcome;
use crate::cli::workspace;

/// An escape sequence that clears the screen, a style that hides, a line that looks like
/// one of the program's own, and marks that turn the direction of writing.
const HOSTILE: &str = "a\u{1b}[2J\u{1b}[8mHIDDEN\nFORGED: b\r\u{202e}c\u{9b}1m\u{7}";

/// The answers of the server.
#[derive(Clone)]
enum Answering {
    /// Every call is refused.
    Refusing(Box<Status>),
    /// Every call is answered.
    Answering,
}

/// Starts a server that writes HTTP/2 by hand, because no gRPC library would send this.
async fn start(answers: Answering) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, answers.clone()));
        }
    });
    address
}

async fn serve(stream: TcpStream, answers: Answering) {
    let Ok(mut connection) = h2::server::handshake(stream).await else {
        return;
    };
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let (head, message, trailers) = answer(request.uri().path(), &answers);
        let is_over = message.is_none();
        let Ok(mut stream) = respond.send_response(head, is_over) else {
            continue;
        };
        if let Some(message) = message {
            let _ = stream.send_data(message, false);
            let _ = stream.send_trailers(trailers);
        }
    }
}

/// The head of an answer, its message and its trailers.
fn answer(path: &str, answers: &Answering) -> (Response<()>, Option<Bytes>, HeaderMap) {
    let ok = Response::builder().header("content-type", "application/grpc");
    let ok = ok.body(()).expect("a valid head");
    let status = match answers {
        Answering::Refusing(status) => (**status).clone(),
        Answering::Answering => {
            let message = message(path);
            let length = u32::try_from(message.len()).expect("a short message");
            let framed = [&[0][..], &length.to_be_bytes(), &message].concat();
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", "0".parse().expect("a value"));
            return (ok, Some(framed.into()), trailers);
        }
    };
    let refused = status.into_http::<()>().map(|_| ());
    (refused, None, HeaderMap::new())
}

/// Returns the message that answers a call. Only fields of text are set.
fn message(path: &str) -> Vec<u8> {
    let text = || HOSTILE.to_owned();
    match path.rsplit('/').next().unwrap_or_default() {
        "Filter" => FilterResponse {
            unknown_deletes: vec![ObjectReference {
                kind: "Gadget".into(),
                namespace: text(),
                name: text(),
                ..ObjectReference::default()
            }],
            unknown_candidates: vec![text()],
            epoch: text(),
            ..FilterResponse::default()
        }
        .encode_to_vec(),
        "ListSnapshots" => ListSnapshotsResponse {
            snapshots: vec![Snapshot {
                name: text(),
                epoch: text(),
                ..Snapshot::default()
            }],
            ..ListSnapshotsResponse::default()
        }
        .encode_to_vec(),
        "ListReservations" => ListReservationsResponse {
            reservations: vec![HeldPlacement {
                id: text(),
                owner: text(),
                ..HeldPlacement::default()
            }],
            ..ListReservationsResponse::default()
        }
        .encode_to_vec(),
        "VerifySnapshot" => VerifySnapshotResponse {
            mismatch_count: 1,
            mismatches: vec![Mismatch {
                subject: text(),
                kept: "2".into(),
                ..Mismatch::default()
            }],
            ..VerifySnapshotResponse::default()
        }
        .encode_to_vec(),
        _ => Vec::new(),
    }
}

/// Every command that asks a server.
const COMMANDS: [&str; 28] = [
    "load cluster.yaml",
    "load cluster.yaml --merge",
    "filter -f workloads.yaml --name web",
    "filter -f workloads.yaml --name web --overlay-delete pod/w1 -o json",
    "filter deploy/web",
    "score -f workloads.yaml --name web",
    "explain -f workloads.yaml --name web",
    "explain -f workloads.yaml --name web -o html",
    "explain --pending",
    "place -f workloads.yaml --name web",
    "place -f workloads.yaml --name web --reserve 5m --owner me",
    "lint -f workloads.yaml --on-server",
    "reservation list",
    "reservation list -o yaml",
    "reservation confirm r1=w1",
    "reservation renew r1 --for 5m",
    "reservation release r1",
    "snapshot list",
    "snapshot list -o name",
    "snapshot get",
    "snapshot save -",
    "snapshot save saved.json",
    "snapshot delete default",
    "spread",
    "spread -o html",
    "report",
    "verify",
    "healthcheck",
];

/// Fails if anything was written that a terminal obeys, except the program's styles.
fn check(line: &str, outcome: &Outcome) {
    for text in [&outcome.out, &outcome.err] {
        let mut plain = text.clone();
        for style in ["0", "1", "2", "31", "32", "33", "34", "35", "36"] {
            plain = plain.replace(&format!("\u{1b}[{style}m"), "");
        }
        let is_hidden = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        let hidden = plain.chars().find(|c| is_hidden(*c));
        assert_eq!(hidden, None, "{line}: {text}");
        let is_forged = |line: &str| line.starts_with("FORGED");
        assert!(!plain.lines().any(is_forged), "{line}: {text}");
    }
}

#[test]
fn no_text_of_a_server_moves_the_terminal() {
    let runtime = Runtime::new().expect("a runtime starts");
    let violations = || {
        let mut details = ErrorDetails::with_bad_request_violation(HOSTILE, HOSTILE);
        details.add_bad_request_violation(format!("changes[0].{HOSTILE}"), HOSTILE);
        details.set_error_info(HOSTILE, HOSTILE, [(HOSTILE.to_owned(), HOSTILE.to_owned())]);
        Status::with_error_details(Code::InvalidArgument, HOSTILE, details)
    };
    let not_reached = || {
        let details = ErrorDetails::with_error_info("MIN_REVISION_NOT_REACHED", HOSTILE, []);
        Status::with_error_details(Code::DeadlineExceeded, HOSTILE, details)
    };
    let refused = |status: Status| Answering::Refusing(Box::new(status));
    let all = [
        Answering::Answering,
        refused(violations()),
        refused(not_reached()),
        refused(Status::unavailable(HOSTILE)),
        refused(Status::not_found(HOSTILE)),
        refused(Status::cancelled(format!("Timeout expired {HOSTILE}"))),
        refused(Status::internal(HOSTILE)),
    ];
    for answers in all {
        let is_refused = matches!(answers, Answering::Refusing(_));
        let address = runtime.block_on(start(answers)).to_string();
        let workspace = workspace().with_server(&address);
        for line in COMMANDS {
            let mut command = workspace.command(line);
            let output = command.env("CLICOLOR_FORCE", "1").output();
            let outcome = Outcome::of(output.expect("it runs"));
            check(line, &outcome);
            let told = [&*outcome.out, &*outcome.err].concat();
            let is_shown = told.contains("\\u{1b}[2J")
                || told.contains("Timeout")
                || told.contains("--timeout");
            // `healthcheck` reports a snapshot without a health of its own in the program's words.
            let is_shown = is_shown || line == "healthcheck";
            assert!(!is_refused || is_shown, "{line} says nothing of it: {told}");
            assert!(!told.contains("panicked"), "{line}: {told}");
        }
    }
}

/// A newer server may name a kind that this program does not know, and counts may drift.
#[test]
fn what_only_the_server_knows_is_named() {
    let runtime = Runtime::new().expect("a runtime starts");
    let address = runtime.block_on(start(Answering::Answering)).to_string();
    let workspace = workspace().with_server(&address);
    let outcome = workspace.run("filter -f workloads.yaml --name web --overlay-delete pod/w1");
    outcome
        .expect(2)
        .complains("the snapshot has no Gadget a\\u{1b}[2J");
    let drift = workspace.run("verify").expect(1).out;
    assert!(drift.contains("\nmismatches: 1\n  a\\u{1b}[2J"), "{drift}");
    assert!(drift.starts_with("DRIFT: ") && drift.ends_with("kept 2, recounted\n"));
}
