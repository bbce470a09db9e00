//! The warnings that a person needs before trusting an answer: fields that were not checked, and
//! kinds that the files lack.

use serde_json::json;

use crate::cli::api_server::ApiServer;
use crate::cli::evenkeel::Workspace;
use crate::cli::process::Server;

#[test]
fn every_answer_names_what_was_not_checked() {
    let pod = |status: &str| {
        format!(
            "kind: Pod\nmetadata: {{name: p}}\nspec: {{resourceClaims: [{{name: gpu}}], \
             volumes: [{{name: v, persistentVolumeClaim: {{claimName: v}}}}]}}\n{status}"
        )
    };
    let workspace = Workspace::new()
        .file("nodes.yaml", "kind: Node\nmetadata: {name: a}\n")
        .file("pod.yaml", &pod(""))
        .file("waiting.yaml", &pod("status: {phase: Pending}"));
    for line in [
        "filter -f pod.yaml",
        "score -f pod.yaml",
        "explain -f pod.yaml",
        "explain -f pod.yaml -o html",
        "place -f pod.yaml --replicas 1",
        "explain --pending --load waiting.yaml",
    ] {
        let told = workspace.expect(0, &format!("{line} --load nodes.yaml"));
        let words: Vec<&str> = told.out.split_whitespace().collect();
        let expected = match line.starts_with("score") {
            true => "not checked: spec.resourceClaims, spec.volumes",
            // The first sentence says it.
            false => ", but spec.resourceClaims and spec.volumes were not checked",
        };
        assert!(words.join(" ").contains(expected), "{line}: {}", told.out);
    }
}

#[test]
fn what_the_cluster_says_of_a_pending_pod_decides_beside_what_is_said_here() {
    let conflict = "0/2 nodes are available: 2 node(s) had volume node affinity conflict.";
    let same =
        "0/2 nodes are available: 1 Too many pods, 1 node(s) were unschedulable. preemption: none";
    let full = "status: {allocatable: {pods: 0}}";
    // Each case: whether the nodes take the pod, the cluster's message, the exit code, and whether
    // the message is shown.
    let cases = [
        (true, conflict, 1, true),
        (false, same, 1, false),
        (false, conflict, 1, true),
        (true, "", 0, false),
    ];
    for (is_open, message, code, is_told) in cases {
        let (a, b) = match is_open {
            true => ("", ""),
            false => (full, "spec: {unschedulable: true}"),
        };
        let nodes = format!(
            "{{kind: Node, metadata: {{name: a}}, {a}}}\n---\n{{kind: Node, metadata: {{name: b}}, {b}}}"
        );
        let conditions = match message {
            "" => String::new(),
            message => format!(
                "conditions: [{{type: PodScheduled, status: 'False', reason: Unschedulable, \
                 message: \"{message}\"}}]"
            ),
        };
        let pod = format!(
            "{{kind: Pod, metadata: {{name: p}}, spec: {{schedulerName: default-scheduler}}, \
             status: {{phase: Pending, {conditions}}}}}"
        );
        let workspace = Workspace::new().file("all.yaml", &format!("{nodes}\n---\n{pod}"));
        let answer = workspace.expect(code, "explain --pending --load all.yaml");
        let words: Vec<&str> = answer.out.split_whitespace().collect();
        let words = words.join(" ");
        let counted = "; the cluster itself says that 1 pod is unschedulable";
        assert_eq!(words.contains(counted), !message.is_empty(), "{words}");
        let told = format!("the cluster itself says: {message}");
        assert_eq!(words.contains(&told) && is_told, is_told, "{words}");
        assert_eq!(words.contains("itself says:"), is_told, "{words}");
        assert!(!words.contains("scheduler is"), "{words}");
    }
    let pod = "{kind: Pod, metadata: {name: p}, spec: {schedulerName: volcano}, status: {phase: Pending}}";
    let nodes = "{kind: Node, metadata: {name: a}}";
    let workspace = Workspace::new().file("all.yaml", &format!("{nodes}\n---\n{pod}"));
    let answer = workspace.expect(0, "explain --pending --load all.yaml");
    answer.says("its scheduler is volcano, whose rules may differ");
    answer.says("satisfies what was checked, but spec.schedulerName (volcano) was not checked");
    for line in ["explain pod/p", "filter pod/p", "place pod/p --replicas 1"] {
        let answer = workspace.expect(0, &format!("{line} --load all.yaml"));
        let words: Vec<&str> = answer.out.split_whitespace().collect();
        assert!(
            words.join(" ").contains("spec.schedulerName (volcano)"),
            "{}",
            answer.out
        );
    }
}

/// A pod with a controller of this kind, on the only node.
fn owned_by(kind: &str) -> String {
    format!(
        "kind: Node\nmetadata: {{name: a}}\n---\nkind: Pod\nmetadata: {{name: p, ownerReferences: \
         [{{apiVersion: v1, kind: {kind}, name: o, controller: true}}]}}\nspec: {{nodeName: a}}\n---\n"
    )
}

#[test]
fn files_that_lack_what_default_constraints_need_say_so() {
    let object = |kind: &str| format!("kind: {kind}\nmetadata: {{name: o}}\n---\n");
    let nodes = "kind: Node\nmetadata: {name: a}\n";
    // The files, and the kinds that they lack.
    let mut cases = vec![
        (nodes.to_owned(), String::new()),
        (owned_by("Job"), "Service".to_owned()),
        (owned_by("Job") + &object("Service"), String::new()),
    ];
    for kind in ["ReplicaSet", "StatefulSet", "ReplicationController"] {
        cases.push((owned_by(kind), format!("Service, {kind}")));
        cases.push((owned_by(kind) + &object(kind), "Service".to_owned()));
        cases.push((owned_by(kind) + &object("Service"), kind.to_owned()));
        cases.push((
            owned_by(kind) + &object("Service") + &object(kind),
            String::new(),
        ));
    }
    let server = Server::start(&[]);
    for (files, missing) in cases {
        let workspace = Workspace::new()
            .file("cluster.yaml", &files)
            .with_server(server.url());
        let warning = match &*missing {
            "" => String::new(),
            missing => format!(
                "warning: the files have no {missing}; default constraints apply only to pods that \
                 one of these selects\n"
            ),
        };
        let told = workspace.run("spread --load cluster.yaml --default-constraints system");
        assert_eq!(told.expect(0).err, warning, "{files}");
        let told = workspace.run("load cluster.yaml --default-constraints system");
        assert_eq!(told.expect(0).err, warning, "{files}");
        // For a part of a cluster, or without default constraints, nothing is missing.
        for line in [
            "spread --load cluster.yaml --default-constraints none",
            "load cluster.yaml --merge --default-constraints system",
        ] {
            assert_eq!(workspace.expect(0, line).err, "", "{line}: {files}");
        }
    }
    // Default constraints do not apply to a pod with constraints of its own.
    let own = "kind: Pod\nmetadata: {name: q}\nspec: {topologySpreadConstraints: [{maxSkew: 1, \
               topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}\n";
    let workspace = Workspace::new()
        .file("cluster.yaml", &owned_by("ReplicaSet"))
        .file("own.yaml", own)
        .file("none.yaml", "kind: Pod\nmetadata: {name: q}\n");
    for (file, is_told) in [("own.yaml", false), ("none.yaml", true)] {
        let told = workspace.expect(0, &format!("filter -f {file} --load cluster.yaml"));
        let words = "the files have no Service, ReplicaSet";
        assert_eq!(told.err.contains(words), is_told, "{}", told.err);
    }
    // A cluster lists all its objects, so nothing is missing.
    let owners = json!([{"apiVersion": "v1", "kind": "ReplicaSet", "name": "o", "uid": "u",
        "controller": true}]);
    let objects = vec![
        json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}}),
        json!({"kind": "Pod", "apiVersion": "v1", "spec": {"nodeName": "a"},
            "metadata": {"name": "p", "namespace": "shop", "ownerReferences": owners}}),
    ];
    let api = ApiServer::holding(objects);
    let workspace = Workspace::new().file("kube.yaml", &api.config("shop"));
    let told = workspace.run("spread --kubeconfig kube.yaml --default-constraints system");
    assert_eq!(told.expect(0).err, "");
}

#[test]
fn any_names_of_nodes_are_taken_where_that_is_said() {
    let workspace = Workspace::new()
        .file("racks.yaml", "kind: Node\nmetadata: {name: host_01}\n")
        .file("pod.yaml", "kind: Pod\nspec: {nodeName: host_01}\n");
    let line = "filter -f pod.yaml --load racks.yaml -o name";
    let refused = workspace.expect(2, line);
    refused.complains("--node-names any");
    let told = workspace.expect(0, &format!("{line} --node-names any"));
    assert_eq!(told.out, "host_01\n");
}

/// Nodes of one zone, of which `b` is cordoned as kubectl does it.
const CORDONED: &str = "\
{kind: Node, metadata: {name: a, labels: {topology.kubernetes.io/zone: z}}}
---
{kind: Node, metadata: {name: b, labels: {topology.kubernetes.io/zone: z}},
 spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}}
";

#[test]
fn the_first_sentence_says_the_real_cause_and_what_would_help() {
    let pod = |more: &str| format!("{{kind: Pod, metadata: {{name: p}}, spec: {{{more}}}}}");
    let key = "topologySpreadConstraints: [{topologyKey: topology.kubernetes.io/zonee, maxSkew: 1, \
               whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}]";
    let scored = "topologySpreadConstraints: [{topologyKey: topology.kubernetes.io/zone, maxSkew: 1, \
                  whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {a: b}}}]";
    let cases = [
        (
            pod("volumes: [{name: v, persistentVolumeClaim: {claimName: v}}]"),
            "",
            0,
            "1 of 2 nodes satisfies what was checked, but spec.volumes was not checked: 1 node is \
             cordoned.",
        ),
        (
            pod(""),
            "--candidate b",
            1,
            "The one node cannot take the pod: 1 node is cordoned; uncordon b",
        ),
        (pod(key), "", 1, "did you mean topology.kubernetes.io/zone?"),
        (
            pod(scored),
            "--overlay open.yaml",
            0,
            "All 2 nodes satisfy what was checked. They score alike.",
        ),
        (
            pod(scored),
            "--overlay full.yaml",
            0,
            "Best by score: b (100 of 100).",
        ),
    ];
    let open = "{kind: Node, metadata: {name: b, labels: {topology.kubernetes.io/zone: x}}}";
    let full = "---\n{kind: Pod, metadata: {name: q, labels: {a: b}}, spec: {nodeName: a}}";
    for (pod, flags, code, told) in cases {
        let workspace = Workspace::new()
            .file("nodes.yaml", CORDONED)
            .file("open.yaml", open)
            .file("full.yaml", &format!("{open}\n{full}"))
            .file("pod.yaml", &pod);
        let line = format!("explain -f pod.yaml --load nodes.yaml {flags}");
        let answer = workspace.expect(code, &line);
        let words: Vec<&str> = answer.out.split_whitespace().collect();
        assert!(words.join(" ").contains(told), "{told}\n{}", answer.out);
    }
}
