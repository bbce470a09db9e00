//! The calls that each role may make.

use support::refusal::{metadata, reason};
use tonic::{Code, Status};

use crate::bad_input::requests::encoded;
use crate::security::client::{batch, client, healthy, serve};
use crate::security::identity::{Role, access_file};
use crate::security::pki::Files;
use crate::security::process::DEADLINE;
use support::descriptors::Protocol;

/// A request about snapshot `s`.
const S: &str = r#"{"snapshot": "s"}"#;

/// Every RPC, with the role that it needs, or `None` if every known caller may make it, and a request.
const RPCS: &[(&str, Option<Role>, &str)] = &[
    ("Filter", Some(Role::Reader), S),
    ("Score", Some(Role::Reader), S),
    ("Place", Some(Role::Reader), S),
    ("Explain", Some(Role::Reader), S),
    ("DescribeSpread", Some(Role::Reader), S),
    ("RankRemovals", Some(Role::Reader), S),
    ("Rebalance", Some(Role::Reader), S),
    ("PlanNodes", Some(Role::Reader), S),
    (
        "Place",
        Some(Role::Feeder),
        r#"{"snapshot": "s", "reserve": {}}"#,
    ),
    ("GetSnapshot", Some(Role::Reader), S),
    ("ListNodes", Some(Role::Reader), S),
    ("ListReservations", Some(Role::Reader), S),
    ("ListSnapshots", None, "{}"),
    ("UpdateSnapshot", Some(Role::Feeder), S),
    (
        "StreamSnapshot",
        Some(Role::Feeder),
        r#"{"update": {"snapshot": "s"}}"#,
    ),
    ("ConfirmReservations", Some(Role::Feeder), S),
    ("ReservePods", Some(Role::Feeder), S),
    ("RenewReservations", Some(Role::Feeder), S),
    ("ReleaseReservations", Some(Role::Feeder), S),
    ("ExportSnapshot", Some(Role::Feeder), S),
    ("VerifySnapshot", Some(Role::Admin), S),
    (
        "Decide",
        Some(Role::Reader),
        r#"{"question": {"filter": {"snapshot": "s"}}}"#,
    ),
    // This is last, because it deletes the snapshot.
    ("DeleteSnapshot", Some(Role::Admin), S),
];

#[test]
fn every_rpc_is_in_the_table() {
    for call in Protocol::read().calls {
        let is_known = RPCS.iter().any(|(name, _, _)| *name == call.name);
        assert!(is_known, "{} needs a line in RPCS", call.name);
    }
}

/// Checks that a refusal names the role and the snapshot.
#[track_caller]
fn assert_denied(status: &Status, role: Role, snapshot: Option<&str>, what: &str) {
    assert_eq!(status.code(), Code::PermissionDenied, "{what}: {status}");
    assert!(status.message().contains(role.name()), "{what}: {status}");
    let is_named = status.message().contains("\"s\"");
    assert_eq!(is_named, snapshot.is_some(), "{what}: {status}");
    assert_eq!(
        reason(status).as_deref(),
        Some("PERMISSION_DENIED"),
        "{what}"
    );
    let told = |key: &str| metadata(status, key);
    assert_eq!(told("role").as_deref(), Some(role.name()), "{what}");
    assert_eq!(told("snapshot").as_deref(), snapshot, "{what}");
}

#[tokio::test]
async fn every_role_may_call_what_it_should_and_nothing_else() {
    let files = Files::new();
    let roles = [Role::Reader, Role::Feeder, Role::Admin];
    let rules = roles.map(|role| (role.name(), role, &["s"][..]));
    let server = serve(&["--access-file".into(), access_file(&files, &rules)]);
    let feeder = client(server.channel(), Some("Bearer feeder"));
    let (protocol, channel) = (Protocol::read(), server.channel());
    for (method, needed, request) in RPCS {
        let call = protocol.calls.iter().find(|call| call.name == *method);
        let request = serde_json::from_str(request).expect("JSON");
        let message = encoded(method, &request);
        let call = async |authorization: Option<&str>| {
            let call = call.expect("a method");
            let message = message.clone();
            call.send_as(&channel, authorization, message, DEADLINE)
                .await
        };
        for stranger in [
            None,
            Some("Bearer unknown"),
            Some("Basic reader"),
            Some("Bearer"),
        ] {
            let refused = call(stranger).await;
            let status = refused.expect_err("no rule is about it");
            assert_eq!(status.code(), Code::Unauthenticated, "{method}: {status}");
            assert_eq!(
                reason(&status).as_deref(),
                Some("UNAUTHENTICATED"),
                "{method}"
            );
        }
        for role in roles {
            let what = format!("{method} as {}", role.name());
            // The snapshot exists, even if the call before has deleted it.
            let made = feeder.clone().update_snapshot(batch("s")).await;
            made.expect("a feeder may make it");
            let answer = call(Some(&format!("Bearer {}", role.name()))).await;
            match needed {
                Some(needed) if role < *needed => {
                    let status = answer.expect_err(&what);
                    // A feed is refused before it has named a snapshot.
                    let snapshot = (*method != "StreamSnapshot").then_some("s");
                    assert_denied(&status, *needed, snapshot, &what);
                }
                // The call may be invalid, because its request is nearly empty.
                _ => {
                    let code = answer.err().map_or(Code::Ok, |status| status.code());
                    let is_let_in = matches!(code, Code::Ok | Code::InvalidArgument);
                    assert!(is_let_in, "{what}: {code:?}");
                }
            }
        }
    }
    healthy(server.channel()).await.expect("health is open");
    let mut reflection =
        tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient::new(
            server.channel(),
        );
    let reflected = reflection
        .server_reflection_info(tokio_stream::empty())
        .await;
    reflected.expect("reflection is open");
}
