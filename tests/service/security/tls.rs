//! The connections that TLS and client certificates allow.

use tonic::transport::ClientTlsConfig;

use crate::security::client::{connect, list, serve};
use crate::security::pki::{Authority, CLIENT, Files, Subject};
use crate::security::process::Server;

/// Returns whether a client gets an answer.
async fn answers(server: &Server, tls: ClientTlsConfig) -> bool {
    match connect(server, tls).await {
        Ok(channel) => list(channel).await.is_ok(),
        Err(_) => false,
    }
}

#[tokio::test]
async fn a_client_that_trusts_the_server_is_answered_and_no_other() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let files = Files::new();
    let server = serve(&files.tls_flags(&ours.server()));
    assert!(answers(&server, ours.trusted()).await);
    assert!(!answers(&server, theirs.trusted()).await, "wrong authority");
    let other_name = ours.trusted().domain_name("other.test");
    assert!(!answers(&server, other_name).await, "wrong name");
    let plain = list(server.channel()).await;
    plain.expect_err("a server with TLS does not talk in plain text");
    assert!(answers(&server, ours.trusted()).await, "and it goes on");
}

#[tokio::test]
async fn client_certificates() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let files = Files::new();
    let expired = Subject {
        ends: Some((2020, 1, 1)),
        ..CLIENT
    };
    let (good, wrong, old) = (
        ours.issue(CLIENT),
        theirs.issue(CLIENT),
        ours.issue(expired),
    );
    // Each case has the client's certificate, and whether the client is answered where a
    // certificate is required and where it is optional.
    let cases = [
        ("none", None, false, true),
        ("good", Some(&good), true, true),
        ("of another authority", Some(&wrong), false, false),
        ("expired", Some(&old), false, false),
    ];
    let mut flags = files.mutual_tls_flags(&ours);
    let required = serve(&flags);
    flags.extend(["--tls-client-auth".into(), "optional".into()]);
    let optional = serve(&flags);
    for (what, certificate, if_required, if_optional) in cases {
        let tls = match certificate {
            Some(issued) => ours.trusted().identity(issued.identity()),
            None => ours.trusted(),
        };
        assert_eq!(answers(&required, tls.clone()).await, if_required, "{what}");
        assert_eq!(answers(&optional, tls).await, if_optional, "{what}");
    }
}
