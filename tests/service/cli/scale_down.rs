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
fn a_server_says_what_it_does_not_keep() {
    let server = Server::start(&[]);
    let workspace = workspace().with_server(server.url());
    workspace.expect(0, "load cluster.json --default-constraints system");
    let line = "scale-down -n shop rs/web --by 2";
    let untold = workspace.expect(0, line);
    untold.says("not known of 6 pods: readiness, deletion cost, restarts and age");
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
        told.says("in a rollout, by its revisions: 2 of 6 of old and 1 of 3 of new");
        assert!(told.err.contains("in proportion to their pods"), "{told:?}");
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

/// A workload with two or three revisions of pods, and how many pods of each go.
struct InRollout {
    kind: &'static str,
    /// Its replicas, and by how many it is scaled down.
    replicas: usize,
    by: usize,
    /// Its strategy and its status.
    strategy: Value,
    status: Value,
    /// The hash of each revision, with its pods and the annotations of its ReplicaSet.
    revisions: Vec<(&'static str, usize, Value)>,
    gone: Vec<usize>,
}

impl InRollout {
    fn label(&self) -> &'static str {
        match self.kind {
            "Deployment" => "pod-template-hash",
            "Rollout" => "rollouts-pod-template-hash",
            _ => "controller-revision-hash",
        }
    }

    fn objects(&self) -> Vec<Value> {
        let strategy = match self.kind {
            "CloneSet" => "updateStrategy",
            _ => "strategy",
        };
        let api_version = match self.kind {
            "Deployment" => "apps/v1",
            "Rollout" => "argoproj.io/v1alpha1",
            _ => "apps.kruise.io/v1alpha1",
        };
        let mut objects = vec![json!({"kind": self.kind, "apiVersion": api_version,
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"replicas": self.replicas, "selector": {"matchLabels": {"app": "web"}},
                strategy: self.strategy,
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}},
            "status": self.status})];
        for (at, (hash, count, annotations)) in self.revisions.iter().enumerate() {
            let name = format!("web-{hash}");
            let labels = json!({"app": "web", self.label(): hash});
            let mut owner = ["ReplicaSet", name.as_str()];
            if self.kind == "CloneSet" {
                owner = ["CloneSet", "web"];
            } else {
                objects.push(json!({"kind": "ReplicaSet", "apiVersion": "apps/v1",
                    "metadata": {"name": name, "namespace": "shop", "labels": labels,
                        "creationTimestamp": format!("2026-01-0{}T00:00:00Z", at + 1),
                        "annotations": annotations,
                        "ownerReferences": [{"apiVersion": api_version, "kind": self.kind,
                            "name": "web", "uid": "d", "controller": true}]},
                    "spec": {"replicas": count, "selector": {"matchLabels": labels},
                        "template": {"metadata": {"labels": labels}, "spec": {"containers": []}}}}));
            }
            objects.extend((0..*count).map(|pod| {
                let zone = ["a", "b", "c"][pod % 3];
                pod_of(owner, &format!("web-{hash}-{pod}"), zone, &labels)
            }));
        }
        objects
    }

    /// Scales it down in a file and in a cluster.
    fn check(&self) {
        let mut all = objects();
        all.truncate(3);
        all.extend(self.objects());
        let api = ApiServer::holding(all);
        let workspace = in_zones(self.objects()).file("kube.yaml", &api.config("shop"));
        for source in ["--load cluster.json", "--kubeconfig kube.yaml"] {
            let (kind, by) = (self.kind, self.by);
            let line = format!("scale-down {kind}/web -n shop --by {by} {source} -o name");
            let told = workspace.run(&line);
            let of = |hash: &str| {
                let hash = format!("-{hash}-");
                told.out.lines().filter(|it| it.contains(&hash)).count()
            };
            let gone = self.revisions.iter().map(|(hash, ..)| of(hash));
            let gone: Vec<usize> = gone.collect();
            assert_eq!(gone, self.gone, "{line}: {:?}: {told:?}", self.objects()[0]);
            let is_less = gone.iter().sum::<usize>() < by;
            let warns = told.err.contains("when the rollout ends");
            assert_eq!(warns, is_less, "{told:?}");
            assert!(!told.err.contains("in proportion"), "{told:?}");
        }
    }
}

/// In a rollout a Deployment's controller gives its replica sets what they had of the most pods that
/// there might be, which their annotation has, of the most that there may be now. Replicas and
/// maxSurge; for the old and the new one its size and annotation; by how many the Deployment is
/// scaled down, and how many pods of each go (kube-controller-manager 1.37.2).
#[test]
fn a_rollout_shrinks_by_what_its_controller_wrote_down() {
    let rolling =
        |surge: Value| json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}});
    let recreate = || json!({"type": "Recreate"});
    for (replicas, strategy, old, new, by, gone) in [
        (6, rolling(json!("25%")), (4, "8"), (2, "8"), 3, [2, 0]),
        (4, rolling(json!("25%")), (3, "5"), (2, "5"), 2, [1, 1]),
        (6, rolling(json!(2)), (3, "8"), (3, "8"), 2, [0, 0]),
        (5, rolling(json!(1)), (4, "6"), (2, "6"), 2, [1, 1]),
        (7, rolling(json!(0)), (4, ""), (3, "many"), 2, [1, 1]),
        (6, rolling(json!(1)), (4, "7"), (3, "7"), 6, [4, 3]),
        // With Recreate the only one that has pods gets all, and nothing is scaled while two have.
        (6, recreate(), (0, "6"), (6, "6"), 2, [0, 2]),
        (6, recreate(), (4, "6"), (2, "6"), 2, [0, 0]),
    ] {
        let most = |most: &str| json!({"deployment.kubernetes.io/max-replicas": most});
        let in_rollout = InRollout {
            kind: "Deployment",
            replicas,
            by,
            strategy,
            status: json!({}),
            revisions: vec![("old", old.0, most(old.1)), ("new", new.0, most(new.1))],
            gone: gone.to_vec(),
        };
        in_rollout.check();
    }
}

/// A Rollout's controller gives the canary its weight and the stable ReplicaSet the rest, both all of
/// it where traffic is routed or the Rollout is blue and green (Argo Rollouts 1.9).
#[test]
fn an_argo_rollout_shrinks_by_its_strategy() {
    let steps = || json!([{"setWeight": 20}, {"pause": {}}, {"setWeight": 60}]);
    let at =
        |step: usize| json!({"currentPodHash": "new", "stableRS": "old", "currentStepIndex": step});
    let with = |mut status: Value, field: &str, value: Value| {
        status[field] = value;
        status
    };
    let canary = |more: Value| {
        let mut canary = json!({"steps": steps(), "maxSurge": 0});
        for (field, value) in more.as_object().expect("fields") {
            canary[field] = value.clone();
        }
        json!({ "canary": canary })
    };
    let routed = || json!({"trafficRouting": {"nginx": {}}});
    let two = |old: usize, new: usize| vec![("old", old, json!({})), ("new", new, json!({}))];
    let and_older = |deadline: Value| {
        let mut all = two(10, 10);
        all.insert(0, ("older", 10, deadline));
        all
    };
    let deadline = || json!({"scale-down-deadline": "2026-01-01T00:00:00Z"});
    let blue_green = |more: Value| json!({ "blueGreen": more });
    for (by, strategy, status, revisions, gone) in [
        // A fifth, and three fifths, of five.
        (5, canary(json!({})), at(1), two(8, 2), vec![4, 1]),
        (5, canary(json!({})), at(2), two(4, 6), vec![2, 3]),
        // After the last step, and of one revision, all are the new one's.
        (5, canary(json!({})), at(3), two(0, 10), vec![0, 5]),
        (
            3,
            canary(json!({})),
            with(at(1), "stableRS", json!("new")),
            two(0, 10),
            vec![0, 3],
        ),
        // Aborted, it goes back to the stable one.
        (
            5,
            canary(json!({})),
            with(at(1), "abort", json!(true)),
            two(8, 2),
            vec![3, 2],
        ),
        // Nothing is scaled while it is paused by hand or by an analysis.
        (
            5,
            canary(json!({})),
            with(
                at(1),
                "pauseConditions",
                json!([{"reason": "InconclusiveAnalysisRun"}]),
            ),
            two(8, 2),
            vec![0, 0],
        ),
        // Routed, the stable one has all, or the rest where it is scaled too.
        (5, canary(routed()), at(1), two(10, 2), vec![5, 1]),
        (
            5,
            canary(json!({"trafficRouting": {}, "minPodsPerReplicaSet": 2})),
            at(1),
            two(10, 2),
            vec![5, 0],
        ),
        (
            5,
            canary(json!({"trafficRouting": {}, "dynamicStableScale": true})),
            with(
                at(1),
                "canary",
                json!({"weights": {"stable": {"weight": 80}}}),
            ),
            two(8, 2),
            vec![4, 1],
        ),
        (
            5,
            canary(json!({"trafficRouting": {}, "steps": [{"setCanaryScale": {"replicas": 3}}]})),
            at(0),
            two(10, 3),
            vec![5, 0],
        ),
        // An aborted canary stays for a while, and an older revision until its deadline.
        (
            5,
            canary(routed()),
            with(at(1), "abort", json!(true)),
            two(10, 2),
            vec![5, 0],
        ),
        (
            5,
            canary(routed()),
            at(1),
            and_older(deadline()),
            vec![0, 5, 9],
        ),
        (
            5,
            canary(routed()),
            at(1),
            and_older(json!({})),
            vec![10, 5, 9],
        ),
        (4, blue_green(json!({})), at(0), two(10, 10), vec![4, 4]),
        (
            4,
            blue_green(json!({})),
            at(0),
            and_older(deadline()),
            vec![4, 4, 4],
        ),
        (
            4,
            blue_green(json!({"previewReplicaCount": 1})),
            with(at(0), "blueGreen", json!({"activeSelector": "old"})),
            two(10, 1),
            vec![4, 0],
        ),
    ] {
        let in_rollout = InRollout {
            kind: "Rollout",
            replicas: 10,
            by,
            strategy,
            status,
            revisions,
            gone,
        };
        in_rollout.check();
    }
}

/// A CloneSet removes old pods first, down to its partition (OpenKruise 1.9).
#[test]
fn a_clone_set_removes_pods_of_its_old_revision_first() {
    let revisions = || vec![("web-old", 6, json!({})), ("web-new", 4, json!({}))];
    for (by, strategy, gone) in [
        (3, json!({}), [3, 0]),
        (3, json!({"partition": 4}), [2, 1]),
        (3, json!({"rollingUpdate": {"partition": "50%"}}), [2, 1]),
        (3, json!({"partition": 6}), [0, 3]),
        (3, json!({"maxSurge": 2}), [1, 0]),
        (3, json!({"maxSurge": 2, "paused": true}), [3, 0]),
    ] {
        let in_rollout = InRollout {
            kind: "CloneSet",
            replicas: 10,
            by,
            strategy,
            status: json!({"replicas": 10, "updatedReplicas": 4,
                "currentRevision": "web-old", "updateRevision": "web-new"}),
            revisions: revisions(),
            gone: gone.to_vec(),
        };
        in_rollout.check();
    }
}
