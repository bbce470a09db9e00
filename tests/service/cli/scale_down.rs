//! `evenkeel scale-down`: on files, on a server and on a cluster.

use serde_json::{Value, json};

use crate::cli::api_server::ApiServer;
use crate::cli::evenkeel::Workspace;
use crate::cli::process::Server;

/// Three zones; `web` has four pods in zone a, of which one is not ready, one in b and
/// one in c.
fn objects() -> Vec<Value> {
    let node = |name: &str, zone: &str| json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": {"zone": zone}}});
    let pod = |name: &str, node: &str, ready: &str, cost: &str| {
        json!({
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {
                "name": name, "namespace": "shop", "labels": {"app": "web"},
                "annotations": {"controller.kubernetes.io/pod-deletion-cost": cost, "other": "x"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                    "uid": "u", "controller": true}],
            },
            "spec": {"nodeName": node, "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}}}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
        })
    };
    vec![
        node("a1", "a"),
        node("b1", "b"),
        node("c1", "c"),
        pod("web-1", "a1", "True", "5"),
        pod("web-2", "a1", "True", "-5"),
        pod("web-3", "a1", "False", "0"),
        pod("web-4", "a1", "True", "9"),
        pod("web-5", "b1", "True", "0"),
        pod("web-6", "c1", "True", "0"),
    ]
}

fn workspace() -> Workspace {
    let list = json!({"kind": "List", "apiVersion": "v1", "items": objects()});
    Workspace::new().file("cluster.json", &list.to_string())
}

const TABLE: &str = "\
snapshot \"default\", revision 1, default constraints: system
ReplicaSet/shop/web: 2 of 6 pods should go

POD    NODE  OUT OF
web-3  a1    a 4
web-2  a1    a 3

over zone, max skew 1, DoNotSchedule: skew 3 -> 1
  DOMAIN  BEFORE  AFTER  PODS
  a       4       2      ##--
  b       1       1      #
  c       1       1      #
";

#[test]
fn files_say_what_is_ready_and_what_deleting_costs() {
    let line = "scale-down -n shop rs/web --by 2 --load cluster.json";
    assert_eq!(workspace().expect(0, line).out, TABLE);
    let names = workspace().expect(0, &format!("{line} -o name"));
    assert_eq!(names.out, "web-3\nweb-2\n");
    let json = workspace().expect(0, &format!("{line} -o json")).json();
    assert_eq!(json["removals"][0]["name"], "web-3");
    // Removing one pod is not enough to meet the constraint.
    let line = "scale-down rs/shop/web --by 1 --load cluster.json -o name";
    assert_eq!(workspace().expect(1, line).out, "web-3\n");
    let unknown = workspace().run("scale-down rs/shop/db --by 1 --load cluster.json");
    unknown.expect(2).complains("has no pods");
}

#[test]
fn a_server_is_told_what_it_does_not_keep() {
    let server = Server::start(&[]);
    let workspace = workspace().with_server(server.url());
    workspace.expect(0, "load cluster.json --default-constraints system");
    let line = "scale-down -n shop rs/web --by 2";
    let told = workspace.expect(0, &format!("{line} --pods cluster.json"));
    assert_eq!(told.out, TABLE);
    let untold = workspace.expect(0, line);
    untold.says("not known of 6 pods: readiness, deletion cost, restarts and age (--pods)");
    untold.says("web-1  a1    a 4\nweb-2  a1    a 3\n");
}

#[test]
fn a_cluster_is_listed() {
    let api = ApiServer::holding(objects());
    let workspace = Workspace::new().file("kube.yaml", &api.config("shop"));
    // The namespace is that of the context.
    let line = "scale-down rs/web --by 2 --kubeconfig kube.yaml -o name";
    assert_eq!(workspace.expect(0, line).out, "web-3\nweb-2\n");
}

/// A pod of a workload with a hard constraint over zones, on the node `ZONE1`.
fn pod_of(owner: [&str; 2], name: &str, zone: &str, labels: &Value) -> Value {
    let mut labels = labels.clone();
    labels["app"] = "web".into();
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "shop", "labels": labels,
            "ownerReferences": [{"apiVersion": "v1", "kind": owner[0], "name": owner[1],
                "uid": "u", "controller": true}]},
        "spec": {"nodeName": format!("{zone}1"), "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// Three nodes, one in each zone, and these objects.
fn in_zones(more: Vec<Value>) -> Workspace {
    let mut objects = objects();
    objects.truncate(3);
    objects.extend(more);
    let list = json!({"kind": "List", "apiVersion": "v1", "items": objects});
    Workspace::new().file("cluster.json", &list.to_string())
}

/// A StatefulSet removes its highest ordinals, whatever that leaves.
#[test]
fn a_stateful_set_removes_its_highest_ordinals() {
    let web = |ordinals: &[usize], first: usize| {
        let pods = ordinals.iter().map(|ordinal| {
            let zone = ["a", "b", "c"][(ordinal - first) / 3];
            pod_of(
                ["StatefulSet", "web"],
                &format!("web-{ordinal}"),
                zone,
                &json!({}),
            )
        });
        pods.collect::<Vec<_>>()
    };
    let set = |replicas: usize, start: usize| {
        json!({"kind": "StatefulSet", "apiVersion": "apps/v1",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"replicas": replicas, "ordinals": {"start": start},
                "selector": {"matchLabels": {"app": "web"}}}})
    };
    let all: Vec<usize> = (0..9).collect();
    let workspace = in_zones(web(&all, 0));
    let line = "scale-down sts/shop/web --by 3 --load cluster.json";
    let told = workspace.expect(1, line);
    for said in [
        "StatefulSet/shop/web: 3 of 9 pods go, those with the highest ordinals",
        "web-8  c1    c 3\nweb-7  c1    c 2\nweb-6  c1    c 1\n",
        "skew 0 -> 3",
        "  c       3       0      ---",
        "if they could be chosen, web-0, web-3 and web-6 would be better: skew 0 over zone",
    ] {
        told.says(said);
    }
    let names = |workspace: &Workspace, by: usize| {
        let line = format!("scale-down sts/shop/web --by {by} --load cluster.json -o name");
        workspace.run(&line).out
    };
    assert_eq!(names(&workspace, 3), "web-8\nweb-7\nweb-6\n");
    // Pods that are missing are not replaced by lower ones.
    let mut gaps = web(&[0, 1, 2, 3, 4, 5, 7], 0);
    gaps.push(set(9, 0));
    assert_eq!(names(&in_zones(gaps), 3), "web-7\n");
    // Ten is higher than nine, and what is beyond the wanted number goes too.
    let mut beyond = web(&(10..19).collect::<Vec<_>>(), 10);
    beyond.push(set(8, 10));
    assert_eq!(names(&in_zones(beyond), 1), "web-18\nweb-17\n");
}

#[test]
fn some_kinds_have_no_number_of_replicas() {
    for (kind, named) in [("DaemonSet", "ds"), ("Job", "job"), ("Node", "node")] {
        let workspace = in_zones(vec![pod_of([kind, "web"], "web-1", "a", &json!({}))]);
        let line = format!("scale-down {named}/shop/web --by 1 --load cluster.json -o name");
        let refused = workspace.expect(2, &line);
        refused.complains(&format!("workload.kind: must not be {kind}"));
        assert_eq!(refused.out, "");
    }
}

/// What is not ready goes first, whatever is best for the spread.
#[test]
fn replica_sets_remove_first_what_is_not_ready() {
    let hashed = json!({"pod-template-hash": "1a"});
    let rollouts = json!({"rollouts-pod-template-hash": "1a"});
    for (named, owner, labels) in [
        ("rs/shop/web-1a", ["ReplicaSet", "web-1a"], &hashed),
        ("deploy/shop/web", ["ReplicaSet", "web-1a"], &hashed),
        ("Rollout/shop/web", ["ReplicaSet", "web-1a"], &rollouts),
        ("CloneSet/shop/web", ["CloneSet", "web"], &json!({})),
    ] {
        let zones = ["a", "a", "a", "b", "c"];
        let pods = zones.iter().enumerate();
        let pods = pods.map(|(index, zone)| pod_of(owner, &format!("web-{index}"), zone, labels));
        let mut pods: Vec<Value> = pods.collect();
        let names = |pods: &[Value]| {
            let line = format!("scale-down {named} --by 2 --load cluster.json -o name");
            in_zones(pods.to_vec()).run(&line).out
        };
        assert_eq!(names(&pods), "web-0\nweb-1\n", "{named}");
        pods[4]["status"]["conditions"][0]["status"] = "False".into();
        assert_eq!(names(&pods), "web-4\nweb-0\n", "{named}");
    }
    let pods = vec![pod_of(["Cluster", "web"], "web-1", "a", &json!({}))];
    let told = in_zones(pods).run("scale-down Cluster/shop/web --by 1 --load cluster.json");
    told.says("how a Cluster chooses the pods that it removes is not known");
}

/// In the middle of a rollout the controller scales each of its replica sets down, in proportion.
#[test]
fn a_rollout_shrinks_all_its_replica_sets() {
    for (kind, label) in [
        ("deploy", "pod-template-hash"),
        ("Rollout", "rollouts-pod-template-hash"),
    ] {
        let pods = |hash: &str, zones: &str, created: &str| {
            let owner = format!("web-{hash}");
            let pods = zones.chars().enumerate().map(|(at, zone)| {
                let owner = ["ReplicaSet", owner.as_str()];
                let name = format!("web-{hash}-{at}");
                let mut pod = pod_of(owner, &name, &zone.to_string(), &json!({label: hash}));
                pod["metadata"]["creationTimestamp"] = json!(created);
                pod
            });
            pods.collect::<Vec<_>>()
        };
        // All of zone a are of the new one, so one choice of all would take these.
        let mut all = pods("old", "bbccbc", "2026-01-01T00:00:00Z");
        all.extend(pods("new", "aaa", "2026-01-02T00:00:00Z"));
        let workspace = in_zones(all);
        let line = format!("scale-down {kind}/shop/web --by 3 --load cluster.json");
        let told = workspace.run(&line);
        told.says(
            "in a rollout each replica set shrinks in proportion: 2 of 6 of old and 1 of 3 of new",
        );
        let names = workspace.run(&format!("{line} -o name")).out;
        let of = |hash: &str| names.lines().filter(|it| it.contains(hash)).count();
        assert_eq!((of("-old-"), of("-new-")), (2, 1), "{names}");
        let json = workspace.run(&format!("{line} -o json")).json();
        assert_eq!(json["revisions"][0]["removalCount"], "2", "{json}");
        // A replica set by itself loses its own pods.
        let line = "scale-down rs/shop/web-new --by 3 --load cluster.json -o name";
        assert_eq!(workspace.run(line).out.lines().count(), 3);
        // Of two as large the older one gives what is left over.
        let mut even = pods("b-old", "abc", "2026-01-01T00:00:00Z");
        even.extend(pods("a-new", "abc", "2026-01-02T00:00:00Z"));
        let line = format!("scale-down {kind}/shop/web --by 1 --load cluster.json -o name");
        assert!(in_zones(even).run(&line).out.starts_with("web-b-old-"));
    }
}

/// In a rollout a Deployment's controller gives its replica sets what they had of the most pods that
/// there might be, which their annotation has, of the most that there may be now.
#[test]
fn a_rollout_shrinks_by_what_its_controller_wrote_down() {
    let set = |hash: &str, replicas: usize, most: &str, created: &str| {
        json!({"kind": "ReplicaSet", "apiVersion": "apps/v1",
            "metadata": {"name": format!("web-{hash}"), "namespace": "shop", "creationTimestamp": created,
                "labels": {"app": "web", "pod-template-hash": hash},
                "annotations": {"deployment.kubernetes.io/max-replicas": most},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web",
                    "uid": "d", "controller": true}]},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"pod-template-hash": hash}},
                "template": {"metadata": {"labels": {"app": "web", "pod-template-hash": hash}}}}})
    };
    let deployment = |replicas: usize, surge: &Value| {
        json!({"kind": "Deployment", "apiVersion": "apps/v1",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}},
                "template": {"metadata": {"labels": {"app": "web"}}}}})
    };
    let pods = |hash: &str, count: usize| {
        let owner = format!("web-{hash}");
        let pods = (0..count).map(|at| {
            let labels = json!({"pod-template-hash": hash});
            let name = format!("web-{hash}-{at}");
            pod_of(
                ["ReplicaSet", owner.as_str()],
                &name,
                ["a", "b", "c"][at % 3],
                &labels,
            )
        });
        pods.collect::<Vec<_>>()
    };
    // Replicas and maxSurge; for the old and the new one its size and annotation; by how many the
    // Deployment is scaled down, and how many pods of each go (kube-controller-manager 1.37.2).
    for (replicas, surge, old, new, by, gone) in [
        (6, json!("25%"), (4, "8"), (2, "8"), 3, (2, 0)),
        (4, json!("25%"), (3, "5"), (2, "5"), 2, (1, 1)),
        (6, json!(2), (3, "8"), (3, "8"), 2, (0, 0)),
        (5, json!(1), (4, "6"), (2, "6"), 2, (1, 1)),
        (7, json!(0), (4, ""), (3, "many"), 2, (1, 1)),
        (6, json!(1), (4, "7"), (3, "7"), 6, (4, 3)),
    ] {
        let mut objects = vec![deployment(replicas, &surge)];
        objects.push(set("old", old.0, old.1, "2026-01-01T00:00:00Z"));
        objects.push(set("new", new.0, new.1, "2026-01-02T00:00:00Z"));
        objects.extend(pods("old", old.0));
        objects.extend(pods("new", new.0));
        let mut all = self::objects();
        all.truncate(3);
        all.extend(objects.clone());
        let api = ApiServer::holding(all);
        let workspace = in_zones(objects).file("kube.yaml", &api.config("shop"));
        for source in ["--load cluster.json", "--kubeconfig kube.yaml"] {
            let line = format!("scale-down deploy/web -n shop --by {by} {source} -o name");
            let told = workspace.run(&line);
            let of = |hash: &str| told.out.lines().filter(|it| it.contains(hash)).count();
            assert_eq!(
                (of("-old-"), of("-new-")),
                gone,
                "{line}: {old:?} {new:?}: {told:?}"
            );
            let is_less = gone.0 + gone.1 < by;
            assert_eq!(
                told.err.contains("the rollout goes on"),
                is_less,
                "{told:?}"
            );
        }
    }
}
