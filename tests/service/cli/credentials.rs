//! Credentials that are missing, broken or refused: an error names each, and says "does not accept"
//! only where the API server was asked.

use serde_json::{Value, json};

use crate::cli::api_server::ApiServer;
use crate::cli::evenkeel::Workspace;
use crate::cli::shop::objects;

/// A key, and a certificate of X.509 version 1 for it.
const KEY: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgr5i4OjxhUS6r9J/a
OSPr+Y1i9E/cESrZK+hJrtUtfJihRANCAAQYCvHTJioCoHjfiWODSEHzeMPAxxyA
8Oq4z9YN6+dgjnftj4JlxN2G12LXhoxI9S3lMZaadOcKxNK7efN8G2hW
-----END PRIVATE KEY-----
";
const VERSION_1: &str = "-----BEGIN CERTIFICATE-----
MIIBGTCBvwIUDHTKBNVTsIs5zE5xeXvdOfy6ZrAwCgYIKoZIzj0EAwIwDjEMMAoG
A1UEAwwDb2xkMCAXDTI2MTEyNjE2MjY1NVoYDzIxMjYxMTAyMTYyNjU1WjAOMQww
CgYDVQQDDANvbGQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQYCvHTJioCoHjf
iWODSEHzeMPAxxyA8Oq4z9YN6+dgjnftj4JlxN2G12LXhoxI9S3lMZaadOcKxNK7
efN8G2hWMAoGCCqGSM49BAMCA0kAMEYCIQDAtCQrcHrNOTf0+mzDK23JxLq1NCGY
ZDxCXv5gcGGRwgIhALY4xe5fCdQlwSOH9RYp2SVXRdwZCTAzmKaoE/w+GtUt
-----END CERTIFICATE-----
";

/// The secret that no message may contain.
const SECRET: &str = "a-token-that-is-secret";

/// A kubeconfig for the server at `address` with this user, and more fields of the cluster.
fn kubeconfig(address: &str, user: &Value, more: &Value) -> String {
    let mut cluster = json!({"server": address});
    let fields = cluster.as_object_mut().expect("a map");
    fields.extend(more.as_object().expect("a map").clone());
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    });
    config.to_string()
}

fn command(script: &str) -> Value {
    json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
    }})
}

#[test]
fn what_is_wrong_with_credentials_is_named_without_asking() {
    let key = rcgen::KeyPair::generate().expect("a key").serialize_pem();
    let params = rcgen::CertificateParams::default();
    let own = rcgen::KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&own).expect("a certificate").pem();
    let none = json!({});
    let written = format!("echo {SECRET}; exit 3");
    let garbage = format!("echo '{{\"status\": {SECRET}'");
    let pair = |cert: &str, key: &str| json!({"client-certificate": cert, "client-key": key});
    let cases: [(Value, Value, &str); 12] = [
        (
            pair("none.crt", "key.pem"),
            none.clone(),
            "failed to load client certificate: failed to read file '\"/DESK/none.crt\"': No such file",
        ),
        (
            pair("old.crt", "none.key"),
            none.clone(),
            "failed to load client key: failed to read file '\"/DESK/none.key\"': No such file",
        ),
        (
            json!({"client-certificate": "old.crt"}),
            none.clone(),
            "failed to load client key: no base64 data or file",
        ),
        (
            pair("own.crt", "key.pem"),
            none.clone(),
            "the client certificate /DESK/own.crt: ",
        ),
        (
            pair("old.crt", "old.key"),
            none.clone(),
            "the client certificate /DESK/old.crt: ",
        ),
        (
            none.clone(),
            json!({"certificate-authority": "none.crt"}),
            "failed to load certificate authority: failed to read file '\"/DESK/none.crt\"': No such file",
        ),
        (
            json!({"client-key-data": "?", "client-certificate-data": "?"}),
            none.clone(),
            "failed to decode base64 data",
        ),
        (
            json!({"tokenFile": "none"}),
            none.clone(),
            "/DESK/none\"': No such file",
        ),
        (
            json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-command"}}),
            none.clone(),
            "the command no-such-command, which gives them, cannot be run: No such file",
        ),
        (
            command(&written),
            none.clone(),
            "the command sh, which gives them, ended with exit status: 3",
        ),
        (
            command(&garbage),
            none.clone(),
            "the command sh gave no credentials that can be read",
        ),
        (
            command("echo '{}'"),
            none.clone(),
            "the command sh gave no credentials that can be read",
        ),
    ];
    for (user, cluster, wanted) in cases {
        let workspace = Workspace::new()
            .file("old.crt", VERSION_1)
            .file("old.key", KEY)
            .file("own.crt", &certificate)
            .file("key.pem", &key)
            .file(
                "kube.yaml",
                &kubeconfig("https://127.0.0.1:1", &user, &cluster),
            );
        let config = workspace.path("kube.yaml").display().to_string();
        let refused = workspace.expect(2, &format!("spread --kubeconfig {config}"));
        let directory = workspace.path("").display().to_string();
        let wanted = wanted.replace("/DESK/", &directory);
        refused.complains(&wanted);
        assert!(!refused.err.contains("does not accept"), "{}", refused.err);
        assert!(!refused.err.contains(SECRET), "{}", refused.err);
    }
}

#[test]
fn credentials_that_were_refused_are_named_by_where_they_are_from() {
    let api = ApiServer::holding(objects());
    api.fault(|faults| faults.token = Some("right"));
    let status = format!("echo '{{\"status\": {{\"token\": \"{SECRET}\"}}}}'");
    let not_accepted = "the API server of one does not accept these credentials, ";
    let cases = [
        (
            json!({}),
            "the API server of one wants credentials, and its user has neither a token",
        ),
        (
            json!({"token": SECRET}),
            "the token of the kubeconfig: Unauthorized",
        ),
        (
            json!({"tokenFile": "token"}),
            "the token file /DESK/token: Unauthorized",
        ),
        (command(&status), "what the command sh gives: Unauthorized"),
    ];
    for (user, wanted) in cases {
        let workspace = Workspace::new()
            .file("token", SECRET)
            .file("kube.yaml", &kubeconfig(&api.url(), &user, &json!({})));
        let config = workspace.path("kube.yaml").display().to_string();
        let refused = workspace.expect(2, &format!("spread --kubeconfig {config}"));
        let directory = workspace.path("").display().to_string();
        refused.complains(&wanted.replace("/DESK/", &directory));
        let is_said = refused.err.contains(not_accepted);
        assert_eq!(is_said, user != json!({}), "{}", refused.err);
        assert!(!refused.err.contains(SECRET), "{}", refused.err);
    }
    let user = json!({"token": "right"});
    let workspace = Workspace::new().file("kube.yaml", &kubeconfig(&api.url(), &user, &json!({})));
    workspace.expect(0, "spread --kubeconfig kube.yaml");
}
