//! A server that watches a cluster, and the objects that its snapshot holds.

use std::collections::BTreeSet;

use evenkeel::proto::v1::change::Object;
use evenkeel::proto::v1::{Change, Snapshot};
use serde_json::{Value, json};
use support::caller::{changes_of, export};
use tokio::runtime::Runtime;

use crate::serving::api_server::ApiServer;
use crate::serving::http::get;
use crate::serving::metrics::Page;
use crate::serving::process::{Server, command, until};

pub(crate) fn node(name: &str, zone: &str) -> Value {
    json!({"kind": "Node", "apiVersion": "v1", "metadata": {
        "name": name, "uid": format!("uid-{name}"), "labels": {"zone": zone},
    }})
}

pub(crate) fn pod(name: &str, labels: Value) -> Value {
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": {
        "namespace": "shop", "name": name, "uid": format!("uid-{name}"), "labels": labels,
        "annotations": {"a": "b"}, "managedFields": [{"manager": "m"}],
    }, "spec": {"nodeName": "n", "containers": [{"name": "c", "env": [{"name": "E"}]}]}})
}

/// A cluster of one node.
pub(crate) fn one_node() -> ApiServer {
    let cluster = ApiServer::start();
    cluster.put("nodes", node("n", "a"));
    cluster
}

/// A service of the shop.
pub(crate) fn service(name: &str) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name}})
}

/// A server that watches, with its admin port.
pub(crate) struct Watching {
    pub(crate) server: Server,
    pub(crate) admin: String,
    pub(crate) runtime: Runtime,
}

impl Watching {
    pub(crate) fn start(cluster: &ApiServer, more: &[&str]) -> Self {
        let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig().display());
        let mut args = vec!["serve", "--kubernetes", &kubeconfig, "--drain-pause=0s"];
        args.extend(["--admin-listen", "127.0.0.1:0"]);
        args.extend(more);
        let mut server = Server::spawn(&mut command(&args));
        let admin = server.logged("admin listening", "address");
        let runtime = Runtime::new().expect("a runtime");
        Self {
            server,
            admin,
            runtime,
        }
    }

    /// Starts a server, and waits until it is ready.
    pub(crate) fn started(cluster: &ApiServer, more: &[&str]) -> Self {
        let watching = Self::start(cluster, more);
        watching.ready();
        watching
    }

    pub(crate) fn is_ready(&self) -> bool {
        get(&self.admin, "/readyz").status == 200
    }

    pub(crate) fn ready(&self) {
        until("ready", || self.is_ready().then_some(()));
    }

    /// Waits until /readyz says `what`, and returns the page.
    pub(crate) fn says(&self, what: &str) -> String {
        until(what, || {
            let body = get(&self.admin, "/readyz").body;
            body.contains(what).then_some(body)
        })
    }

    pub(crate) fn described(&self) -> Option<Snapshot> {
        self.runtime.block_on(self.server.find(""))
    }

    /// Waits until the snapshot has these objects, and no other.
    #[track_caller]
    pub(crate) fn holds(&self, wanted: &[&str]) -> Snapshot {
        holds(&self.runtime, &self.server, wanted);
        self.described().expect("it exists")
    }

    /// Like `holds`, and checks that the snapshot never shows a state between `held` and `wanted`.
    #[track_caller]
    pub(crate) fn turns(&self, held: &[&str], wanted: &[&str]) -> Snapshot {
        let (held, wanted) = (set(held), set(wanted));
        until(&format!("{wanted:?}"), || {
            let names = names(&self.runtime, &self.server)?;
            assert!(names == held || names == wanted, "in between: {names:?}");
            (names == wanted).then_some(())
        });
        self.described().expect("it exists")
    }

    pub(crate) fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        Page::of(&self.admin).value(name, labels)
    }
}

/// The names of all objects, each with the value of its label `v`.
fn names(runtime: &Runtime, server: &Server) -> Option<BTreeSet<String>> {
    let parts = runtime.block_on(async { export(server.client(), "").await });
    let name = |change: Change| {
        let metadata = match change.object? {
            Object::Node(node) => node.metadata?,
            Object::Pod(pod) => pod.metadata?,
            Object::Service(service) => service.metadata?,
            Object::Namespace(namespace) => namespace.metadata?,
            other => panic!("nobody made {other:?}"),
        };
        let value = metadata.labels.get("v").cloned().unwrap_or_default();
        Some(format!("{}{value}", metadata.name))
    };
    changes_of(parts.ok()?).map(name).collect()
}

#[track_caller]
pub(crate) fn holds(runtime: &Runtime, server: &Server, wanted: &[&str]) {
    let wanted = set(wanted);
    until(&format!("{wanted:?}"), || {
        (names(runtime, server)? == wanted).then_some(())
    });
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|it| (*it).to_owned()).collect()
}
