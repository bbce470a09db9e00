//! `evenkeel spread`, in this process and over a server.

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

#[test]
fn violators_come_worst_first() {
    let answer = workspace().run("spread --load cluster.yaml");
    let expected = "\
snapshot \"default\", revision 1, default constraints: system
violating: 1 of 3 workloads with constraints; 1 exceeds a soft max skew, which is no limit
3 workloads: 3 with constraints of their own

NAMESPACE  WORKLOAD           PODS  OVER                                                    SKEW   MOST       FEWEST
shop       Deployment/web     5     topology.kubernetes.io/zone, max skew 1, DoNotSchedule  3 > 1  zone-b 3   zone-a 0
shop       StatefulSet/cache  2     kubernetes.io/hostname, max skew 1, ScheduleAnyway      2 > 1  node-b1 2  node-c1 0
";
    assert_eq!((answer.code, answer.out.as_str()), (1, expected));
}

#[test]
fn one_workload_has_a_bar_per_domain() {
    let expected = "\
snapshot \"default\", revision 1, default constraints: system

Deployment/web, namespace shop: 5 pods
  over topology.kubernetes.io/zone, max skew 1, DoNotSchedule
    counts   pods with app=web
    skew     3 > 1
    minimum  0
    DOMAIN  PODS  SKEW  NODES  SPREAD
    zone-b  3     3     2      ██████│████████████
    zone-c  2     2     1      ██████│██████
    zone-a  0     0     1      ······│
";
    for kind in ["deployment", "Deployment", "deploy"] {
        let answer = workspace().run(&format!(
            "spread -n shop --workload {kind}/web --load cluster.yaml"
        ));
        assert_eq!((answer.code, answer.out.as_str()), (1, expected));
    }
}

#[test]
fn names_and_exit_codes() {
    let cases = [
        ("", 1, "Deployment/shop/web\nStatefulSet/shop/cache\n"),
        ("-n default", 2, ""),
        // A soft max skew is exceeded, and nothing is violated.
        (
            "-n shop --workload sts/cache",
            0,
            "StatefulSet/shop/cache\n",
        ),
        ("-n shop --workload sts/db", 0, "StatefulSet/shop/db\n"),
        (
            "--by topology.kubernetes.io/zone",
            0,
            "Deployment/shop/web\nStatefulSet/shop/cache\nStatefulSet/shop/db\n",
        ),
        ("--workload sts/db", 2, ""),
        ("--workload sts/shop/db", 0, "StatefulSet/shop/db\n"),
        ("-n shop --workload db", 2, ""),
        ("--workload sts/db --selector app=db", 2, ""),
        ("--by no/key/at/all", 2, ""),
    ];
    for (flags, code, names) in cases {
        let answer = workspace().run(&format!("spread {flags} --load cluster.yaml -o name"));
        assert_eq!((answer.code, answer.out.as_str()), (code, names), "{flags}");
    }
}

#[test]
fn a_server_answers_the_same() {
    let server = Server::start(&[]);
    let (asking, alone) = (workspace().with_server(server.url()), workspace());
    asking.expect(0, "load cluster.yaml --default-constraints system");
    let questions = [
        "",
        "-o wide",
        "-n shop -l app=web",
        "--by kubernetes.io/hostname",
    ];
    for flags in questions {
        let there = asking.run(&format!("spread {flags}"));
        let here = alone.run(&format!("spread {flags} --load cluster.yaml"));
        assert_eq!(there.out, here.out, "{flags}");
        assert_eq!(there.code, here.code, "{flags}");
    }
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

/// Nodes in two zones, of which two have a rack.
const FREE: &str = r#"
- {kind: Node, metadata: {name: a1, labels: {topology.kubernetes.io/zone: a, kubernetes.io/hostname: a1, rack: r1}}}
- {kind: Node, metadata: {name: a2, labels: {topology.kubernetes.io/zone: a, kubernetes.io/hostname: a2, rack: r2}}}
- {kind: Node, metadata: {name: b1, labels: {topology.kubernetes.io/zone: b, kubernetes.io/hostname: b1}}}
"#;

/// A list with [`FREE`] and pods: controller kind, controller, name, node.
fn free(pods: &[(&str, &str, &str, &str)]) -> String {
    let mut list = format!("apiVersion: v1\nkind: List\nitems:{FREE}");
    for (kind, owner, name, node) in pods {
        list += &format!(
            "- {{kind: Pod, metadata: {{name: {name}, labels: {{app: {owner}}}, ownerReferences: \
             [{{apiVersion: v1, kind: {kind}, name: {owner}, controller: true}}]}}, \
             spec: {{nodeName: '{node}'}}}}\n"
        );
    }
    list
}

#[test]
fn what_no_constraint_holds_is_counted() {
    let cluster = free(&[
        ("StatefulSet", "zonal", "zonal-0", "a1"),
        ("StatefulSet", "zonal", "zonal-1", "a2"),
        ("ReplicaSet", "nodal", "nodal-0", "b1"),
        ("ReplicaSet", "nodal", "nodal-1", "b1"),
        ("ReplicaSet", "nodal", "nodal-2", ""),
        ("StatefulSet", "even", "even-0", "a1"),
        ("StatefulSet", "even", "even-1", "b1"),
        ("Job", "single", "single-0", "a1"),
        ("Node", "a1", "proxy-a1", "a1"),
        ("Node", "a1", "api-a1", "a1"),
    ]);
    let workspace = Workspace::new().file("cluster.yaml", &cluster);
    let answer = workspace.expect(0, "spread --load cluster.yaml");
    let expected = "\
snapshot \"default\", revision 1, default constraints: system
violating: none, because no constraint is in force for 5 workloads
5 workloads: 3 with several pods and no constraints, 1 with a single pod, 1 whose pods are tied to their nodes
pending: 1 pod, counted in no domain yet
without any constraint: 2 all in one zone, 1 all on one node
see how they are spread with --by topology.kubernetes.io/zone
";
    assert_eq!(answer.out, expected);

    // Static pods and workloads of a single pod are not ranked.
    let by = workspace.expect(0, "spread --by rack --load cluster.yaml");
    let expected = "\
snapshot \"default\", revision 1, default constraints: system
5 workloads over rack
not ranked: 2 workloads of a single pod or of static pods

NAMESPACE  WORKLOAD           PODS          OVER  SKEW  MOST  FEWEST
default    StatefulSet/even   2             rack  1     r1 1  r2 0
default    ReplicaSet/nodal   3, 1 pending  rack  0     r1 0  r2 0
default    StatefulSet/zonal  2             rack  0     r1 1  r2 1
";
    assert_eq!(by.out, expected);
    // Asked about by name, they are shown all the same.
    let line = "spread --workload no/a1 --by rack --load cluster.yaml -o name";
    assert_eq!(workspace.expect(0, line).out, "Node/default/a1\n");

    let line = "spread --load cluster.yaml --default-constraints system";
    let defaults = workspace.expect(0, line);
    let missing = "warning: the files have no Service, ReplicaSet, StatefulSet; default constraints \
                   apply only to pods that one of these selects\n";
    assert_eq!(defaults.err, missing);
}

#[test]
fn a_key_that_no_node_has_is_refused() {
    let workspace = Workspace::new().file("cluster.yaml", &free(&[("Job", "one", "one-0", "a1")]));
    for flags in ["", "-n elsewhere", "--workload job/one", "-l app=one"] {
        let line = format!("spread --by racks {flags} --load cluster.yaml");
        let refused = workspace.expect(2, &line);
        let expected = "error: topologyKey: no node has the label \"racks\"; nodes have \
                        topology.kubernetes.io/zone, kubernetes.io/hostname, rack \
                        (FailedPrecondition)\n";
        assert_eq!(refused.err, expected, "{flags}");
        assert_eq!(refused.out, "", "{flags}");
    }
    // Nor is a zone assumed that no node has, where the question names no key.
    let bare = Workspace::new().file(
        "cluster.yaml",
        &free(&[("Job", "one", "one-0", "a1")]).replace("topology.kubernetes.io/zone", "zone"),
    );
    let told = bare.run("spread --workload job/one --load cluster.yaml");
    let told = told.expect(0).out;
    assert!(
        told.ends_with("1 pod\n  no constraint is in force\n"),
        "{told}"
    );
}

#[test]
fn without_pods_there_is_nothing_to_say() {
    let workspace = Workspace::new().file("cluster.yaml", &free(&[]));
    let answer = workspace.expect(0, "spread --load cluster.yaml");
    assert!(answer.out.ends_with("no workload: there are no pods\n"));
}
