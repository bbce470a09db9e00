//! Credentials of a watched cluster: files that change, and the messages about what is wrong with
//! them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use crate::serving::api_server::{ApiServer, Connection};
use crate::serving::pki::{Authority, Issued};
use crate::serving::process::until;
use crate::serving::tls_server::ServerTls;
use crate::serving::watching::{Watching, node, one_node};

/// Writes a file beside the kubeconfig of a cluster.
fn write(cluster: &ApiServer, name: &str, content: &str) -> PathBuf {
    let path = cluster.kubeconfig().with_file_name(name);
    std::fs::write(&path, content).expect("it can be written");
    path
}

/// Writes a kubeconfig that names `server`, the certificate authority `ca.crt` and this user.
fn configure(cluster: &ApiServer, server: &str, user: serde_json::Value) {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {
            "server": server, "certificate-authority": "ca.crt",
        }}],
        "users": [{"name": "u", "user": user}],
    });
    write(cluster, "config", &config.to_string());
}

fn logs(watching: &Watching, what: &str) {
    until(what, || {
        let lines = watching.server.lines();
        lines.iter().any(|line| line.contains(what)).then_some(())
    });
}

/// Why a feed begins again.
const CHANGED: &str = "the kubeconfig, or a file that it names, has changed";

#[test]
fn certificates_that_change_are_read_again() {
    let [before, after] = ["before", "after"].map(Authority::new);
    let tls = ServerTls::of(&before);
    let of_server = tls.clone();
    let handshake = move |stream| -> Box<dyn Connection> { Box::new(of_server.over(stream)) };
    let cluster = ApiServer::start_behind(Arc::new(handshake));
    let issue = |authority: &Authority| {
        let Issued { cert, key } = authority.local();
        write(&cluster, "ca.crt", authority.pem());
        write(&cluster, "client.crt", &cert);
        write(&cluster, "client.key", &key);
    };
    issue(&before);
    let user = json!({"client-certificate": "client.crt", "client-key": "client.key"});
    configure(&cluster, &format!("https://{}", cluster.address), user);
    cluster.put("nodes", node("n", "a"));
    let watching = Watching::started(&cluster, &[]);
    let first = watching.holds(&["n"]);

    // While new files are written, the credentials before stay in use.
    let key = cluster.kubeconfig().with_file_name("client.key");
    std::fs::remove_file(&key).expect("it is there");
    cluster.cut();
    cluster.put("nodes", node("m", "a"));
    watching.holds(&["m", "n"]);
    logs(&watching, "those before stay in use");
    logs(&watching, &format!("{}\\\"': No such file", shown(&key)));

    tls.change(&after);
    cluster.cut();
    watching.says("cannot reach the API server of one");
    issue(&after);
    cluster.put("nodes", node("o", "a"));
    let last = watching.holds(&["m", "n", "o"]);
    logs(&watching, CHANGED);
    assert_eq!(last.epoch, first.epoch);
    // Only our own log lines tell of a failed connection, not those of a library.
    for line in watching.server.lines() {
        let is_ours = line.contains("evenkeel");
        assert!(is_ours || !line.contains("ERROR"), "{line}");
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn a_token_file_that_changes_is_read_again_within_seconds() {
    let cluster = one_node();
    write(&cluster, "ca.crt", Authority::new("any").pem());
    let token = write(&cluster, "token", "first");
    let user = json!({"tokenFile": "token"});
    configure(&cluster, &format!("http://{}", cluster.address), user);
    cluster.fault(|faults| faults.token = Some("first"));
    let watching = Watching::started(&cluster, &[]);
    watching.holds(&["n"]);
    cluster.fault(|faults| faults.token = Some("second"));
    cluster.cut();
    let which = format!(
        "the API server of one does not accept these credentials, the token file {}: Unauthorized",
        shown(&token)
    );
    watching.says(&which);
    write(&cluster, "token", "second");
    cluster.put("nodes", node("m", "a"));
    watching.holds(&["m", "n"]);
}

#[test]
fn a_feed_stays_with_its_context_and_follows_it_to_another_address() {
    let (cluster, other) = (one_node(), ApiServer::start());
    other.put("nodes", node("elsewhere", "a"));
    let configure = |current: &str, one: &str| {
        let cluster_of = |name: &str, address: &str| json!({"name": name, "cluster": {"server": format!("http://{address}")}});
        let context = |name: &str| json!({"name": name, "context": {"cluster": name}});
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": current,
            "contexts": [context("one"), context("two")],
            "clusters": [cluster_of("one", one), cluster_of("two", &other.address)],
        });
        write(&cluster, "config", &config.to_string());
    };
    configure("one", &cluster.address);
    let watching = Watching::started(&cluster, &[]);
    watching.holds(&["n"]);
    configure("two", &cluster.address);
    cluster.cut();
    logs(&watching, CHANGED);
    cluster.put("nodes", node("m", "a"));
    watching.holds(&["m", "n"]);
    configure("two", &other.address);
    cluster.cut();
    watching.holds(&["elsewhere"]);
}
