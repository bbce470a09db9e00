//! What explanations, lint, spread and reports advise: that a constraint refuses nothing, what is missing
//! where, who would be evicted, and what is wrong with nodes.

use serde_json::{Value, json};

use crate::cli::evenkeel::{Outcome, Workspace};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// A node with labels and this much cpu.
fn node(name: &str, labels: &[(&str, &str)], cpu: &str) -> Value {
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)));
    let mut labels: serde_json::Map<String, Value> = labels.collect();
    labels.insert(HOSTNAME.to_owned(), json!(name));
    json!({"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {},
        "status": {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "110"}}})
}

/// The template of a workload whose pods have the label app=`app`.
fn template(app: &str, cpu: &str, key: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": app}}}]}})
}

fn workload(kind: &str, name: &str, replicas: u32, template: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "prod"},
        "spec": {"replicas": replicas, "template": template}})
}

/// A pod of a template on a node, or of none yet; its owner is a ReplicaSet of the Deployment `of`.
fn pod(name: &str, of: &str, template: &Value, node: &str) -> Value {
    let mut pod = json!({"kind": "Pod", "metadata": template["metadata"], "spec": template["spec"],
        "status": {"phase": if node.is_empty() { "Pending" } else { "Running" }}});
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["namespace"] = json!("prod");
    pod["metadata"]["labels"]["pod-template-hash"] = json!("1");
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "name": format!("{of}-1"), "controller": true}]);
    if !node.is_empty() {
        pod["spec"]["nodeName"] = json!(node);
    }
    pod
}

/// A workspace with a cluster and a workload.
fn workspace(objects: Vec<Value>, workload: &Value) -> Workspace {
    let cluster = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    Workspace::new()
        .file("cluster.json", &cluster.to_string())
        .file("workload.json", &workload.to_string())
}

fn explain(workspace: &Workspace) -> Outcome {
    workspace.run("explain --load cluster.json -f workload.json")
}

/// Fails unless the words of the output, whatever its lines, contain these.
#[track_caller]
fn says(told: &Outcome, what: &str) {
    let words: Vec<&str> = told.out.split_whitespace().collect();
    assert!(
        words.join(" ").contains(what),
        "{what:?} is not in\n{}",
        told.out
    );
}

#[track_caller]
fn says_not(told: &Outcome, what: &str) {
    let words: Vec<&str> = told.out.split_whitespace().collect();
    assert!(
        !words.join(" ").contains(what),
        "{what:?} is in\n{}",
        told.out
    );
}

#[test]
fn a_key_with_one_value_refuses_nothing() {
    let template = template("front", "100m", "gpu");
    let mut objects = vec![node("c1", &[], "4")];
    objects.extend(["g1", "g2"].map(|name| node(name, &[("gpu", "true")], "4")));
    objects.extend((0..3).map(|at| pod(&format!("front-{at}"), "front", &template, "g1")));
    let workspace = workspace(objects, &workload("Deployment", "front", 4, &template));
    let told = explain(&workspace).expect(0);
    says(&told, "2 of 3 nodes satisfy what was checked (gpu=true)");
    says(&told, "constraint 0 (gpu) has one domain only, gpu=true");
    says(
        &told,
        "Over kubernetes.io/hostname it would spread the pods",
    );
    let suggested = suggestion(&workspace);
    assert_eq!(suggested["topologyKey"], HOSTNAME);
    let lint = workspace.expect(1, "lint --load cluster.json -f workload.json");
    says(&lint, "[one-domain]");
    for line in ["spread", "report"] {
        let told = workspace.expect(0, &format!("{line} --load cluster.json"));
        says(
            &told,
            "effect of a hard constraint of Deployment/prod/front (gpu=true): none: with one domain \
            it refuses no node; minDomains: 2, another key",
        );
    }
    let told = workspace.expect(0, "spread --load cluster.json -n prod deploy/front");
    says(&told, "effect none: with one domain it refuses no node");
}

/// Pods that a reader expects to be counted, and why they are not.
#[test]
fn pods_of_the_workload_that_are_not_counted_are_told() {
    let template = template("psg", "100m", HOSTNAME);
    let mut objects = ["n1", "n2"].map(|name| node(name, &[], "4")).to_vec();
    objects.extend((0..3).map(|at| pod(&format!("psg-{at}"), "psg", &template, "n1")));
    let title =
        "constraint 0 (kubernetes.io/hostname) does not count all pods of the workload: not";
    for (selector, why) in [
        (json!(null), "3 pods on n1, because it has no labelSelector"),
        (
            json!({}),
            "3 pods on n1, because its labelSelector is empty",
        ),
        (
            json!({"matchLabels": {"app": "psg", "tier": "web"}}),
            "3 pods on n1, because each has no label tier",
        ),
    ] {
        let mut changed = template.clone();
        changed["spec"]["topologySpreadConstraints"][0]["labelSelector"] = selector;
        let workload = workload("Deployment", "psg", 4, &changed);
        let told = explain(&workspace(objects.clone(), &workload)).expect(0);
        says(&told, &format!("{title} {why}"));
    }
    let told = explain(&workspace(
        objects,
        &workload("Deployment", "psg", 4, &template),
    ));
    says_not(&told, "does not count");
}

/// Each pod of a DaemonSet counts its own node, which every command says, and nobody places them.
#[test]
fn a_constraint_of_a_daemon_set_does_nothing() {
    let template = template("agent", "100m", ZONE);
    let mut objects = ["a", "b"]
        .map(|zone| node(zone, &[(ZONE, zone)], "4"))
        .to_vec();
    for on in ["a", "b", ""] {
        let mut pod = pod(&format!("agent-{on}x"), "agent", &template, on);
        pod["metadata"]["ownerReferences"][0]["kind"] = json!("DaemonSet");
        pod["metadata"]["ownerReferences"][0]["name"] = json!("agent");
        let node = if on.is_empty() { "a" } else { on };
        pod["spec"]["affinity"] = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}}});
        objects.push(pod);
    }
    let workspace = workspace(objects, &workload("DaemonSet", "agent", 0, &template));
    let told = workspace.run("spread ds/agent -n prod --load cluster.json");
    says(
        &told,
        "effect none: each pod counts the node that it is tied to",
    );
    let told = workspace.run("report --load cluster.json");
    says(
        &told,
        "effect of a hard constraint of DaemonSet/prod/agent: none: each pod counts the node that it \
        is tied to, so the constraint does nothing; nodeAffinityPolicy: Ignore would do",
    );
    says_not(&told, "minDomains");
    says(
        &explain(&workspace),
        "so it refuses no node and does nothing",
    );
    let refused = workspace.expect(2, "place -f workload.json --load cluster.json");
    refused.complains("a DaemonSet has no replicas to place");
}

/// The constraint that is suggested in place of one that refuses nothing.
fn suggestion(workspace: &Workspace) -> Value {
    let told = workspace
        .run("explain --load cluster.json -f workload.json -o json")
        .json();
    let hints = told["hints"].as_array().expect("hints");
    let hint = hints.iter().find(|hint| hint["kind"] == "KIND_ONE_DOMAIN");
    hint.expect("it is told")["suggestedConstraint"].clone()
}

/// Where nodes differ by no key, nothing but minDomains would have the constraint refuse.
#[test]
fn without_a_better_key_min_domains_is_suggested() {
    let template = template("front", "100m", ZONE);
    let objects = ["g1", "g2"].map(|name| node(name, &[(ZONE, "a")], "4"));
    let mut objects = objects.to_vec();
    objects.iter_mut().for_each(|node| {
        node["metadata"]["labels"][HOSTNAME] = json!("one");
    });
    objects.push(pod("front-0", "front", &template, "g1"));
    let workspace = workspace(objects, &workload("Deployment", "front", 2, &template));
    says(
        &explain(&workspace).expect(0),
        "minDomains: 2 would have it refuse more than maxSkew 1 there; this one could go to 0 nodes",
    );
    assert_eq!(suggestion(&workspace)["minDomains"], 2);
}

#[test]
fn node_affinity_that_leaves_one_domain_is_named_with_what_would_help() {
    let mut template = template("nginx", "100m", ZONE);
    template["spec"]["nodeSelector"] = json!({"nodes": "platform"});
    let mut objects = vec![node("p1", &[(ZONE, "a"), ("nodes", "platform")], "4")];
    objects.extend(["b", "c"].map(|zone| node(zone, &[(ZONE, zone)], "4")));
    objects.extend((0..3).map(|at| pod(&format!("nginx-{at}"), "nginx", &template, "p1")));
    let workspace = workspace(objects, &workload("Deployment", "nginx", 4, &template));
    let told = explain(&workspace).expect(0);
    says(
        &told,
        "counts one domain only, topology.kubernetes.io/zone=a: the nodes of 2 other domains \
        are left out by the pod's node affinity (nodeAffinityPolicy: Honor), so it refuses no node",
    );
    says(
        &told,
        "minDomains: 2 would have it refuse more than maxSkew 1 there; nodeAffinityPolicy: \
        Ignore would count the others too, and the pod could then go to 0 nodes",
    );
    assert_eq!(suggestion(&workspace)["nodeAffinityPolicy"], "Ignore");
    // With minDomains the constraint does refuse.
    let mut strict = template.clone();
    strict["spec"]["topologySpreadConstraints"][0]["minDomains"] = json!(2);
    let strict = workload("Deployment", "nginx", 4, &strict).to_string();
    let told = explain(&workspace.file("workload.json", &strict)).expect(1);
    says_not(&told, "one domain only");
}

#[test]
fn pods_of_other_workloads_are_named_and_are_no_revisions() {
    let all = template("foo", "100m", HOSTNAME);
    let mut ssd = all.clone();
    ssd["spec"]["nodeSelector"] = json!({"disktype": "ssd"});
    let objects = vec![
        node("n1", &[("disktype", "ssd")], "4"),
        node("n2", &[], "4"),
        pod("all-1", "foo-all", &all, "n1"),
        pod("all-2", "foo-all", &all, "n2"),
    ];
    let workspace = workspace(objects, &workload("Deployment", "foo-ssd", 2, &ssd));
    let told = explain(&workspace).expect(0);
    says(
        &told,
        "counts pods of other workloads too: 2 pods of Deployment/foo-all",
    );
    says_not(&told, "several revisions");
    says(&told, "counts one domain only, kubernetes.io/hostname=n1");
}

#[test]
fn a_lack_of_room_says_what_is_missing_where_and_what_brings_how_much_for_all() {
    let template = template("api", "500m", ZONE);
    let filler = json!({"metadata": {"labels": {"app": "filler"}}, "spec": {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "700m"}}}]}});
    let objects = vec![
        node("a1", &[(ZONE, "a")], "1"),
        node("a2", &[(ZONE, "a")], "1"),
        node("b1", &[(ZONE, "b")], "8"),
        node("c1", &[(ZONE, "c")], "8"),
        pod("filler-1", "filler", &filler, "a1"),
        pod("filler-2", "filler", &filler, "a2"),
        pod("api-1", "api", &template, "b1"),
        pod("api-2", "api", &template, "c1"),
    ];
    let workspace = workspace(objects, &workload("Deployment", "api", 9, &template));
    let told = explain(&workspace).expect(1);
    says(
        &told,
        "make room in a, which lacks 200m of cpu on its best node (a1): a node there with room \
        would let all 7 that wait be placed; or of the 7 that wait, ScheduleAnyway places 7, maxSkew 2 2",
    );
    says_not(&told, "nodeTaintsPolicy");
    says_not(&told, "the pod; request");
}

#[test]
fn pods_of_lower_priority_that_hold_the_room_are_evicted() {
    let mut template = template("wide", "1", ZONE);
    template["spec"]["priority"] = json!(1000);
    let mut headroom = json!({"metadata": {"labels": {"app": "headroom"}}, "spec": {"priority": -10,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m"}}}]}});
    let objects = |headroom: &Value| {
        vec![
            node("a1", &[(ZONE, "a")], "2"),
            node("b1", &[(ZONE, "b")], "8"),
            pod("headroom-1", "headroom", headroom, "a1"),
            pod("wide-1", "wide", &template, "b1"),
        ]
    };
    let wide = workload("Deployment", "wide", 2, &template);
    let workspace_of = |headroom: &Value, wide: &Value| workspace(objects(headroom), wide);
    let said =
        "kube-scheduler would make room by preemption, which evicts pods of a lower priority on a1";
    let told = explain(&workspace_of(&headroom, &wide)).expect(1);
    says(&told, said);
    let lint = workspace_of(&headroom, &wide).run("lint --load cluster.json -f workload.json");
    says_not(&lint, "[fits-nowhere]");
    // Neither pods of the same priority nor a pod that never preempts.
    headroom["spec"]["priority"] = json!(1000);
    says_not(
        &explain(&workspace_of(&headroom, &wide)).expect(1),
        "preemption",
    );
    headroom["spec"]["priority"] = json!(-10);
    let mut never = wide.clone();
    never["spec"]["template"]["spec"]["preemptionPolicy"] = json!("Never");
    says_not(
        &explain(&workspace_of(&headroom, &never)).expect(1),
        "preemption",
    );
    let lint =
        workspace_of(&headroom, &never).expect(1, "lint --load cluster.json -f workload.json");
    says(&lint, "[fits-nowhere]");
}

#[test]
fn cordoned_nodes_get_a_policy_where_it_helps() {
    let template = template("proxy", "100m", HOSTNAME);
    let told = |is_tainted: bool| {
        let mut drained = node("r2", &[], "4");
        drained["spec"]["unschedulable"] = json!(true);
        if is_tainted {
            drained["spec"]["taints"] = json!([{"key": "node.kubernetes.io/unschedulable",
                "effect": "NoSchedule"}]);
        }
        let objects = vec![
            node("r1", &[], "4"),
            drained,
            pod("proxy-1", "proxy", &template, "r1"),
        ];
        explain(&workspace(
            objects,
            &workload("Deployment", "proxy", 2, &template),
        ))
        .expect(1)
    };
    let with_taint = told(true);
    says(
        &with_taint,
        "uncordon r2, which lets it onto 1 node, or set nodeTaintsPolicy: Honor on constraint 0 \
        (kubernetes.io/hostname), which lets it onto 1 node",
    );
    let without = told(false);
    says(&without, "uncordon r2, which lets it onto 1 node.");
    says_not(&without, "nodeTaintsPolicy");
}

#[test]
fn dead_and_tainted_nodes_are_named_by_what_is_wrong() {
    let template = template("dummy", "100m", ZONE);
    let mut lost = node("n2", &[(ZONE, "E02")], "4");
    lost["spec"]["taints"] = json!([
        {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-11-29T08:00:00Z"}]);
    let mut gpu = node("n3", &[(ZONE, "E01")], "4");
    gpu["spec"]["taints"] = json!([{"key": "gpu", "value": "a100", "effect": "NoSchedule"}]);
    let objects = vec![
        node("n1", &[(ZONE, "E01")], "4"),
        lost,
        gpu,
        pod("dummy-1", "dummy", &template, "n1"),
        pod("dummy-2", "dummy", &template, ""),
    ];
    let workspace = workspace(objects, &workload("Deployment", "dummy", 2, &template));
    let told = workspace.expect(1, "explain --pending --load cluster.json");
    says(&told, "1 node is tainted with gpu=a100:NoSchedule");
    says(&told, "1 node is unreachable since 2026-11-29T08:00:00Z");
    says(&told, "set nodeTaintsPolicy: Honor");
    says(&told, "explained: pod/prod/dummy-2");
}

#[test]
fn constraints_of_a_daemon_set_are_judged_node_by_node() {
    let template = template("agent", "10m", ZONE);
    let nodes = [("d1", "z1"), ("d2", "z1"), ("d3", "z2")];
    let mut objects = Vec::from(nodes.map(|(name, zone)| node(name, &[(ZONE, zone)], "4")));
    let pinned = |name: &str, to: &str, on: &str| {
        let mut pod = pod(name, "agent", &template, on);
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet",
            "name": "agent", "controller": true}]);
        pod["spec"]["affinity"] = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [to]}]}]}}});
        pod
    };
    objects.extend([pinned("agent-1", "d1", "d1"), pinned("agent-2", "d2", "")]);
    let honor = workload("DaemonSet", "agent", 1, &template);
    let workspace = workspace(objects, &honor);
    let told = explain(&workspace).expect(0);
    says(&told, "All 3 nodes satisfy what was checked");
    says(
        &told,
        "counts for each pod of the DaemonSet only the node that the pod is tied to \
        (nodeAffinityPolicy: Honor), so it refuses no node and does nothing",
    );
    let filter = workspace.expect(0, "filter --load cluster.json -f workload.json -o name");
    assert_eq!(filter.out, "d1\nd2\nd3\n");
    let lint = workspace.run("lint --load cluster.json -f workload.json");
    says(&lint, "the constraint does nothing");
    says_not(&lint, "[unusable-domain]");
    workspace.expect(0, "explain --pending --load cluster.json");
    // All nodes are counted where their affinity is ignored.
    let mut ignore = honor;
    ignore["spec"]["template"]["spec"]["topologySpreadConstraints"][0]["nodeAffinityPolicy"] =
        json!("Ignore");
    let workspace = workspace.file("workload.json", &ignore.to_string());
    let filter = workspace.expect(0, "filter --load cluster.json -f workload.json -o name");
    assert_eq!(filter.out, "d3\n");
    let lint = workspace.run("lint --load cluster.json -f workload.json");
    says(&lint, "only keeps some of them pending");
}

#[test]
fn a_pod_that_is_proposed_to_move_can_move() {
    let told = |tie: fn(&mut Value)| {
        let template = template("web", "100m", ZONE);
        let mut there = pod("web-1", "web", &template, "b1");
        tie(&mut there);
        let mut cordoned = node("a1", &[(ZONE, "a")], "4");
        cordoned["spec"]["taints"] = json!([{"key": "x", "effect": "PreferNoSchedule"}]);
        let objects = vec![cordoned, node("b1", &[(ZONE, "b")], "4"), there];
        // The pod itself may run in zone b only.
        let mut stuck = template.clone();
        stuck["spec"]["affinity"] = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}]}}});
        stuck["spec"]["topologySpreadConstraints"][0]["nodeAffinityPolicy"] = json!("Ignore");
        explain(&workspace(
            objects,
            &workload("Deployment", "web", 1, &stuck),
        ))
        .expect(1)
    };
    let move_it = "1 matching pod fewer in b";
    says(&told(|_| ()), move_it);
    says_not(
        &told(|pod| pod["spec"]["nodeSelector"] = json!({ZONE: "b"})),
        move_it,
    );
    says_not(
        &told(|pod| {
            pod["spec"]["volumes"] =
                json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
        }),
        move_it,
    );
}

#[test]
fn a_node_that_lacks_several_things_counts_once() {
    let full = || {
        let mut full = node("n1", &[], "100m");
        full["status"]["allocatable"]["pods"] = json!("0");
        full
    };
    let mut template = template("web", "1", HOSTNAME);
    template["spec"]["topologySpreadConstraints"] = json!([]);
    template["spec"]["containers"][0]["resources"]["requests"]["memory"] = json!("32Gi");
    let objects = vec![full(), node("n2", &[], "100m")];
    let workspace = workspace(objects, &workload("Deployment", "web", 1, &template));
    let told = explain(&workspace).expect(1);
    says(
        &told,
        "None of 2 nodes can take the pod: 1 node has as many pods as it takes and too little cpu \
        and memory and 1 node has too little cpu and memory",
    );
}

#[test]
fn a_selector_that_names_the_topology_key_is_told_whose_label_it_is() {
    let by_key = json!({"matchLabels": {ZONE: "a"}});
    let by_other = json!({"matchExpressions": [{"key": "track", "operator": "Exists"}]});
    let said = "topology.kubernetes.io/zone is a label of nodes, and a labelSelector selects pods";
    for (selector, is_said) in [(by_key, true), (by_other, false)] {
        let mut template = template("web", "100m", ZONE);
        template["spec"]["topologySpreadConstraints"][0]["labelSelector"] = selector;
        let objects = vec![
            node("a1", &[(ZONE, "a")], "4"),
            node("b1", &[(ZONE, "b")], "4"),
        ];
        let mut deployment = workload("Deployment", "web", 3, &template);
        deployment["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
        let workspace = workspace(objects, &deployment);
        let told = explain(&workspace).expect(0).out;
        let linted = workspace.expect(1, "lint -f workload.json").out;
        for told in [told, linted] {
            let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(told.contains(said), is_said, "{told}");
        }
    }
}

#[test]
fn a_pod_that_cannot_be_judged_is_named_and_the_others_are_answered() {
    let template = template("web", "100m", ZONE);
    let mut newer = pod("newer", "newer", &template, "");
    newer["spec"]["topologySpreadConstraints"][0]["whenUnsatisfiable"] = json!("Sometimes");
    // The API server merged the key; the label changed later.
    let mut changed = pod("changed", "changed", &template, "");
    let constraint = &mut changed["spec"]["topologySpreadConstraints"][0];
    constraint["matchLabelKeys"] = json!(["version"]);
    constraint["labelSelector"]["matchExpressions"] =
        json!([{"key": "version", "operator": "In", "values": ["1"]}]);
    changed["metadata"]["labels"]["version"] = json!("2");
    let objects = vec![
        node("a1", &[(ZONE, "a")], "4"),
        newer,
        changed,
        pod("web-1", "web", &template, ""),
    ];
    let workspace = workspace(objects, &workload("Deployment", "web", 1, &template));
    let told = workspace.expect(1, "explain --pending --load cluster.json");
    says(
        &told,
        "pending: 3 pods, 1 of which cannot be judged; for each other, some node satisfies",
    );
    says(
        &told,
        "not judged: pod/prod/newer: spec.topologySpreadConstraints[0].whenUnsatisfiable: must be \
        DoNotSchedule or ScheduleAnyway",
    );
    says(&told, "Deployment/prod/web: 1 pod");
    says(&told, "Deployment/prod/changed: 1 pod");
    let told = workspace.expect(0, "report --load cluster.json");
    says(&told, "not judged: pod/prod/newer");
    let told = workspace.expect(0, "spread --load cluster.json");
    says(&told, "not judged for what their pods ask for: 1 workload");
}
