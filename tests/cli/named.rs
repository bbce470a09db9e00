//! Pods and workloads by their names, and the pods that are pending: of files, of a
//! server and of a cluster.

use serde_json::{Value, json};

use crate::evenkeel::{Desk, Outcome};
use crate::kube_api;
use crate::support::server::Server;

fn object(kind: &str, version: &str, name: &str, namespace: &str, more: Value) -> Value {
    let mut object = json!({
        "kind": kind, "apiVersion": version, "metadata": {"name": name, "namespace": namespace},
    });
    let fields = more.as_object().expect("a map").clone();
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("metadata", Value::Object(more)) => {
                object["metadata"]
                    .as_object_mut()
                    .expect("a map")
                    .extend(more);
            }
            (key, value) => object[key] = value,
        }
    }
    object
}

fn owner(kind: &str, name: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": true}])
}

/// The spec of web's pods: at most one more in a zone than in another, each revision
/// by itself.
fn web_spec() -> Value {
    json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["pod-template-hash"],
    }]})
}

fn web_pod(name: &str, node: &str) -> Value {
    let mut spec = web_spec();
    let mut phase = "Pending";
    if !node.is_empty() {
        spec["nodeName"] = node.into();
        phase = "Running";
    }
    let metadata = json!({
        "labels": {"app": "web", "pod-template-hash": "new"},
        "ownerReferences": owner("ReplicaSet", "web-new"),
    });
    let more = json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}});
    object("Pod", "v1", name, "shop", more)
}

fn replica_set(name: &str, hash: &str, labels: Value) -> Value {
    let mut labels = labels;
    labels["pod-template-hash"] = hash.into();
    let more = json!({
        "metadata": {"ownerReferences": owner("Deployment", "web")},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": web_spec()},
        },
    });
    object("ReplicaSet", "apps/v1", name, "shop", more)
}

/// Zone a has a web pod, zone b only a cordoned node. One more web pod waits, and
/// one of db, which is not the only one of its labels elsewhere.
fn objects() -> Vec<Value> {
    let node = |name: &str, zone: &str, cordoned: bool| {
        let more = json!({
            "metadata": {"labels": {"zone": zone, "kubernetes.io/hostname": name}},
            "spec": {"unschedulable": cordoned},
        });
        object("Node", "v1", name, "", more)
    };
    let pending = |name: &str, namespace: &str, more: Value| {
        let mut pod = json!({"spec": {}, "status": {"phase": "Pending"}});
        pod.as_object_mut()
            .expect("a map")
            .extend(more.as_object().expect("a map").clone());
        object("Pod", "v1", name, namespace, pod)
    };
    let db = json!({"labels": {"app": "db"}, "ownerReferences": owner("StatefulSet", "db")});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": web_spec()});
    vec![
        node("a1", "a", false),
        node("b1", "b", true),
        web_pod("web-new-1", "a1"),
        web_pod("web-new-2", ""),
        web_pod("web-new-3", ""),
        pending("db-0", "default", json!({"metadata": db})),
        // Those wait for no node.
        pending(
            "gone",
            "shop",
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        ),
        pending("done", "shop", json!({"status": {"phase": "Failed"}})),
        object(
            "Deployment",
            "apps/v1",
            "web",
            "shop",
            json!({"spec": {"replicas": 3, "template": template}}),
        ),
        replica_set("web-old", "old", json!({"app": "web", "old": "yes"})),
        replica_set("web-new", "new", json!({"app": "web"})),
        object(
            "Service",
            "v1",
            "web",
            "shop",
            json!({"spec": {"selector": {"app": "web"}}}),
        ),
    ]
}

/// A desk with the objects as a file, and a kubeconfig of an API server that has them.
fn desk() -> Desk {
    let list = json!({"kind": "List", "apiVersion": "v1", "items": objects()});
    let address = kube_api::start(objects(), "");
    Desk::new()
        .file("cluster.json", &list.to_string())
        .file("kube.yaml", &kube_api::kubeconfig(&address))
}

const FILES: &str = "--load cluster.json";
const CLUSTER: &str = "--kubeconfig kube.yaml";

/// The answer as JSON without what differs from run to run.
fn answer(outcome: &Outcome) -> Value {
    let mut answer = outcome.json();
    let forget = |answer: &mut Value| {
        for field in ["epoch", "decisionId"] {
            answer.as_object_mut().map(|fields| fields.remove(field));
        }
    };
    forget(&mut answer);
    // Of a report.
    forget(&mut answer["constraints"]);
    for workload in answer["workloads"].as_array_mut().into_iter().flatten() {
        forget(&mut workload["explanation"]);
    }
    answer
}

#[test]
fn pending_pods_are_explained_by_workload_worst_first() {
    let files = desk();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let server = runtime.block_on(Server::start());
    let served = desk().with_server(&server.address);
    served
        .run("load cluster.json --default-constraints system")
        .expect(0);
    let web = json!(["Deployment", "web", ["web-new-2", "web-new-3"], 2]);
    let db = json!(["StatefulSet", "db", ["db-0"], 0]);
    let cases = [
        ("", 1, vec![&web, &db]),
        ("-A", 1, vec![&web, &db]),
        ("-n default", 0, vec![&db]),
        ("-n nowhere", 0, vec![]),
        ("-l app=web", 1, vec![&web]),
        ("-l app=web --overlay-delete node/b1", 0, vec![]),
    ];
    for (desk, source) in [(&files, FILES), (&files, CLUSTER), (&served, "")] {
        for (flags, code, expected) in &cases {
            let line = format!("explain --pending {flags} {source} -o json");
            let answer = desk.run(&line).expect(*code).json();
            if flags.contains("--overlay") {
                assert_eq!(answer["workloads"][0]["stuckCount"], 0, "{line}");
                continue;
            }
            let workloads = answer["workloads"].as_array().expect("a list").iter();
            let told =
                workloads.map(|it| json!([it["kind"], it["name"], it["pods"], it["stuckCount"]]));
            let expected: Vec<Value> = expected.iter().map(|it| (*it).clone()).collect();
            assert_eq!(told.collect::<Vec<_>>(), expected, "{line}");
        }
        let text = desk
            .run(&format!("explain --pending {source}"))
            .expect(1)
            .out;
        for line in [
            "pending: 3 pods, 2 of which fit nowhere",
            "Deployment/shop/web: 2 pods, fit nowhere",
            "  the numbers: explain pod/shop/web-new-2",
            "StatefulSet/default/db: 1 pod",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{source}: {line}\n{text}"
            );
        }
    }
    let refused = files
        .run(&format!("explain --pending -o html {FILES}"))
        .expect(2);
    refused.complains("a page is of one explanation");
}

#[test]
fn a_cluster_answers_as_a_file_of_its_objects_does() {
    let desk = desk();
    for line in [
        "explain --pending",
        "explain deploy/web -n shop",
        "explain deployments.apps/shop/web",
        "filter rs/web-new -n shop",
        "filter pod/shop/web-new-1",
        "score po/db-0 -n default",
        "place deploy/shop/web --replicas 2",
        "spread",
        "spread -n shop",
        "spread deploy/shop/web",
        "report -A",
    ] {
        let of_files = desk.run(&format!("{line} {FILES} -o json"));
        let of_cluster = desk.run(&format!("{line} {CLUSTER} -o json"));
        assert_eq!(answer(&of_files), answer(&of_cluster), "{line}");
        assert_eq!(of_files.code, of_cluster.code, "{line}");
        let text = desk.run(&format!("{line} {CLUSTER}")).out;
        let title = "cluster one, revision 1, default constraints: system";
        assert!(text.contains(title), "{line}: {text}");
    }
    // The namespace of the context, as kubectl has it.
    let named = desk.run(&format!("spread deploy/web {CLUSTER}")).expect(0);
    let title = "Deployment/web, namespace shop: ";
    named.says(title);
    let named = desk.run(&format!("explain deploy/web {CLUSTER}")).expect(1);
    assert!(
        named.out.starts_with("Deployment shop/web\n"),
        "{}",
        named.out
    );
}

/// The next pod of a Deployment is one of its current ReplicaSet.
#[test]
fn the_next_pod_of_a_deployment_has_the_hash_and_the_owner_of_the_real_one() {
    let desk = desk();
    for source in [FILES, CLUSTER] {
        let line = format!("explain deploy/shop/web {source} -o json");
        let answer = desk.run(&line).expect(1).json();
        let constraint = &answer["constraints"][0]["constraint"];
        assert_eq!(
            constraint["labelSelector"]["matchLabels"]["pod-template-hash"], "new",
            "{constraint}"
        );
    }
}

#[test]
fn a_pod_that_is_there_is_taken_out_first() {
    let desk = desk();
    for source in [FILES, CLUSTER] {
        for command in ["explain", "filter", "score", "place --replicas 1"] {
            let outcome = desk.run(&format!("{command} pod/shop/web-new-1 {source}"));
            let told = outcome.out.contains("it was taken out first");
            assert!(told, "{command} {source}: {} {}", outcome.out, outcome.err);
        }
        // It is the only one that counts: without it both zones are at 0.
        let line = format!("filter pod/shop/web-new-1 {source} -o name");
        assert_eq!(desk.run(&line).expect(0).out, "a1\n");
    }
}

#[test]
fn names_that_mean_nothing_are_refused() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let server = runtime.block_on(Server::start());
    let desk = desk().with_server(&server.address);
    desk.run("load cluster.json").expect(0);
    let cases = [
        ("filter", "which pod? Name it, or a workload"),
        ("filter web", "want KIND/NAME"),
        (
            "filter deploy/db --load cluster.json -n shop",
            "files cluster.json: no Deployment/shop/db in it; there is Deployment/shop/web",
        ),
        (
            "filter job/db --load cluster.json",
            "files cluster.json: no Job/default/db in it, nor any other Job",
        ),
        (
            "filter deploy/db --kubeconfig kube.yaml",
            "cluster one has no Deployment/shop/db",
        ),
        (
            "filter rollout/db --kubeconfig kube.yaml",
            "rollout is no kind that can be looked up in a cluster",
        ),
        (
            "filter deploy/db",
            "snapshot \"default\" has no Deployment/default/db, nor a pod that it made",
        ),
        ("filter deploy/web -f x.yaml", "cannot be used with"),
        ("explain --pending deploy/web", "cannot be used with"),
        (
            "explain --pending --load cluster.json --context one",
            "--context with --load: it is decided on files or on a cluster, not on both",
        ),
        (
            "explain --pending --server localhost:1 --from-cluster",
            "--server with --from-cluster: on a cluster it is decided here",
        ),
        (
            "explain --pending --kubeconfig kube.yaml --context two",
            "no context \"two\"; there is one, gone",
        ),
        ("lint deploy --load -", "can be read only once"),
        ("lint deploy -f x.yaml", "cannot be used with"),
    ];
    for (line, why) in cases {
        let refused = desk.run(line).expect(2);
        refused.complains(why);
    }
    let gone = desk
        .run("explain --pending --kubeconfig kube.yaml --context gone")
        .expect(3);
    gone.complains("cannot reach the API server of gone");
}

/// Pods of a server's snapshot stand for the workload that made them.
#[test]
fn a_server_makes_the_next_pod_of_a_workload_like_those_that_it_has() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let server = runtime.block_on(Server::start());
    let desk = desk().with_server(&server.address);
    desk.run("load cluster.json").expect(0);
    for name in ["deploy/web", "rs/web-new"] {
        let outcome = desk.run(&format!("explain {name} -n shop")).expect(1);
        let like = "shop/web, a pod like web-new-1";
        let like = like.replace(
            "shop/web,",
            if name == "deploy/web" {
                "shop/web,"
            } else {
                "shop/web-new,"
            },
        );
        outcome.says(&like);
    }
    let pod = desk.run("filter pod/shop/web-new-1 -o name").expect(0);
    assert_eq!(pod.out, "a1\n");
}

#[test]
fn what_an_account_may_not_list_is_named_with_the_rule_to_add() {
    let address = kube_api::start(objects(), "replicasets");
    let desk = Desk::new().file("kube.yaml", &kube_api::kubeconfig(&address));
    let refused = desk
        .run("explain --pending --kubeconfig kube.yaml")
        .expect(2);
    for part in [
        "may not list replicasets in one",
        "ClusterRole",
        "resources: [replicasets]",
    ] {
        refused.complains(part);
    }
}

#[test]
fn lint_checks_what_a_cluster_has() {
    let desk = desk();
    let cases = [
        ("deploy -A", 1, 1),
        ("deploy", 1, 1),
        ("deploy/web", 1, 1),
        ("deploy -n default", 0, 0),
        ("sts,ds -A", 0, 0),
    ];
    for (names, code, templates) in cases {
        let of_cluster = desk
            .run(&format!("lint {names} {CLUSTER} -o json"))
            .expect(code);
        let found = of_cluster.json();
        assert_eq!(found["templates"], templates, "{names}");
        for finding in found["findings"].as_array().expect("a list") {
            assert_eq!(finding["file"], "cluster one", "{names}");
            assert_eq!(finding["object"], "Deployment shop/web", "{names}");
        }
        let namespace = if names == "deploy" || names == "deploy/web" {
            "-n shop"
        } else {
            ""
        };
        let of_files = desk
            .run(&format!("lint {names} {namespace} {FILES} -o json"))
            .expect(code);
        let rules = |found: &Value| -> Vec<Value> {
            let findings = found["findings"].as_array().expect("a list").iter();
            let mut rules: Vec<Value> = findings.map(|it| it["rule"].clone()).collect();
            // They come by line, and a cluster has no lines.
            rules.sort_by_key(Value::to_string);
            rules
        };
        assert_eq!(rules(&of_files.json()), rules(&found), "{names}");
    }
}

/// What is named and not there is no clean bill, nor is a kind without objects.
#[test]
fn lint_says_when_there_is_nothing_to_check() {
    let desk = desk();
    for (from, place) in [(CLUSTER, "cluster one"), (FILES, "cluster.json")] {
        for (names, missing) in [
            ("deploy/shop/web,deploy/shop/gone", "Deployment/shop/gone"),
            ("deploy/default/web", "Deployment/default/web"),
            ("deploy/gone -n shop", "Deployment/shop/gone"),
            ("sts/web -n shop", "StatefulSet/shop/web"),
        ] {
            let refused = desk.run(&format!("lint {names} {from}")).expect(2);
            let expected = format!("error: {place} has no {missing}\n");
            assert!(refused.err.ends_with(&expected), "{names}: {}", refused.err);
            assert_eq!(refused.out, "", "{names}");
        }
        let nothing = desk.run(&format!("lint sts,ds -n shop {from}")).expect(0);
        let expected = "nothing to check: no pod template in ";
        assert!(nothing.out.starts_with(expected), "{}", nothing.out);
    }
    let some = desk.run(&format!("lint deploy -A {CLUSTER}")).expect(1);
    assert!(
        some.out.ends_with("1 pod template in cluster one\n"),
        "{}",
        some.out
    );
    let which = desk.run("lint").expect(2);
    which.complains("<--file <FILE>|KIND[/NAME]>");
}

/// The binary under another name, as kubectl finds plugins.
#[cfg(unix)]
fn plugin(desk: &Desk, name: &str, args: &[&str]) -> Outcome {
    let path = desk.path(name);
    if !path.exists() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_evenkeel"), &path).expect("a link");
    }
    let mut command = std::process::Command::new(path);
    command.args(args).env("KUBECONFIG", desk.path("kube.yaml"));
    command
        .env_remove("EVENKEEL_SERVER")
        .current_dir(desk.path(""));
    let output = crate::process::run(command);
    let text = |bytes| String::from_utf8(bytes).expect("the output is UTF-8");
    Outcome {
        code: output.status.code().expect("no signal ended it"),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

#[cfg(unix)]
#[test]
fn as_a_plugin_it_asks_the_current_context() {
    let desk = desk();
    let run = |line: &str| {
        let args: Vec<&str> = line.split_whitespace().collect();
        plugin(&desk, "kubectl-evenkeel", &args)
    };
    for (line, code) in [
        ("explain --pending", 1),
        ("explain deploy/web", 1),
        ("spread -A", 0),
        ("snapshot get", 0),
    ] {
        let outcome = run(line).expect(code);
        let is_told = outcome.out.contains("cluster one") || line == "snapshot get";
        assert!(is_told, "{line}: {}", outcome.out);
    }
    assert!(
        run("lint deploy -A")
            .expect(1)
            .out
            .contains("Deployment shop/web")
    );
    // Whoever says whom to ask is not asked twice.
    let files = run("explain --pending --load cluster.json").expect(1);
    assert!(
        files.out.starts_with("snapshot \"default\""),
        "{}",
        files.out
    );
    let server = run("explain --pending --server 127.0.0.1:1").expect(3);
    server.complains("cannot reach the server");
    let gone = run("explain --pending --context gone").expect(3);
    gone.complains("API server of gone");

    let help = run("--help").expect(0).out;
    assert!(help.contains("Usage: kubectl evenkeel "), "{help}");
    assert!(
        help.contains("kubectl evenkeel explain --pending"),
        "{help}"
    );
    let help = run("explain --help").expect(0).out;
    assert!(help.contains("Usage: kubectl evenkeel explain "), "{help}");
    assert!(
        help.contains("\n  kubectl evenkeel explain -f pod.yaml"),
        "{help}"
    );
}

#[cfg(unix)]
#[test]
fn kubectl_gets_completions() {
    let desk = desk();
    let cases: [(&[&str], &[&str]); 4] = [
        (&["expl"], &["explain"]),
        (&["explain", "--pend"], &["--pending"]),
        (&["explain", "-o", "y"], &["yaml"]),
        (&["snapshot", "g"], &["get"]),
    ];
    for (args, expected) in cases {
        let outcome = plugin(&desk, "kubectl_complete-evenkeel", args).expect(0);
        let mut lines: Vec<&str> = outcome.out.lines().collect();
        assert_eq!(lines.pop(), Some(":4"), "{args:?}: {}", outcome.out);
        let words: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.split('\t').next())
            .collect();
        assert_eq!(words, expected, "{args:?}");
    }
}

#[test]
fn files_start_with_the_default_constraints_of_kube_scheduler() {
    let desk = desk();
    let line = "explain pod/db-0 -n default";
    for (flags, told) in [
        ("--load cluster.json", "default constraints: system"),
        (
            "--load cluster.json --default-constraints none",
            "default constraints: none",
        ),
        ("--load none.json", "default constraints: none"),
        (
            "--kubeconfig kube.yaml --default-constraints none",
            "default constraints: none",
        ),
    ] {
        if flags.contains("none.json") {
            let save = "snapshot save none.json --load cluster.json --default-constraints none";
            desk.run(save).expect(0);
        }
        let out = desk.run(&format!("{line} {flags}")).expect(0).out;
        assert!(out.contains(told), "{flags}: {out}");
    }
    let answer = desk
        .run(&format!("{line} --load cluster.json -o json"))
        .expect(0)
        .json();
    assert_eq!(answer["defaults"], "DEFAULTS_KIND_SYSTEM");
}
