//! `serve --kubernetes` and `evenkeel feed` keep a snapshot equal to a cluster,
//! whatever happens to the API server, its answers or the server that is fed.

use std::collections::BTreeSet;

use evenkeel::proto::v1::change::Object;
use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel::proto::v1::{ExportSnapshotRequest, GetSnapshotRequest, Snapshot};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::api_server::ApiServer;
use crate::http::get;
use crate::metrics::Page;
use crate::process::{Server, command, until};

fn node(name: &str, zone: &str) -> Value {
    json!({"kind": "Node", "apiVersion": "v1", "metadata": {
        "name": name, "uid": format!("uid-{name}"), "labels": {"zone": zone},
    }})
}

fn pod(name: &str, labels: Value) -> Value {
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": {
        "namespace": "shop", "name": name, "uid": format!("uid-{name}"), "labels": labels,
        "annotations": {"a": "b"}, "managedFields": [{"manager": "m"}],
    }, "spec": {"nodeName": "n", "containers": [{"name": "c", "env": [{"name": "E"}]}]}})
}

/// A server that watches, with its admin port.
struct Watching {
    server: Server,
    admin: String,
    runtime: Runtime,
}

impl Watching {
    fn start(cluster: &ApiServer, more: &[&str]) -> Self {
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

    fn is_ready(&self) -> bool {
        get(&self.admin, "/readyz").status == 200
    }

    fn ready(&self) {
        until("ready", || self.is_ready().then_some(()));
    }

    /// Waits until /readyz says so.
    fn says(&self, what: &str) -> String {
        until(what, || {
            let body = get(&self.admin, "/readyz").body;
            body.contains(what).then_some(body)
        })
    }

    fn described(&self) -> Option<Snapshot> {
        self.runtime.block_on(async {
            let mut client = SpreadServiceClient::new(self.server.channel());
            let answer = client.get_snapshot(GetSnapshotRequest::default()).await;
            answer.ok()?.into_inner().snapshot
        })
    }

    /// Waits until the snapshot has these objects, and no other.
    #[track_caller]
    fn holds(&self, wanted: &[&str]) -> Snapshot {
        holds(&self.runtime, &self.server, wanted);
        self.described().expect("it exists")
    }

    /// The same, and that nothing is seen between what it held and what it holds.
    #[track_caller]
    fn turns(&self, held: &[&str], wanted: &[&str]) -> Snapshot {
        let (held, wanted) = (set(held), set(wanted));
        until(&format!("{wanted:?}"), || {
            let names = names(&self.runtime, &self.server)?;
            assert!(names == held || names == wanted, "in between: {names:?}");
            (names == wanted).then_some(())
        });
        self.described().expect("it exists")
    }

    fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        Page::of(&self.admin).value(name, labels)
    }
}

/// The names of all objects, each with the value of its label `v`.
fn names(runtime: &Runtime, server: &Server) -> Option<BTreeSet<String>> {
    runtime.block_on(async {
        let mut client = SpreadServiceClient::new(server.channel());
        let request = ExportSnapshotRequest::default();
        let mut parts = client.export_snapshot(request).await.ok()?.into_inner();
        let mut names = BTreeSet::new();
        while let Some(part) = parts.message().await.ok()? {
            for change in part.update?.changes {
                let metadata = match change.object? {
                    Object::Node(node) => node.metadata?,
                    Object::Pod(pod) => pod.metadata?,
                    Object::Service(service) => service.metadata?,
                    other => panic!("nobody made {other:?}"),
                };
                let value = metadata.labels.get("v").cloned().unwrap_or_default();
                names.insert(format!("{}{value}", metadata.name));
            }
        }
        Some(names)
    })
}

#[track_caller]
fn holds(runtime: &Runtime, server: &Server, wanted: &[&str]) {
    let wanted = set(wanted);
    until(&format!("{wanted:?}"), || {
        (names(runtime, server)? == wanted).then_some(())
    });
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|it| (*it).to_owned()).collect()
}

#[test]
fn a_snapshot_follows_its_cluster() {
    let cluster = ApiServer::start();
    cluster.put("nodes", node("n", "a"));
    cluster.put("pods", pod("p", json!({"v": "1"})));
    cluster.fault(|faults| faults.held.extend(["pods"]));
    let watching = Watching::start(&cluster, &[]);
    // Nothing answers from half a list.
    until("nodes are listed", || {
        (cluster.lists("nodes") > 0).then_some(())
    });
    let told = watching.says("snapshot default is not synced");
    assert!(!told.contains("ready"), "{told}");
    cluster.fault(|faults| faults.held.clear());
    watching.ready();
    let first = watching.holds(&["n", "p1"]);
    assert!(
        first
            .default_constraints
            .as_ref()
            .is_some_and(|it| it.system)
    );

    cluster.put("pods", pod("q", json!({})));
    cluster.put("pods", pod("p", json!({"v": "2"})));
    cluster.put(
        "services",
        json!({"metadata": {"namespace": "shop", "name": "s"}}),
    );
    let second = watching.holds(&["n", "p2", "q", "s"]);
    assert_eq!(second.epoch, first.epoch);
    cluster.delete("pods", "shop/q");
    watching.holds(&["n", "p2", "s"]);

    // Events that say nothing new change nothing.
    let nodes = |what: &str| {
        let name = format!("evenkeel_kubernetes_{what}_total");
        watching.metric(&name, &["kind=\"Node\""])
    };
    let (events, changes) = (nodes("events"), nodes("changes"));
    cluster.put("nodes", node("n", "a"));
    until("the event", || (nodes("events") > events).then_some(()));
    cluster.put("pods", pod("r", json!({})));
    watching.holds(&["n", "p2", "r", "s"]);
    assert_eq!(nodes("changes"), changes);
}

/// What happens to a watch, and what makes it right again.
#[test]
fn a_gap_is_listed_again_and_becomes_one_batch() {
    for by_status in [false, true] {
        let cluster = ApiServer::start();
        cluster.put("nodes", node("n", "a"));
        for name in ["p", "q", "r"] {
            cluster.put("pods", pod(name, json!({"v": "1"})));
        }
        let watching = Watching::start(&cluster, &[]);
        watching.ready();
        let before = watching.holds(&["n", "p1", "q1", "r1"]);
        // While nobody is told, one goes, one comes, and one changes.
        cluster.fault(|faults| {
            faults.gone_by_status = by_status;
            faults.is_away = true;
        });
        cluster.cut();
        cluster.delete("pods", "shop/p");
        cluster.put("pods", pod("q", json!({"v": "2"})));
        cluster.put("pods", pod("s", json!({"v": "1"})));
        cluster.expire();
        cluster.fault(|faults| faults.is_away = false);
        let after = watching.turns(&["n", "p1", "q1", "r1"], &["n", "q2", "r1", "s1"]);
        assert_eq!(after.epoch, before.epoch, "by status: {by_status}");
        let lists = |reason| {
            let reason = format!("reason=\"{reason}\"");
            watching.metric(
                "evenkeel_kubernetes_lists_total",
                &["kind=\"Pod\"", &reason],
            )
        };
        assert_eq!((lists("start"), lists("expired")), (1.0, 1.0));
        // The same of what comes after it.
        cluster.put("pods", pod("t", json!({})));
        watching.holds(&["n", "q2", "r1", "s1", "t"]);
    }
}

#[test]
fn a_first_list_that_breaks_is_taken_whole_or_not_at_all() {
    let cluster = ApiServer::start();
    let names: Vec<String> = (0..1_200).map(|number| format!("p{number:04}")).collect();
    names
        .iter()
        .for_each(|name| cluster.put("pods", pod(name, json!({}))));
    cluster.fault(|faults| (faults.expired_pages, faults.cut_pages) = (1, 1));
    let watching = Watching::start(&cluster, &[]);
    watching.ready();
    let wanted: Vec<&str> = names.iter().map(String::as_str).collect();
    let first = watching.holds(&wanted);
    assert_eq!((first.revision, first.pod_count), (1, 1_200));
    assert!(cluster.lists("pods") >= 3);
}

#[test]
fn a_list_after_a_gap_that_breaks_off_loses_nothing() {
    let cluster = ApiServer::start();
    let names: Vec<String> = (0..600).map(|number| format!("p{number:04}")).collect();
    let v = |value: &str| json!({"v": value});
    names
        .iter()
        .for_each(|name| cluster.put("pods", pod(name, v(""))));
    let watching = Watching::start(&cluster, &[]);
    watching.ready();
    cluster.fault(|faults| (faults.is_away, faults.cut_pages) = (true, 1));
    cluster.cut();
    // One on the page that comes, one on the page that does not.
    cluster.put("pods", pod("p0000", v("new")));
    cluster.put("pods", pod("p0599", v("new")));
    cluster.delete("pods", "shop/p0001");
    cluster.expire();
    cluster.fault(|faults| faults.is_away = false);
    let others = names[2..599].iter().map(String::as_str);
    let wanted: Vec<&str> = ["p0000new", "p0599new"].into_iter().chain(others).collect();
    let held: Vec<&str> = names.iter().map(String::as_str).collect();
    watching.turns(&held, &wanted);
}

#[test]
fn what_may_not_be_read_is_told_with_the_rule_to_add() {
    let cluster = ApiServer::start();
    cluster.put("nodes", node("n", "a"));
    cluster.fault(|faults| faults.forbidden.extend(["pods", "services"]));
    let watching = Watching::start(&cluster, &[]);
    let told = watching.says("may not list pods");
    let rule = "add this rule to a ClusterRole of the account: {apiGroups: [\"\"], resources: \
                [pods], verbs: [get, list, watch]}";
    assert!(told.contains(rule), "{told}");
    assert!(!watching.is_ready(), "{told}");
    // Without services default constraints find less, and all else is right.
    cluster.fault(|faults| faults.forbidden = ["services"].into());
    watching.ready();
    let told = watching.says("may not list services");
    assert!(
        told.contains("default constraints do without Service"),
        "{told}"
    );
    assert!(!told.contains("may not list pods"), "{told}");
    cluster.put(
        "services",
        json!({"metadata": {"namespace": "shop", "name": "s"}}),
    );
    cluster.fault(|faults| faults.forbidden.clear());
    watching.holds(&["n", "s"]);
    until("all is right", || {
        let body = get(&watching.admin, "/readyz").body;
        (!body.contains("services")).then_some(())
    });
}

#[test]
fn a_silent_api_server_is_seen_in_the_age_and_bookmarks_are_signs_of_life() {
    let cluster = ApiServer::start();
    cluster.put("nodes", node("n", "a"));
    // It is only a warning.
    cluster.fault(|faults| faults.forbidden.extend(["statefulsets"]));
    let watching = Watching::start(&cluster, &["--max-age=15s"]);
    watching.ready();
    let first = watching.holds(&["n"]);
    until("a heartbeat", || {
        cluster.bookmark();
        let now = watching.described()?;
        (now.revision > first.revision && !now.stale).then_some(())
    });
    cluster.fault(|faults| faults.is_away = true);
    cluster.cut();
    watching.says("snapshot default is stale");
    watching.holds(&["n"]);
    cluster.put("nodes", node("m", "b"));
    cluster.fault(|faults| faults.is_away = false);
    watching.holds(&["m", "n"]);
    until("it is fresh", || {
        let told = get(&watching.admin, "/readyz").body;
        (!told.contains("stale")).then_some(())
    });
}

#[test]
fn an_object_that_is_refused_is_left_out_and_the_others_are_not() {
    // No API server would store such a label; limits of the server refuse real ones.
    let odd = pod("odd", json!({"v": "no label value"}));
    for is_first in [true, false] {
        let cluster = ApiServer::start();
        cluster.put("nodes", node("n", "a"));
        cluster.put("pods", pod("p", json!({})));
        if is_first {
            cluster.put("pods", odd.clone());
        }
        let watching = Watching::start(&cluster, &[]);
        watching.ready();
        watching.holds(&["n", "p"]);
        if !is_first {
            cluster.put("pods", odd.clone());
        }
        cluster.put("pods", pod("q", json!({})));
        watching.holds(&["n", "p", "q"]);
        let left = until("it is counted", || {
            let name = "evenkeel_kubernetes_left_out_total";
            let left = watching.metric(name, &["kind=\"Pod\""]);
            (left > 0.0).then_some(left)
        });
        assert_eq!(left, 1.0);
        // Changed, it is tried again.
        cluster.put("pods", pod("odd", json!({})));
        watching.holds(&["n", "odd", "p", "q"]);
    }
}

#[test]
fn default_constraints_are_those_of_the_scheduler() {
    let config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
                  profiles:\n- pluginConfig:\n  - name: PodTopologySpread\n    args:\n      \
                  defaultingType: List\n      defaultConstraints:\n      - {maxSkew: 2, \
                  topologyKey: rack, whenUnsatisfiable: ScheduleAnyway}\n";
    let cluster = ApiServer::start();
    let map = json!({"metadata": {"namespace": "kube-system", "name": "s"},
                     "data": {"policy.yaml": config}});
    cluster.put("configmaps", map);
    let file = cluster.kubeconfig().with_file_name("scheduler.yaml");
    std::fs::write(&file, config).expect("it can be written");
    let file = file.display().to_string();
    for place in ["configmap/kube-system/s:policy.yaml", &file] {
        let watching = Watching::start(&cluster, &["--kubernetes-scheduler-config", place]);
        watching.ready();
        let defaults = watching.described().and_then(|it| it.default_constraints);
        let defaults = defaults.expect("they are set");
        assert_eq!(defaults.constraints[0].topology_key, "rack", "{place}");
    }
    let place = "configmap/kube-system/none";
    let watching = Watching::start(&cluster, &["--kubernetes-scheduler-config", place]);
    watching.says("configmap kube-system/none of one: there is none");
}

#[test]
fn rules_of_access_hold_for_callers_and_not_for_the_feed() {
    let cluster = ApiServer::start();
    cluster.put("nodes", node("n", "a"));
    let file = cluster.kubeconfig().with_file_name("access.toml");
    let rule = format!(
        "[[allow]]\ntoken_sha256 = \"{}\"\nrole = \"reader\"\nsnapshots = [\"*\"]\n",
        "0".repeat(64)
    );
    std::fs::write(&file, rule).expect("it can be written");
    let file = file.display().to_string();
    let watching = Watching::start(&cluster, &["--access-file", &file]);
    watching.ready();
    assert_eq!(watching.described(), None);
}

#[test]
fn several_contexts_feed_several_snapshots_and_a_drain_ends_all() {
    let cluster = ApiServer::start();
    cluster.put("nodes", node("n", "a"));
    let mut watching = Watching::start(&cluster, &["--kubernetes=two=other"]);
    watching.ready();
    watching.holds(&["n"]);
    let nodes = |snapshot: &str| {
        let label = format!("snapshot=\"{snapshot}\"");
        watching.metric("evenkeel_snapshot_objects", &[&label, "kind=\"node\""])
    };
    assert_eq!((nodes("default"), nodes("other")), (1.0, 1.0));
    watching.server.signal("TERM");
    let status = watching.runtime.block_on(watching.server.exited());
    assert!(status.success(), "{status}");
}

#[test]
fn another_process_feeds_a_server_through_its_restarts() {
    let cluster = ApiServer::start();
    cluster.put("nodes", node("n", "a"));
    let server = Server::start(&["--expect-snapshot=default"]);
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let mut feeder = command(&[
        "feed",
        "--kubeconfig",
        &kubeconfig,
        "--server",
        server.url(),
    ]);
    let mut feeder = feeder.spawn().expect("the binary starts");
    let runtime = Runtime::new().expect("a runtime");
    holds(&runtime, &server, &["n"]);
    let address = server.address().to_owned();
    drop(server);
    let server = Server::spawn_on(
        &address,
        &mut command(&["serve", "--expect-snapshot=default"]),
    );
    cluster.put("nodes", node("m", "a"));
    holds(&runtime, &server, &["m", "n"]);
    let _ = feeder.kill();
    let _ = feeder.wait();
}

#[test]
fn settings_that_do_not_go_together_are_refused() {
    let cases: [(&[&str], &str); 4] = [
        (&["--kubernetes=one"], "want CONTEXT=SNAPSHOT, or nothing"),
        (
            &["--kubernetes=one=a", "--kubernetes=two=a"],
            "--kubernetes: two clusters for the snapshot a",
        ),
        (
            &["--kubernetes", "--load=x.json"],
            "--load and --kubernetes both for the snapshot default",
        ),
        (
            &["--kubernetes-scheduler-config=x.yaml"],
            "--kubernetes-scheduler-config needs --kubernetes",
        ),
    ];
    for (args, wanted) in cases {
        let mut serve = command(&["serve"]);
        let done = crate::process::run({
            serve.args(args);
            serve
        });
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(64), "{said}");
        assert!(said.contains(wanted), "{said}");
    }
}
