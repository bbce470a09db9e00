//! Credentials that are refused: an error names where each is from.

use serde_json::{Value, json};

use crate::cli::api_server::ApiServer;
use crate::cli::evenkeel::Workspace;
use crate::cli::shop::objects;

/// The secret that no message may contain.
const SECRET: &str = "a-token-that-is-secret";

/// A kubeconfig for the server at `address` with this user.
fn kubeconfig(address: &str, user: &Value) -> String {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": address}}],
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
            .file("kube.yaml", &kubeconfig(&api.url(), &user));
        let config = workspace.path("kube.yaml").display().to_string();
        let refused = workspace.expect(2, &format!("spread --kubeconfig {config}"));
        let directory = workspace.path("").display().to_string();
        refused.complains(&wanted.replace("/DESK/", &directory));
        let is_said = refused.err.contains(not_accepted);
        assert_eq!(is_said, user != json!({}), "{}", refused.err);
        assert!(!refused.err.contains(SECRET), "{}", refused.err);
    }
    let user = json!({"token": "right"});
    let workspace = Workspace::new().file("kube.yaml", &kubeconfig(&api.url(), &user));
    workspace.expect(0, "spread --kubeconfig kube.yaml");
}
