//! Placing, with and without a server.

use serde_json::{Value, json};

use crate::cli::evenkeel::Workspace;
use crate::cli::workspace;

const FLEET: &str = include_str!("../../../examples/fleet/fleet.yaml");
const PLACEMENT: &str = include_str!("../../../examples/fleet/placement.yaml");

fn fleet_desk() -> Workspace {
    Workspace::new()
        .file("fleet.yaml", FLEET)
        .file("placement.yaml", PLACEMENT)
}

#[test]
fn names_come_in_the_order_of_the_picks() {
    let deployment = "-f workloads.yaml --name web --load cluster.yaml";
    let cases = [
        // The pod does not tolerate the taint of zone c, which stays at 0 pods. So zone b, which
        // has one pod, may take no other.
        (format!("{deployment} --replicas 1"), 1, vec![]),
        (
            format!("{deployment} --spread-only --replicas 4"),
            0,
            vec!["c1", "b1", "c1", "a2"],
        ),
        (
            format!("{deployment} --overlay-delete node/c1 --replicas 3"),
            0,
            vec!["b1", "a1", "b1"],
        ),
    ];
    for (line, code, names) in cases {
        let outcome = workspace().expect(code, &format!("place {line} -o name"));
        assert_eq!(outcome.out.lines().collect::<Vec<_>>(), names, "{line}");
    }
}

#[test]
fn the_table_shows_before_and_after() {
    let line = "place -f workloads.yaml --name web --load cluster.yaml \
                --overlay-delete node/c1 --replicas 3";
    let out = workspace().expect(0, line).out;
    for shown in [
        "placed: 3 of 3",
        "b1    2      0",
        "constraint 0: zone, max skew 1, DoNotSchedule",
        "a       2       3      ##+",
        "b       1       3      #++",
    ] {
        assert!(out.contains(shown), "{shown:?} in\n{out}");
    }
    let line = "place -f workloads.yaml --name web --load cluster.yaml --replicas 7";
    let out = workspace().expect(1, line).out;
    for shown in [
        "placed: 0 of 7",
        "2 node(s) didn't match pod topology spread constraints",
        "1 node(s) had untolerated taint(s)",
        "1 node(s) were unschedulable",
    ] {
        assert!(out.contains(shown), "{shown:?} in\n{out}");
    }
}

/// Zone a has only rack r1, which the first greedy pick takes in zone b.
#[test]
fn jointly_more_are_placed() {
    let node = |name: &str, zone: &str, rack: &str| {
        format!(
            "- {{kind: Node, metadata: {{name: {name}, labels: {{zone: {zone}, rack: {rack}}}}}}}\n"
        )
    };
    let nodes = [
        node("n0", "b", "r1"),
        node("n1", "b", "r2"),
        node("n2", "a", "r1"),
    ];
    let constraint = |key: &str| {
        format!(
            "{{maxSkew: 1, topologyKey: {key}, whenUnsatisfiable: DoNotSchedule, \
             labelSelector: {{matchLabels: {{app: web}}}}}}"
        )
    };
    let pod = format!(
        "{{kind: Pod, metadata: {{name: web, labels: {{app: web}}}}, \
         spec: {{topologySpreadConstraints: [{}, {}]}}}}",
        constraint("zone"),
        constraint("rack")
    );
    let workspace = Workspace::new()
        .file(
            "nodes.yaml",
            &format!("kind: List\napiVersion: v1\nitems:\n{}", nodes.concat()),
        )
        .file("pod.yaml", &pod);
    let line = "place -f pod.yaml --load nodes.yaml";
    let greedy = workspace.expect(1, &format!("{line} --replicas 2 -o name"));
    assert_eq!(greedy.out, "n0\n");
    let joint = workspace.expect(0, &format!("{line} --replicas 2 --joint -o name"));
    assert_eq!(joint.out.lines().count(), 2);
    // Nothing may go to a third zone, which keeps the others at one pod each.
    let workspace = workspace.file(
        "third.yaml",
        "{kind: Node, metadata: {name: n3, labels: {zone: c, rack: r2}}, spec: {unschedulable: true}}",
    );
    let out = workspace
        .expect(1, &format!("{line} --load third.yaml --replicas 4 --joint"))
        .out;
    assert!(out.contains("no plan places more\n"), "{out}");
}

/// Two workloads of one file, or one: the headline counts them.
#[test]
fn the_workloads_of_a_file_are_placed_together() {
    let deployment = |name: &str, replicas: usize| {
        format!(
            "---
kind: Deployment
apiVersion: apps/v1
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: zone
        whenUnsatisfiable: DoNotSchedule
        labelSelector: {{matchLabels: {{app: {name}}}}}
"
        )
    };
    let workspace = Workspace::new()
        .file(
            "nodes.yaml",
            "{kind: List, apiVersion: v1, items: [
{kind: Node, metadata: {name: n0, labels: {zone: a}}},
{kind: Node, metadata: {name: n1, labels: {zone: b}}}]}",
        )
        .file("one.yaml", &deployment("web", 2))
        .file("two.yaml", &(deployment("web", 2) + &deployment("db", 1)));
    let placed = |file: &str| {
        let line = format!("place -f {file} --load nodes.yaml --spread-only --all-or-nothing");
        workspace.expect(0, &line).out
    };
    let two = placed("two.yaml");
    for part in [
        "2 workloads",
        "placed: 3 of 3",
        "web",
        "db",
        "placed: 2 of 2",
        "placed: 1 of 1",
    ] {
        assert!(two.contains(part), "{part}: {two}");
    }
    let one = placed("one.yaml");
    assert!(one.contains("placed: 2 of 2"), "{one}");
    assert!(!one.contains("1 workloads"), "{one}");
}

/// KubeFleet's documented example.
#[test]
fn the_fleet_example() {
    let line = "place -f placement.yaml --load fleet.yaml -o json";
    let answer = fleet_desk().expect(0, line).json();
    let picks = answer["placements"].as_array().expect("a list");
    let nodes: Vec<&Value> = picks.iter().map(|pick| &pick["node"]).collect();
    assert_eq!(nodes, [&json!("smartfish"), &json!("jumpingcat")]);
    let scores: Vec<&Value> = picks.iter().map(|pick| &pick["score"]).collect();
    assert_eq!(scores, [&json!("-1"), &json!("1")]);
}

/// Bindings name the clusters that hold the placement, unless they are unscheduled or deleted.
#[test]
fn bindings_of_a_fleet() {
    let binding = |cluster: &str, placement: &str, state: &str, more: &str| {
        format!(
            "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourceBinding\n\
             metadata: {{name: b, labels: {{kubernetes-fleet.io/parent-CRP: {placement}}}{more}}}\n\
             spec: {{state: {state}, targetCluster: {cluster}}}\n"
        )
    };
    let deleted = ", deletionTimestamp: \"2026-01-01T00:00:00Z\"";
    let both = vec!["smartfish", "jumpingcat"];
    let cases = [
        (binding("bravelion", "web", "Bound", ""), vec!["jumpingcat"]),
        (
            binding("flyingpenguin", "web", "Scheduled", ""),
            vec!["smartfish"],
        ),
        (binding("bravelion", "other", "Bound", ""), both.clone()),
        (binding("bravelion", "web", "Unscheduled", ""), both.clone()),
        (binding("bravelion", "web", "Bound", deleted), both),
    ];
    for (binding, names) in cases {
        let workspace = fleet_desk().file("binding.yaml", &binding);
        let line = "place -f placement.yaml --load fleet.yaml --load binding.yaml -o name";
        let outcome = workspace.expect(0, line);
        assert_eq!(outcome.out.lines().collect::<Vec<_>>(), names, "{binding}");
    }
    let unlabelled = binding("bravelion", "", "Bound", "");
    let workspace = fleet_desk().file("binding.yaml", &unlabelled);
    let refused = workspace.expect(2, "place -f placement.yaml --load binding.yaml");
    refused.complains("metadata.labels");
}

/// A full region limits how many pods the others may take.
#[test]
fn the_example_of_nine() {
    let workspace = Workspace::new()
        .file(
            "nine.yaml",
            include_str!("../../../examples/fleet/nine.yaml"),
        )
        .file(
            "all.yaml",
            include_str!("../../../examples/fleet/nine-of-nine.yaml"),
        );
    let out = workspace
        .expect(1, "place -f all.yaml --load nine.yaml -o name")
        .out;
    let names = [
        "west-3", "north-2", "east-4", "west-2", "north-1", "east-3", "west-1", "east-2",
    ];
    assert_eq!(out.lines().collect::<Vec<_>>(), names);
}

fn placement(policy: &str) -> String {
    format!("kind: ClusterResourcePlacement\nmetadata: {{name: web}}\nspec: {{policy: {policy}}}\n")
}

#[test]
fn policies_of_a_fleet() {
    let required = |terms: &str| {
        format!(
            "{{placementType: PickN, numberOfClusters: 4, affinity: {{clusterAffinity: \
             {{requiredDuringSchedulingIgnoredDuringExecution: {{clusterSelectorTerms: {terms}}}}}}}}}"
        )
    };
    let preferred = "{placementType: PickN, numberOfClusters: 3, affinity: {clusterAffinity: \
        {preferredDuringSchedulingIgnoredDuringExecution: [\
        {weight: 5, preference: {labelSelector: {matchLabels: {region: west}}}},\
        {weight: 7, preference: {labelSelector: {matchExpressions: [{key: system, operator: Exists}]}}}]}}}";
    let tainted = "{kind: MemberCluster, apiVersion: cluster.kubernetes-fleet.io/v1, \
        metadata: {name: drained, labels: {region: west}}, \
        spec: {taints: [{key: drain, value: now, effect: NoSchedule}]}}";
    let cases = [
        (
            "{}",
            0,
            vec!["bravelion", "flyingpenguin", "jumpingcat", "smartfish"],
        ),
        (
            "{tolerations: [{key: drain, operator: Exists}]}",
            0,
            vec![
                "bravelion",
                "drained",
                "flyingpenguin",
                "jumpingcat",
                "smartfish",
            ],
        ),
        (
            "{placementType: PickFixed, clusterNames: [drained, nowhere]}",
            1,
            vec!["drained"],
        ),
        (
            &required("[{labelSelector: {matchLabels: {region: west}}}]"),
            1,
            vec!["jumpingcat", "flyingpenguin"],
        ),
        (
            &required(
                "[{labelSelector: {matchLabels: {region: west, system: critical}}}, \
                  {labelSelector: {matchExpressions: [{key: region, operator: In, values: [east]}]}}]",
            ),
            1,
            vec!["smartfish", "jumpingcat", "bravelion"],
        ),
        (
            &required("[{labelSelector: {}}]"),
            0,
            vec!["smartfish", "jumpingcat", "flyingpenguin", "bravelion"],
        ),
        (
            preferred,
            0,
            vec!["jumpingcat", "bravelion", "flyingpenguin"],
        ),
    ];
    for (policy, code, names) in cases {
        let workspace = fleet_desk()
            .file("drained.yaml", tainted)
            .file("policy.yaml", &placement(policy));
        let line = "place -f policy.yaml --load fleet.yaml --load drained.yaml -o name";
        let outcome = workspace.expect(code, line);
        assert_eq!(outcome.out.lines().collect::<Vec<_>>(), names, "{policy}");
    }
}

#[test]
fn what_is_not_supported_is_named() {
    let property = "{placementType: PickN, numberOfClusters: 1, affinity: {clusterAffinity: \
        {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: \
        {propertySelector: {matchExpressions: [{name: cpu, operator: Ge, values: ['4']}]}}}]}}}";
    for (policy, named) in [
        (
            property,
            "spec.policy.affinity.clusterAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]\
             .preference.propertySelector: KubeFleet selects by properties only in required terms",
        ),
        (
            "{placementType: PickN}",
            "spec.policy.numberOfClusters: is required with PickN",
        ),
        (
            "{placementType: PickSome}",
            "spec.policy.placementType: must be PickAll, PickN",
        ),
        (
            "{placementType: PickN, numberOfClusters: many}",
            "spec.policy.numberOfClusters",
        ),
    ] {
        let workspace = fleet_desk().file("policy.yaml", &placement(policy));
        let outcome = workspace.expect(2, "place -f policy.yaml --load fleet.yaml");
        outcome.complains(named);
    }
    let workspace = fleet_desk().file("policy.yaml", &placement("{}"));
    let (_runtime, server, _) = crate::cli::remote::with_server();
    let workspace = workspace.with_server(&server.address);
    workspace.expect(0, "load fleet.yaml");
    let outcome = workspace.expect(2, "place -f policy.yaml --reserve 5m");
    outcome.complains("only a PickN policy reserves");
}

#[test]
fn a_reservation_is_told() {
    let (_runtime, server, _) = crate::cli::remote::with_server();
    let workspace = fleet_desk().with_server(&server.address);
    workspace.expect(0, "load fleet.yaml");
    let line = "place -f placement.yaml --reserve 5m --owner me -o json";
    let answer = workspace.expect(0, line).json();
    assert!(answer["reservedUntil"].is_string(), "{answer}");
    for pick in answer["placements"].as_array().expect("a list") {
        assert!(pick["reservationId"].is_string(), "{pick}");
    }
}

/// `--reserve` needs a server, because a process that decides on files keeps nothing.
#[test]
fn files_reserve_nothing() {
    let line = "place -f placement.yaml --load fleet.yaml --reserve 5m";
    let outcome = fleet_desk().expect(2, line);
    outcome.complains("--reserve with --load");
    assert_eq!(outcome.out, "");
}

#[test]
fn nothing_is_not_placed() {
    let line = "place -f workloads.yaml --name web --load cluster.yaml --replicas 0";
    let outcome = workspace().expect(2, line);
    let why = "error: Deployment default/web wants 0 replicas: say with --replicas";
    assert!(outcome.err.starts_with(why), "{}", outcome.err);
}

/// The third replica waits for lack of CPU.
#[test]
fn a_replica_that_waits_is_not_placed() {
    let node = |name: &str| {
        json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": {"host": name}},
            "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "9"}}})
    };
    let spec = json!({"containers": [{"name": "main", "image": "i",
        "resources": {"requests": {"cpu": "800m", "memory": "1Mi"}}}]});
    let pod = |name: &str, node: &str| {
        let mut pod = json!({"kind": "Pod", "apiVersion": "v1",
            "metadata": {"name": name, "labels": {"app": "web", "pod-template-hash": "1a"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet",
                    "name": "web-1a", "uid": "u", "controller": true}]},
            "spec": spec, "status": {"phase": "Pending"}});
        if !node.is_empty() {
            pod["spec"]["nodeName"] = node.into();
            pod["status"]["phase"] = "Running".into();
        }
        pod
    };
    let deployment = json!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec}}});
    let items = json!([
        node("n1"),
        node("n2"),
        pod("p1", "n1"),
        pod("p2", "n2"),
        pod("p3", ""),
        deployment
    ]);
    let list = json!({"kind": "List", "apiVersion": "v1", "items": items});
    let workspace = Workspace::new()
        .file("cluster.json", &list.to_string())
        .file("web.json", &deployment.to_string())
        .file("n3.json", &node("n3").to_string());
    for named in ["deploy/web", "-f web.json", "deploy/web --replicas 3"] {
        let line = format!("place {named} --load cluster.json");
        let told = workspace.expect(1, &line);
        told.says("placed: 0 of 1 more, 2 in all\n1 of the 3 waits for a node: p3\n");
        told.says("2 Insufficient cpu");
        let told = workspace.expect(0, &format!("{line} --overlay n3.json"));
        told.says("placed: 1 of 1 more, 3 in all");
    }
    // It takes the room before others.
    let line = "place deploy/web --add 1 --load cluster.json --overlay n3.json";
    workspace
        .expect(1, line)
        .says("placed: 1 of 2 more, 3 in all");
}

/// A Deployment's pods are found by their owners, by the selector of its ReplicaSet, or by its own.
#[test]
fn pods_without_owners_are_found_by_selectors() {
    let example = include_str!("../../../examples/three-zones/cluster.yaml");
    let bare: String = example
        .split(", ownerReferences: [")
        .enumerate()
        .map(|(index, part)| match index {
            0 => part,
            _ => part.split_once(']').expect("the end of owners").1,
        })
        .collect();
    let lines = bare
        .lines()
        .filter(|line| !line.contains("kind: ReplicaSet"));
    let alone: String = lines.map(|line| format!("{line}\n")).collect();
    let web = bare.lines().find(|line| line.contains("kind: Deployment"));
    let web = web
        .expect("web")
        .trim_start_matches("  - ")
        .replace("&web ", "");
    let workspace = Workspace::new()
        .file("owned.yaml", example)
        .file("bare.yaml", &bare)
        .file("alone.yaml", &alone)
        .file("web.yaml", &web);
    let by_selector = "found by a selector, as they name no controller: 7 pods";
    for (file, selected) in [("owned", false), ("bare", true), ("alone", true)] {
        for (code, command, said) in [
            (
                0,
                "place deploy/web --replicas 9",
                "placed: 2 of 2 more, 9 in all",
            ),
            (
                0,
                "place -f web.yaml --replicas 9",
                "placed: 2 of 2 more, 9 in all",
            ),
            (
                1,
                "spread deploy/web",
                "Deployment/web, namespace shop: 7 pods",
            ),
            (
                0,
                "scale-down deploy/web --by 2",
                "Deployment/shop/web: 2 of 7 pods should go",
            ),
            (
                0,
                "rebalance deploy/web",
                "1 move: 1 of 1 workload even afterwards",
            ),
        ] {
            let line = format!("{command} -n shop --load {file}.yaml");
            let told = workspace.expect(code, &line);
            told.says(said);
            assert_eq!(
                told.out.contains(by_selector),
                selected,
                "{line}: {}",
                told.out
            );
        }
        for command in ["explain", "filter"] {
            let told = workspace.run(&format!("{command} deploy/web -n shop --load {file}.yaml"));
            assert_eq!(
                told.out.contains(by_selector),
                selected,
                "{command}: {}",
                told.out
            );
        }
    }
}
