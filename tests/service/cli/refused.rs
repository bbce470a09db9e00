//! Refusals: their words, and the exit code.

use serde_json::{Value, json};

use crate::cli::api_server::ApiServer;
use crate::cli::evenkeel::Workspace;
use crate::cli::process::Server;
use crate::cli::workspace;

#[test]
fn wrong_input_ends_with_2_and_says_where() {
    let workspace = workspace()
        .file("empty.yaml", "")
        .file("text.json", "hello")
        .file(
            "number.yaml",
            "kind: Pod\nmetadata: {name: p, labels: {version: 1}}",
        )
        .file("twice.yaml", "kind: Pod\nmetadata: {name: p, name: q}")
        .file(
            "list.yaml",
            "kind: Pod\nmetadata: {name: p}\nspec: {affinity: [1]}",
        )
        .file("pod.yaml", "kind: Pod\nmetadata: {name: p}");
    let cases = [
        (
            "filter -f nowhere.yaml",
            "error: nowhere.yaml: No such file or directory",
        ),
        (
            "filter -f empty.yaml",
            "error: empty.yaml: no Pod or workload with a pod template in it",
        ),
        (
            "filter -f text.json",
            "error: text.json: not valid JSON: expected value at line 1 column 1",
        ),
        (
            "filter -f workloads.yaml",
            "say which with --name KIND/NAME: Deployment/default/web, StatefulSet/default/db",
        ),
        (
            "filter -f number.yaml",
            "error: number.yaml, document 1: Pod default/p: metadata.labels.version: \
             invalid type: integer `1`, expected a string: put it in quotes",
        ),
        (
            "filter -f twice.yaml",
            "error: twice.yaml: not valid YAML: duplicate mapping key: name at line 2, column",
        ),
        (
            "filter -f list.yaml",
            "spec.affinity: invalid type: sequence, expected an object\n",
        ),
        (
            "filter -f pod.yaml --load nowhere",
            "error: nowhere: No such file or directory",
        ),
        (
            "filter -f pod.yaml --load cluster.yaml --load -  --overlay -",
            "can be read only once",
        ),
        (
            "filter -f pod.yaml --overlay-delete pond/x",
            "\"pond\" is none of Node, Pod, ",
        ),
        ("filter -f pod.yaml --max-domains -1", "-1 is not in 0.."),
        (
            "filter -f pod.yaml --timeout soon",
            "invalid value 'soon' for '--timeout",
        ),
        (
            "filter -f pod.yaml --default-constraints system",
            "--default-constraints and --kubernetes-version need --load here",
        ),
        (
            "filter -f pod.yaml --load cluster.yaml --server localhost:50051",
            "--server with --load: on files it is decided here, and no server is asked",
        ),
        (
            "spread --load cluster.yaml --server prod",
            "--server with --load",
        ),
        (
            "spread --server prod",
            "--server prod: neither an address, such as prod:50051, nor a context",
        ),
        (
            "snapshot get one --snapshot other",
            "the snapshot is named twice",
        ),
        ("snapshot delete", "the following required arguments"),
        ("snapshot delete one -s other", "cannot be used with"),
        (
            "filter -f pod.yaml --candidate pod/x",
            "want a Node, not a Pod",
        ),
        (
            "reservation confirm x=deploy/web",
            "want a Pod, not a Deployment",
        ),
        (
            "filter -f workloads.yaml --name deploy/db",
            "no Deployment/db in it; the nearest are Deployment/default/web",
        ),
        (
            "filter -f pod.yaml --load cluster.yaml --default-constraints pod.yaml",
            "error: --default-constraints: pod.yaml: a Pod has no default constraints",
        ),
        (
            "score",
            "error: which pod? Name it, or a workload, as kubectl does",
        ),
        (
            "load empty.yaml",
            "error: no object that decisions read in the files (skipped: nothing)",
        ),
        ("load", "the following required arguments were not provided"),
        (
            "snapshot restore cluster.yaml",
            "error: cluster.yaml: no saved snapshot",
        ),
        ("snapshot", "Usage: evenkeel snapshot [OPTIONS] <COMMAND>"),
        ("steer", "unrecognized subcommand 'steer'"),
        ("completions powerbash", "invalid value 'powerbash'"),
    ];
    for (line, expected) in cases {
        let outcome = workspace.expect(2, line);
        outcome.complains(expected);
        assert_eq!(outcome.out, "", "{line}");
    }
}

#[test]
fn every_violation_of_a_pod_has_a_line() {
    let workspace = workspace().file(
        "pod.yaml",
        "kind: Pod\nmetadata: {name: p}\nspec:\n  topologySpreadConstraints:\n  \
         - {maxSkew: 0, topologyKey: zone, whenUnsatisfiable: Sometimes}\n",
    );
    let outcome = workspace.expect(2, "filter -f pod.yaml --load cluster.yaml");
    let lines: Vec<&str> = outcome.err.lines().collect();
    assert_eq!(lines[0], "error: the request was refused (InvalidArgument)");
    for field in ["maxSkew", "whenUnsatisfiable"] {
        let path = format!("  pod.spec.topologySpreadConstraints[0].{field}: ");
        assert!(
            lines.iter().any(|line| line.starts_with(&path)),
            "{}",
            outcome.err
        );
    }
}

#[test]
fn violations_in_files_name_the_object() {
    let workspace = workspace().file(
        "bad.yaml",
        "kind: Node\nmetadata: {name: ok}\n---\n\
         kind: Pod\nmetadata: {name: p, namespace: x, labels: {bad key: v}}\n",
    );
    let expected = "  Pod x/p (bad.yaml, document 2): metadata.labels: key \"bad key\" ";
    for line in [
        "filter -f workloads.yaml --name db --load bad.yaml",
        "filter -f workloads.yaml --name db --load cluster.yaml --overlay bad.yaml",
    ] {
        let outcome = workspace.expect(2, line);
        assert!(
            outcome.err.lines().any(|line| line.starts_with(expected)),
            "{}",
            outcome.err
        );
    }
}

/// Objects with values of a newer Kubernetes, and a node that has none.
fn newer_objects() -> Vec<Value> {
    let object = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": {}});
    let mut node = object("Node", "newer");
    node["spec"]["taints"] = json!([{"key": "k", "effect": "NoAdmit"}]);
    let mut pod = object("Pod", "newer");
    pod["metadata"]["namespace"] = json!("x");
    pod["status"]["phase"] = json!("Paused");
    vec![object("Node", "known"), node, pod]
}

#[test]
fn objects_of_a_newer_kubernetes_are_left_out_and_named() {
    let files = json!({"apiVersion": "v1", "kind": "List", "items": newer_objects()});
    let mut of_cluster = newer_objects();
    // An older API server may have admitted what none admits today.
    let mut odd = of_cluster[0].clone();
    odd["metadata"] = json!({"name": "odd", "labels": {"bad key": "v"}});
    of_cluster.push(odd);
    let api = ApiServer::holding(of_cluster);
    let workspace = Workspace::new()
        .file("pod.yaml", "kind: Pod\nmetadata: {name: p}\n")
        .file("cluster.json", &files.to_string())
        .file("kube.yaml", &api.config("shop"));
    let effects = "spec.taints[0].effect: must be NoSchedule, PreferNoSchedule or NoExecute";
    let from_files = workspace.expect(0, "filter -f pod.yaml --load cluster.json -o name");
    assert_eq!(from_files.out, "known\n");
    let warnings = from_files.err.lines().filter(|it| it.contains("left out"));
    assert_eq!(warnings.count(), 1, "{}", from_files.err);
    from_files.complains(&format!(
        "Node newer (cluster.json, item 2): {effects}; Pod x/newer "
    ));
    let from_cluster = workspace.expect(0, "filter -f pod.yaml --kubeconfig kube.yaml -o name");
    assert_eq!(from_cluster.out, "known\n");
    from_cluster.complains("left out, because they cannot be judged: Node newer ");
    from_cluster.complains("metadata.labels: key \"bad key\" ");
}

/// So are they by `load` and `serve --load`, which take the others.
#[test]
fn a_server_takes_the_objects_that_it_can_judge() {
    let files = json!({"apiVersion": "v1", "kind": "List", "items": newer_objects()});
    let server = Server::start(&[]);
    let workspace = Workspace::new()
        .file("cluster.json", &files.to_string())
        .with_server(server.url());
    for merge in ["", " --merge"] {
        let loaded = workspace.expect(0, &format!("load cluster.json{merge}"));
        assert!(
            loaded.out.contains("\n  loaded    1 Node\n"),
            "{}",
            loaded.out
        );
        let counted = "\n  left out  2: they cannot be judged\n";
        assert!(loaded.out.contains(counted), "{}", loaded.out);
        loaded.complains(
            "left out, because they cannot be judged: Node newer (cluster.json, item 2)",
        );
    }
    let told = workspace.expect(0, "load cluster.json -o json").json();
    assert_eq!(told["unchangedCount"], "1", "{told}");
    let left_out = told["leftOut"].as_array().expect("a list");
    let names: Vec<bool> = left_out
        .iter()
        .map(|it| it.to_string().contains("newer"))
        .collect();
    assert_eq!(names, [true, true]);

    let mut loading = Server::spawn(&mut workspace.command("serve --load cluster.json"));
    assert_eq!(loading.logged("loaded files", "loaded"), "1 Node");
    let workspace = Workspace::new().with_server(loading.url());
    let held = workspace.expect(0, "snapshot get -o json").json();
    assert_eq!(held["nodeCount"], "1", "{held}");

    // Other faults are the user's own.
    let wrong = "kind: Node\nmetadata: {name: ok}\n---\nkind: Node\nmetadata: {name: 'a b'}\n";
    let workspace = Workspace::new()
        .file("wrong.yaml", wrong)
        .with_server(server.url());
    let refused = workspace.expect(2, "load wrong.yaml");
    refused.complains("metadata.name");
}

#[test]
fn a_server_that_is_not_there_ends_with_3() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    drop(listener);
    let workspace = workspace().with_server(&address);
    for line in [
        "load cluster.yaml",
        "filter -f workloads.yaml --name web",
        "score -f workloads.yaml --name web",
        "snapshot list",
        "snapshot get",
        "snapshot save saved.json",
        "snapshot delete default",
        "healthcheck",
    ] {
        let outcome = workspace.expect(3, line);
        let expected = format!("error: cannot reach the server at {address}: ");
        assert!(
            outcome.err.starts_with(&expected),
            "{line}\n{}",
            outcome.err
        );
    }
    assert!(!workspace.path("saved.json").exists());
}

#[test]
fn a_server_that_does_not_answer_ends_with_3() {
    // The listener takes connections and sends nothing.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    let workspace = Workspace::new().with_server(&address);
    for line in [
        "snapshot list --timeout 200ms",
        "healthcheck --timeout 200ms",
    ] {
        workspace.expect(3, line);
    }
}
