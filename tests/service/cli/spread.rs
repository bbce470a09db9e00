//! `evenkeel spread --watch`, on a server and on a cluster.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::json;

use crate::cli::api_server::ApiServer;
use crate::cli::evenkeel::Workspace;
use crate::cli::process::{Server, until};

const AFTER_OUTAGE: &str = include_str!("../../../examples/three-zones/after-outage.yaml");

fn workspace() -> Workspace {
    Workspace::new().file("cluster.yaml", AFTER_OUTAGE)
}

/// A command whose lines are read while it runs. It is killed in the end.
struct Shown {
    child: Child,
    lines: Receiver<String>,
}

impl Shown {
    fn start(workspace: &Workspace, line: &str) -> Self {
        let mut command = workspace.command(line);
        let child = command.stdout(Stdio::piped()).spawn();
        let mut child = child.expect("the binary starts");
        let output = child.stdout.take().expect("it is piped");
        let (to, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = to.send(line);
            }
        });
        Self { child, lines }
    }

    fn wait_for(&self, text: &str) {
        until(text, || {
            self.lines.try_iter().find(|line| line.starts_with(text))
        });
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_has_changed_is_shown_again() {
    let server = Server::start(&[]);
    let workspace = workspace().with_server(server.url()).file(
        "nodes.yaml",
        "kind: Node\nmetadata: {name: a1, labels: {zone: a}}",
    );
    workspace.expect(0, "load cluster.yaml");
    let shown = Shown::start(&workspace, "spread --watch");
    shown.wait_for("violating: 1 of 3 workloads");
    workspace.expect(0, "load nodes.yaml");
    shown.wait_for("no workload: there are no pods");
    for (line, why) in [
        ("spread -w --load cluster.yaml", "cannot be used with"),
        ("spread -w -o html", "a page is written once"),
        ("spread -w --kubeconfig nowhere.yaml", "nowhere.yaml"),
    ] {
        let refused = workspace.expect(2, line);
        refused.complains(why);
    }
}

#[test]
fn a_cluster_is_watched() {
    let api = ApiServer::start();
    let config = api.kubeconfig();
    for (name, zone) in [("a1", "a"), ("b1", "b")] {
        let labels = json!({"zone": zone, "kubernetes.io/hostname": name});
        api.put(
            "nodes",
            json!({"metadata": {"name": name, "labels": labels}}),
        );
    }
    let constraint = json!({
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "db"}},
    });
    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u",
        "controller": true});
    for name in ["db-0", "db-1"] {
        let metadata = json!({"name": name, "namespace": "shop", "uid": name,
            "labels": {"app": "db"}, "ownerReferences": [owner]});
        let spec = json!({"nodeName": "a1", "topologySpreadConstraints": [constraint]});
        let status = json!({"phase": "Running"});
        api.put(
            "pods",
            json!({"metadata": metadata, "spec": spec, "status": status}),
        );
    }
    let workspace = Workspace::new();
    let line = format!("spread -w --kubeconfig {}", config.display());
    let shown = Shown::start(&workspace, &line);
    shown.wait_for("cluster one, revision ");
    shown.wait_for("violating: 1 of 1 workload");
    api.delete("pods", "shop/db-1");
    shown.wait_for("violating: none of 1 workload");
}
