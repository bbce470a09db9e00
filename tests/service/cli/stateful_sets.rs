//! Pods of StatefulSets: each missing one is judged by its own ordinal and its own claims, whatever
//! names the StatefulSet and whoever answers.

use serde_json::{Value, json};

use crate::cli::api_server::ApiServer;
use crate::cli::evenkeel::{Outcome, Workspace};
use crate::cli::process::Server;

/// A StatefulSet `store` with a hard constraint over zones, in three zones of two nodes each.
struct Case {
    /// The bound claims: template, ordinal and the zone of the volume.
    disks: Vec<(&'static str, u32, &'static str)>,
    /// The ordinals of the pods, with their nodes; empty of a pod that waits.
    pods: Vec<(u32, &'static str)>,
    /// The names of the claim templates.
    templates: Vec<&'static str>,
    replicas: u32,
    start: u32,
    policy: &'static str,
}

impl Case {
    fn new(disks: &[(u32, &'static str)], pods: &[(u32, &'static str)], replicas: u32) -> Self {
        let disks = disks
            .iter()
            .map(|(ordinal, zone)| ("data", *ordinal, *zone));
        Self {
            disks: disks.collect(),
            pods: pods.to_vec(),
            templates: vec!["data"],
            replicas,
            start: 0,
            policy: "OrderedReady",
        }
    }

    fn spec(&self, ordinal: Option<u32>) -> Value {
        let volumes = self.templates.iter().filter_map(|template| {
            let claim = format!("{template}-store-{}", ordinal?);
            Some(json!({"name": template, "persistentVolumeClaim": {"claimName": claim}}))
        });
        json!({
            "containers": [{"name": "main", "image": "i",
                "resources": {"requests": {"cpu": "100m", "memory": "1Mi"}}}],
            "volumes": volumes.collect::<Vec<_>>(),
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "store"}},
            }],
        })
    }

    fn set(&self) -> Value {
        let claim = |name: &&str| {
            json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
                "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}})
        };
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": "store", "namespace": "prod"},
            "spec": {
                "replicas": self.replicas, "ordinals": {"start": self.start},
                "podManagementPolicy": self.policy,
                "selector": {"matchLabels": {"app": "store"}},
                "template": {"metadata": {"labels": {"app": "store"}}, "spec": self.spec(None)},
                "volumeClaimTemplates": self.templates.iter().map(claim).collect::<Vec<_>>(),
            },
        })
    }

    fn objects(&self) -> Vec<Value> {
        let nodes = ["a1", "a2", "b1", "b2", "c1", "c2"].map(|name| {
            json!({"apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "labels": {"zone": name[..1]}},
                "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}}})
        });
        let mut objects = nodes.to_vec();
        objects.push(
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {"name": "fast"}, "provisioner": "disk.example.com",
            "volumeBindingMode": "WaitForFirstConsumer"}),
        );
        for (template, ordinal, zone) in &self.disks {
            let claim = format!("{template}-store-{ordinal}");
            objects.push(json!({"apiVersion": "v1", "kind": "PersistentVolume",
                "metadata": {"name": format!("pv-{claim}")},
                "spec": {"storageClassName": "fast", "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "claimRef": {"namespace": "prod", "name": claim, "uid": claim},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                        {"key": "zone", "operator": "In", "values": [zone]}]}]}}}}));
            objects.push(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": claim, "namespace": "prod", "uid": claim,
                    "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
                "spec": {"storageClassName": "fast", "volumeName": format!("pv-{claim}"),
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}}},
                "status": {"phase": "Bound"}}));
        }
        for (ordinal, node) in &self.pods {
            let mut spec = self.spec(Some(*ordinal));
            let phase = if node.is_empty() {
                "Pending"
            } else {
                "Running"
            };
            if !node.is_empty() {
                spec["nodeName"] = (*node).into();
            }
            objects.push(json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("store-{ordinal}"), "namespace": "prod",
                    "labels": {"app": "store"}, "ownerReferences": [{"apiVersion": "apps/v1",
                        "kind": "StatefulSet", "name": "store", "uid": "s", "controller": true}]},
                "spec": spec, "status": {"phase": phase}}));
        }
        objects
    }

    /// Asks by name and by file, of files, a server and a cluster. `what` is the command, with
    /// `SET` where the StatefulSet is named.
    fn ask(&self, what: &str) -> Vec<(String, Outcome)> {
        let all: Vec<Value> = self.objects().into_iter().chain([self.set()]).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": all});
        let server = Server::start(&[]);
        let api = ApiServer::holding(all);
        let workspace = Workspace::new()
            .file("cluster.json", &list.to_string())
            .file("set.json", &self.set().to_string())
            .file("kube.yaml", &api.config("shop"));
        let served = Workspace::new()
            .file("cluster.json", &list.to_string())
            .file("set.json", &self.set().to_string())
            .with_server(server.url());
        served.expect(0, "load cluster.json");
        let mut outcomes = Vec::new();
        for named in ["sts/prod/store", "-f set.json"] {
            for (workspace, source) in [
                (&workspace, "--load cluster.json"),
                (&workspace, "--kubeconfig kube.yaml"),
                (&served, ""),
            ] {
                let line = format!("{} {source}", what.replace("SET", named));
                outcomes.push((line.clone(), workspace.run(&line)));
            }
        }
        outcomes
    }

    /// Asks in all ways to place `more`, and compares the zone of each pod that is placed. The exit
    /// code is 1 if others are not.
    #[track_caller]
    fn places(&self, more: &str, zones: &[(&str, &str)], unplaced: usize) {
        for (line, outcome) in self.ask(&format!("place SET {more} -o json")) {
            let outcome = outcome.expect(i32::from(unplaced > 0));
            let answer = outcome.json();
            let placed = answer["placements"].as_array().into_iter().flatten();
            let placed = placed.map(|it| {
                let at = it["workload"].as_u64().unwrap_or(0) as usize;
                let pod = answer["workloads"][at]["podName"].as_str().unwrap_or("");
                let zone = &it["node"].as_str().expect("a node")[..1];
                (pod.to_owned(), zone.to_owned())
            });
            let mut placed: Vec<_> = placed.collect();
            placed.sort();
            let expected = zones.iter();
            let expected = expected.map(|(pod, zone)| ((*pod).to_owned(), (*zone).to_owned()));
            assert_eq!(placed, expected.collect::<Vec<_>>(), "{line}");
            let left = answer["unplaced"].as_u64().unwrap_or(0);
            assert_eq!(left, unplaced as u64, "{line}");
        }
    }

    /// Asks in all ways for the nodes of the next pod.
    #[track_caller]
    fn goes_to(&self, pod: &str, nodes: &str) {
        for (line, outcome) in self.ask("filter SET -o name") {
            assert_eq!(outcome.out, nodes, "{line}: {}", outcome.err);
        }
        for (line, outcome) in self.ask("explain SET") {
            let head = outcome.out.lines().next().unwrap_or_default();
            assert!(head.ends_with(&format!(", pod {pod}")), "{line}: {head}");
        }
    }
}

const THREE: [(u32, &str); 3] = [(0, "a1"), (1, "b1"), (2, "c1")];

#[test]
fn a_replica_goes_where_its_own_disk_is() {
    let disks = [(0, "a"), (1, "b"), (2, "c"), (3, "a")];
    // Both are in zone a, which takes one more.
    let both_in_a = [&disks[..], &[(4, "a")]].concat();
    let case = Case::new(&both_in_a, &THREE, 5);
    case.places("--replicas 5", &[("store-3", "a")], 1);
    case.places("--joint", &[("store-3", "a")], 1);
    case.goes_to("store-3", "a1\na2\n");
    let in_a_and_b = [&disks[..], &[(4, "b")]].concat();
    let case = Case::new(&in_a_and_b, &THREE, 3);
    let both = [("store-3", "a"), ("store-4", "b")];
    case.places("--replicas 5", &both, 0);
    case.places("--add 2", &both, 0);
    case.places("", &[], 0);
}

#[test]
fn gaps_are_filled_first() {
    let disks = [(0, "a"), (1, "a"), (2, "b"), (3, "c")];
    let case = Case::new(&disks, &[(0, "a1"), (2, "b1"), (3, "c1")], 4);
    case.places("", &[("store-1", "a")], 0);
    case.goes_to("store-1", "a1\na2\n");
    // A pod that waits is not placed.
    let pods = [(0, "a1"), (1, ""), (2, "b1"), (3, "c1")];
    let case = Case::new(&disks, &pods, 4);
    case.places("", &[("store-1", "a")], 0);
    case.goes_to("store-1", "a1\na2\n");
    for (line, outcome) in case.ask("place SET") {
        let said = "1 of the 4 waits for a node: store-1";
        assert!(outcome.out.contains(said), "{line}: {}", outcome.out);
    }
}

#[test]
fn ordinals_start_where_the_spec_says() {
    let disks = [(5, "a"), (6, "b"), (7, "c"), (8, "b")];
    let mut case = Case::new(&disks, &[(5, "a1"), (7, "c1")], 4);
    case.start = 5;
    case.places("", &[("store-6", "b"), ("store-8", "b")], 0);
    case.goes_to("store-6", "b1\nb2\n");
    // What was created before the start was raised is no replica.
    let mut case = Case::new(&disks, &[(0, "a1"), (1, "b1"), (5, "c1")], 2);
    case.start = 5;
    case.goes_to("store-6", "b1\nb2\n");
}

#[test]
fn pods_beyond_the_wanted_ones_are_no_replicas() {
    let disks = [(0, "a"), (1, "b"), (2, "c"), (3, "a"), (7, "b")];
    let pods = [(0, "a1"), (1, "b1"), (2, "c1"), (7, "b2")];
    let case = Case::new(&disks, &pods, 4);
    case.places("", &[("store-3", "a")], 0);
    case.goes_to("store-3", "a1\na2\n");
}

/// Zone b takes no second pod while zone c has none, and store-3 is created once store-1 is ready.
#[test]
fn ordered_pods_wait_for_the_one_before() {
    let disks = [(0, "a"), (1, "b"), (2, "b"), (3, "c")];
    let mut case = Case::new(&disks, &[(0, "a1"), (2, "b1")], 4);
    case.places("", &[], 2);
    for (line, outcome) in case.ask("place SET") {
        for said in [
            "placed: 0 of 2 more, 2 in all",
            "store-1: 4 node(s) didn't match PersistentVolume's node affinity, 2 node(s) didn't",
            "store-3: waits until store-1 is ready",
        ] {
            assert!(
                outcome.out.contains(said),
                "{line}: {said}\n{}",
                outcome.out
            );
        }
    }
    // lint judges the same pod.
    let told = case.ask("lint SET").into_iter();
    let mut told = told.filter(|(line, _)| line.contains("-f set.json --load"));
    let (_, told) = told.next().expect("one of a file");
    told.expect(1).says("[fits-nowhere]");
    // Others are created at once, and what pends is tried again: store-1 once zone c has a pod.
    case.policy = "Parallel";
    case.places("", &[("store-1", "b"), ("store-3", "c")], 0);
    for (_, outcome) in case.ask("place SET") {
        outcome.says("b       1       2      #+");
    }
}

#[test]
fn each_template_makes_a_claim() {
    let mut case = Case::new(&[(0, "a"), (1, "b"), (2, "c"), (3, "a")], &THREE, 4);
    case.templates = vec!["data", "logs"];
    case.disks.extend([("logs", 3, "b"), ("logs", 0, "a")]);
    case.places("", &[], 1);
    case.goes_to("store-3", "");
    case.disks[4].2 = "a";
    case.places("", &[("store-3", "a")], 0);
}

/// store-3 may go anywhere, and takes zone a, by name the first, from store-4.
#[test]
fn replicas_are_planned_together() {
    let disks = [(0, "a"), (1, "b"), (2, "c"), (4, "a")];
    let case = Case::new(&disks, &[(0, "a1"), (1, "b1"), (2, "c1")], 5);
    case.places("--joint", &[("store-3", "b"), ("store-4", "a")], 0);
    for policy in ["OrderedReady", "Parallel"] {
        let mut case = Case::new(&disks, &THREE, 5);
        case.policy = policy;
        case.places("", &[("store-3", "a")], 1);
    }
}

/// Zones a and b take no third pod before zone c has its second, so store-3 has to go to c, and store-6
/// to one that leaves room in a for store-7. By name both would go to a.
#[test]
fn other_nodes_are_tried_where_no_order_helps() {
    let disks = [(0, "a"), (1, "b"), (2, "c"), (4, "a"), (5, "b"), (7, "a")];
    let mut case = Case::new(&disks, &THREE, 8);
    let all = [
        ("store-3", "c"),
        ("store-4", "a"),
        ("store-5", "b"),
        ("store-6", "b"),
        ("store-7", "a"),
    ];
    // Without an order store-5 may wait for zone c, and take its turn after it.
    let at_once = [("store-3", "b"), all[1], all[2], ("store-6", "c"), all[4]];
    for (policy, greedy, all) in [("OrderedReady", 1, all), ("Parallel", 4, at_once)] {
        case.policy = policy;
        for (line, outcome) in case.ask("place SET") {
            let said = format!("placed: {greedy} of 5 more");
            assert!(outcome.out.contains(&said), "{line}: {}", outcome.out);
        }
        case.places("--joint", &all, 0);
    }
}

/// Without a number of its own, a server knows it from the StatefulSet.
#[test]
fn alike_replicas_are_placed_as_one() {
    let mut case = Case::new(&[], &THREE, 9);
    case.templates.clear();
    for (line, outcome) in case.ask("place SET -o json") {
        let answer = outcome.expect(0).json();
        let nodes = answer["placements"].as_array().expect("placements").len();
        assert_eq!((nodes, &answer["workloads"]), (6, &Value::Null), "{line}");
        let names = answer["placements"].as_array().into_iter().flatten();
        let names: Vec<&str> = names.filter_map(|it| it["podName"].as_str()).collect();
        let expected = [
            "store-3", "store-4", "store-5", "store-6", "store-7", "store-8",
        ];
        assert_eq!(names, expected, "{line}");
    }
    case.goes_to("store-3", "a1\na2\nb1\nb2\nc1\nc2\n");
}

/// Pods below the partition of an update are made of the revision before, and counted with those of
/// that revision where the constraint asks for it.
#[test]
fn pods_below_the_partition_are_of_the_revision_before() {
    let case = Case::new(&[], &[(0, "a1"), (2, "b1"), (3, "c1")], 4);
    let keys = json!(["controller-revision-hash"]);
    for (strategy, nodes) in [
        (
            json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}),
            "c1\nc2\n",
        ),
        (
            json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}),
            "a1\na2\nb1\nb2\n",
        ),
        (json!({"type": "RollingUpdate"}), "c1\nc2\n"),
        (json!({"type": "OnDelete"}), "a1\na2\nb1\nb2\n"),
    ] {
        let mut set = case.set();
        set["spec"]["updateStrategy"] = strategy.clone();
        set["spec"]["volumeClaimTemplates"] = json!([]);
        set["status"] = json!({"currentRevision": "store-old", "updateRevision": "store-new", "currentReplicas": 2});
        let constraint = "/spec/template/spec/topologySpreadConstraints/0";
        set.pointer_mut(constraint).expect("it has one")["matchLabelKeys"] = keys.clone();
        let mut items = case.objects();
        for pod in items.iter_mut().filter(|it| it["kind"] == "Pod") {
            let of = if pod["metadata"]["name"] == "store-3" {
                "new"
            } else {
                "old"
            };
            pod["metadata"]["labels"]["controller-revision-hash"] = json!(format!("store-{of}"));
            pod["spec"]["volumes"] = json!([]);
        }
        items.push(set);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        let workspace = Workspace::new().file("cluster.json", &list.to_string());
        let told = workspace.run("filter sts/prod/store --load cluster.json -o name");
        assert_eq!(told.out, nodes, "{strategy}: {}", told.err);
    }
}
