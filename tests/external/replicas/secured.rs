//! Connections to nats-servers that authenticate their clients.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use evenkeel::proto::v1::{Mode, UpdateSnapshotRequest};
use nkeys::KeyPair;
use serde_json::{Value, json};

use crate::replicas::brokers::{Brokers, Setup};
use crate::replicas::build::{node, on, pod};
use crate::replicas::fleet::{Fleet, batch, update};
use crate::replicas::pki::{Authority, Files};
use support::caller::deletion;
use support::model::Stored;

/// Does all that a server and an operator do with a log.
async fn works(mut fleet: Fleet) {
    let clients = fleet.clients();
    let put = batch("eu/a.b", vec![node("n", &[]).change()]);
    update(&clients, 0, &put).await;
    let replace = UpdateSnapshotRequest {
        mode: Mode::Replace as i32,
        ..batch("eu/a.b", vec![on(pod("p", &[]), "n").change()])
    };
    update(&clients, 0, &replace).await;
    for command in ["status", "trim"] {
        fleet.log(&[command]).expect(0);
    }
    fleet.signal(0, "KILL");
    fleet.run(0);
    let held = fleet.agree("eu/a.b").await;
    assert_eq!((held.revision, held.objects.len()), (2, 1));
    let deleted = fleet.client(0).delete_snapshot(deletion("eu/a.b")).await;
    deleted.expect("it is there");
}

/// `deploy/nats`: three servers, TLS everywhere, and a user with one nkey that may do only what is
/// listed there.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn the_deployed_configuration_lets_the_fleet_in() {
    let authority = Authority::new("nats");
    let issued = authority.server();
    let files = Files::new();
    let user = KeyPair::new_user();
    let seed = user.seed().expect("it has one");
    let ca = files.write("ca.crt", authority.pem());
    let certificate = files.write("tls.crt", &issued.cert);
    let key = files.write("tls.key", &issued.key);
    let flags = [
        ("--log-ca", ca.clone()),
        ("--log-certificate", certificate.clone()),
        ("--log-key", key.clone()),
        ("--log-credentials", files.write("fleet.nk", &seed)),
    ];
    let flags = flags.map(|(name, value)| [name.to_owned(), value]);
    let setup = Setup {
        deployed: vec![
            ("NATS_CERTIFICATE", certificate),
            ("NATS_KEY", key),
            ("NATS_CA", ca),
            ("NATS_FLEET_NKEY", user.public_key()),
        ],
        access: flags.into_iter().flatten().collect(),
        ..Setup::default()
    };
    let brokers = Brokers::start_with(3, setup);
    let fleet = Fleet::on(brokers, 1, &[]);
    // The seed of another user is refused.
    let other = KeyPair::new_user().seed().expect("it has one");
    let refused = fleet.serve_with(&["--log-credentials", &files.write("other.nk", &other)]);
    refused.expect(1).complains("refuse the credentials");
    works(fleet).await;
}

/// A credentials file: a user's token, signed by an account whose own token an operator has signed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn a_credentials_file_is_enough() {
    let (operator, account) = (KeyPair::new_operator(), KeyPair::new_account());
    let (system, user) = (KeyPair::new_account(), KeyPair::new_user());
    let unlimited = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1,
        "wildcards": true, "conn": -1, "leaf": -1,
        "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
    });
    let none = json!({ "subs": -1, "data": -1, "payload": -1, "conn": -1, "leaf": -1 });
    let token = |issuer: &KeyPair, owner: &KeyPair, claims: Value| {
        token(issuer, &owner.public_key(), claims)
    };
    let operator_token = token(
        &operator,
        &operator,
        json!({ "type": "operator", "version": 2, "system_account": system.public_key() }),
    );
    let account_token = |owner: &KeyPair, limits: &Value| {
        let claims = json!({ "type": "account", "version": 2, "limits": limits });
        token(&operator, owner, claims)
    };
    let user_token = token(
        &account,
        &user,
        json!({ "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1 }),
    );
    let more = format!(
        "operator: {operator_token}\nresolver: MEMORY\nresolver_preload: {{\n{}: {}\n{}: {}\n}}\n",
        system.public_key(),
        account_token(&system, &none),
        account.public_key(),
        account_token(&account, &unlimited),
    );
    let credentials = format!(
        "-----BEGIN NATS USER JWT-----\n{user_token}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
        user.seed().expect("it has one")
    );
    let files = Files::new();
    let path = files.write("fleet.creds", &credentials);
    let setup = Setup {
        more,
        access: vec!["--log-credentials".to_owned(), path],
        ..Setup::default()
    };
    let brokers = Brokers::start_with(1, setup);
    works(Fleet::on(brokers, 1, &[])).await;
}

/// A token of NATS: claims about the owner of a key, signed.
fn token(issuer: &KeyPair, owner: &str, claims: Value) -> String {
    let encode = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let header = encode(json!({ "typ": "JWT", "alg": "ed25519-nkey" }));
    let body = encode(json!({
        "jti": "test", "iat": 1_700_000_000, "iss": issuer.public_key(), "sub": owner,
        "name": "test", "nats": claims,
    }));
    let signed = format!("{header}.{body}");
    let signature = issuer.sign(signed.as_bytes()).expect("it has a seed");
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}
