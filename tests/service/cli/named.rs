//! Questions about pods and workloads by name, and about pending pods: in files, on a server and in
//! a cluster.

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::cli::api_server::ApiServer;
use crate::cli::evenkeel::{Outcome, Workspace};
use crate::cli::shop::{CLUSTER, FILES, objects, workspace};
use support::server::Server;

/// The answer as JSON without what differs from run to run.
fn answer(outcome: &Outcome) -> Value {
    let mut answer = outcome.json();
    let forget = |answer: &mut Value| {
        // A cluster is loaded page by page, each as a revision.
        for field in ["epoch", "decisionId", "revision"] {
            answer.as_object_mut().map(|fields| fields.remove(field));
        }
    };
    forget(&mut answer);
    // The parts of a report have these fields too.
    forget(&mut answer["constraints"]);
    for workload in answer["workloads"].as_array_mut().into_iter().flatten() {
        forget(&mut workload["explanation"]);
    }
    answer
}

/// A server that a workspace has loaded the objects into, and the workspace.
fn served(load: &str) -> ((Server, Runtime), Workspace) {
    let runtime = Runtime::new().expect("a runtime starts");
    let server = runtime.block_on(Server::start());
    let workspace = workspace().with_server(&server.address);
    workspace.expect(0, load);
    ((server, runtime), workspace)
}

#[test]
fn pending_pods_are_explained_by_workload_worst_first() {
    let files = workspace();
    let (_served, served) = served("load cluster.json --default-constraints system");
    let web = json!(["Deployment", "web", ["web-new-2", "web-new-3"], 2]);
    let db = json!(["StatefulSet", "db", ["db-0"], 0]);
    let cases = [
        ("", 1, vec![&web, &db]),
        ("-A", 1, vec![&web, &db]),
        ("-n default", 0, vec![&db]),
        ("-l app=web", 1, vec![&web]),
        ("-l app=web --overlay-delete node/b1", 0, vec![]),
    ];
    for (workspace, source) in [(&files, FILES), (&files, CLUSTER), (&served, "")] {
        for (flags, code, expected) in &cases {
            let line = format!("explain --pending {flags} {source} -o json");
            let answer = workspace.expect(*code, &line).json();
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
        let text = workspace
            .expect(1, &format!("explain --pending {source}"))
            .out;
        for line in [
            "pending: 3 pods, 2 of which fit nowhere",
            "Deployment/shop/web: 2 pods, fit nowhere",
            "  explained: pod/shop/web-new-2",
            "StatefulSet/default/db: 1 pod",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{source}: {line}\n{text}"
            );
        }
    }
}

#[test]
fn a_cluster_answers_as_a_file_of_its_objects_does() {
    let workspace = workspace();
    for line in [
        "explain --pending",
        "explain deploy/web -n shop",
        "explain deployments.apps/shop/web",
        "filter rs/web-new -n shop",
        "filter pod/shop/web-new-1",
        "score po/db-0 -n default",
        "place deploy/shop/web --add 2",
        "place deploy/shop/web --replicas 2",
        "spread",
        "spread -n shop",
        "spread deploy/shop/web",
        "report -A",
    ] {
        let of_files = workspace.run(&format!("{line} {FILES} -o json"));
        let of_cluster = workspace.run(&format!("{line} {CLUSTER} -o json"));
        assert_eq!(answer(&of_files), answer(&of_cluster), "{line}");
        assert_eq!(of_files.code, of_cluster.code, "{line}");
        let text = workspace.run(&format!("{line} {CLUSTER}")).out;
        let (title, defaults) = ("cluster one, revision ", ", default constraints: system");
        let is_title = |row: &str| row.contains(title) && row.ends_with(defaults);
        assert!(text.lines().any(is_title), "{line}: {text}");
    }
    // The namespace is that of the context, as in kubectl.
    let named = workspace.expect(0, &format!("spread deploy/web {CLUSTER}"));
    let title = "Deployment/web, namespace shop: ";
    named.says(title);
    let named = workspace.expect(1, &format!("explain deploy/web {CLUSTER}"));
    assert!(
        named.out.starts_with("Deployment shop/web\n"),
        "{}",
        named.out
    );
}

/// The next pod of a Deployment is one of its current ReplicaSet.
#[test]
fn the_next_pod_of_a_deployment_has_the_hash_and_the_owner_of_the_real_one() {
    let workspace = workspace();
    for source in [FILES, CLUSTER] {
        let line = format!("explain deploy/shop/web {source} -o json");
        let answer = workspace.expect(1, &line).json();
        let constraint = &answer["constraints"][0]["constraint"];
        assert_eq!(
            constraint["labelSelector"]["matchLabels"]["pod-template-hash"], "new",
            "{constraint}"
        );
    }
}

#[test]
fn a_pod_that_is_there_is_taken_out_first() {
    let workspace = workspace();
    for source in [FILES, CLUSTER] {
        for command in ["explain", "filter", "score", "place --replicas 1"] {
            let outcome = workspace.run(&format!("{command} pod/shop/web-new-1 {source}"));
            let told = outcome.out.contains("it was taken out first");
            assert!(told, "{command} {source}: {} {}", outcome.out, outcome.err);
        }
        // The pod is the only one that counts. Without it both zones have 0 pods.
        let line = format!("filter pod/shop/web-new-1 {source} -o name");
        assert_eq!(workspace.expect(0, &line).out, "a1\n");
    }
}

#[test]
fn names_that_mean_nothing_are_refused() {
    let (_served, workspace) = served("load cluster.json");
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
            "filter kafka/db --kubeconfig kube.yaml",
            "unknown kind kafka: in a cluster a Pod, Deployment",
        ),
        (
            "filter deploy/db",
            "snapshot \"default\" has no Deployment/default/db, nor a pod that it made",
        ),
        (
            "filter deploy web --load cluster.json",
            "tip: name it as one word: deploy/web",
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
        let refused = workspace.expect(2, line);
        refused.complains(why);
    }
    let gone = workspace.expect(3, "explain --pending --kubeconfig kube.yaml --context gone");
    gone.complains("cannot reach the API server of gone");
}

#[test]
fn an_unknown_kind_is_said_wherever_a_name_is_looked_up() {
    let (_served, workspace) = served("load cluster.json");
    let unknown = "unknown kind deployy (did you mean deploy?)";
    let places = ["", FILES, CLUSTER];
    for place in places {
        for line in [
            "explain deployy/shop/web",
            "place deployy/shop/web --replicas 2",
        ] {
            workspace
                .expect(2, &format!("{line} {place}"))
                .complains(unknown);
        }
    }
    for line in [
        "spread deployy/shop/web",
        "spread deployy/shop/web --load cluster.json",
        "lint deployy --load cluster.json",
        "lint deployy/web --kubeconfig kube.yaml",
        "filter -f cluster.json --name deployy/web --load cluster.json",
    ] {
        workspace.expect(2, line).complains(unknown);
    }
    workspace
        .expect(
            2,
            "filter pod/shop/web-new-1 --overlay-delete nod/a1 --load cluster.json",
        )
        .complains("did you mean Node?");
    // People may have kinds of their own.
    let cluster = workspace.expect(2, "spread kafka/shop/web");
    cluster.complains("unknown kind kafka: kafka web of namespace shop has no pods");
}

/// A snapshot has the selector of a ReplicaSet, and not the template of its pods.
#[test]
fn a_workload_that_is_there_without_pods_is_not_said_to_be_missing() {
    let (_served, workspace) = served("load cluster.json");
    let told = workspace.expect(2, "explain rs/web-old -n shop");
    told.complains(
        "snapshot \"default\" has ReplicaSet/shop/web-old, without its template, and no pod that \
         it made",
    );
    let told = workspace.expect(2, "explain rs/web-older -n shop");
    told.complains("snapshot \"default\" has no ReplicaSet/shop/web-older, nor a pod");
    // Files and clusters have the template.
    for source in [FILES, CLUSTER] {
        let told = workspace.run(&format!("explain rs/web-old -n shop {source}"));
        told.expect(0).says("ReplicaSet shop/web-old");
    }
    workspace.expect(0, "snapshot save saved.json");
    let told = workspace.run("explain rs/web-old -n shop --load saved.json");
    told.expect(2).complains("no pod template there");
}

/// Pods of a server's snapshot stand for the workload that made them.
#[test]
fn a_server_makes_the_next_pod_of_a_workload_like_those_that_it_has() {
    let (_served, workspace) = served("load cluster.json");
    for (kind, its_name) in [("deploy", "web"), ("rs", "web-new")] {
        let line = format!("explain {kind}/{its_name} -n shop");
        let outcome = workspace.expect(1, &line);
        outcome.says(&format!("shop/{its_name}, a pod like web-new-1"));
    }
    let pod = workspace.expect(0, "filter pod/shop/web-new-1 -o name");
    assert_eq!(pod.out, "a1\n");
}

#[test]
fn what_an_account_may_not_list_is_named_with_the_rule_to_add() {
    let api = ApiServer::holding(objects());
    api.fault(|faults| faults.forbidden.extend(["replicasets"]));
    let workspace = Workspace::new().file("kube.yaml", &api.config("shop"));
    let refused = workspace.expect(2, "explain --pending --kubeconfig kube.yaml");
    for part in [
        "may not list replicasets in one",
        "ClusterRole",
        "resources: [replicasets]",
    ] {
        refused.complains(part);
    }
}

#[test]
fn files_start_with_the_default_constraints_of_kube_scheduler() {
    let workspace = workspace();
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
            workspace.expect(0, save);
        }
        let out = workspace.expect(0, &format!("{line} {flags}")).out;
        assert!(out.contains(told), "{flags}: {out}");
    }
    let answer = workspace
        .expect(0, &format!("{line} --load cluster.json -o json"))
        .json();
    assert_eq!(answer["defaults"], "DEFAULTS_KIND_SYSTEM");
}

/// A tenant may read its own namespace, and the nodes.
#[test]
fn who_may_list_one_namespace_alone_can_ask_about_it() {
    let api = ApiServer::holding(objects());
    api.fault(|faults| faults.only_namespace = Some("shop"));
    let workspace = workspace().file("kube.yaml", &api.config("shop"));
    let all = "pods, services, replicasets, statefulsets, replicationcontrollers, \
               poddisruptionbudgets, persistentvolumeclaims";
    // Where pods may run, nothing but pods of other namespaces matters.
    for (line, code, kinds) in [
        ("explain deploy/web", 1, "pods"),
        ("explain --pending -n shop", 1, all),
        ("filter pod/shop/web-new-1", 0, "pods"),
        ("spread -n shop", 0, all),
        ("spread deploy/web", 0, all),
        ("report -n shop", 0, all),
        ("lint deploy -n shop", 1, all),
    ] {
        let told = workspace.expect(code, &format!("{line} {CLUSTER}"));
        told.complains(&format!(
            "this account may not list {kinds} in all namespaces: those of namespace shop alone \
             are known. What other pods take on the nodes is not"
        ));
    }
    for line in ["explain deploy/web", "place deploy/web --add 1"] {
        let answer = workspace.run(&format!("{line} {CLUSTER} -o json")).json();
        let unchecked = answer["unchecked"].as_array().expect("a list");
        assert!(
            unchecked.contains(&json!("pods of other namespaces")),
            "{line}: {answer}"
        );
    }
    for line in ["explain --pending", "spread -A", "report"] {
        let refused = workspace.expect(2, &format!("{line} {CLUSTER}"));
        refused.complains("may not list pods in one");
        refused.complains("; or ask about one namespace, with -n");
    }
    let refused = workspace.run(&format!("explain pod/default/db-0 {CLUSTER}"));
    refused
        .expect(2)
        .complains("add this rule to a Role of the account");
}

/// Of other namespaces than the pod's only pods can matter, and none that has finished.
#[test]
fn a_cluster_is_asked_for_what_the_question_needs() {
    let api = ApiServer::holding(objects());
    let workspace = Workspace::new().file("kube.yaml", &api.config("shop"));
    workspace.expect(1, "explain pod/web-new-2 --kubeconfig kube.yaml");
    let asked = api.take_asked();
    let lists = |path: &str| {
        let lists = asked.iter().filter(|target| target.starts_with(path));
        lists.cloned().collect::<Vec<_>>()
    };
    let pods = lists("/api/v1/pods?");
    assert!(!pods.is_empty());
    for target in pods {
        let phases = "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed";
        assert!(target.contains(phases), "{target}");
    }
    assert!(!lists("/api/v1/namespaces/shop/services?").is_empty());
    for path in [
        "/api/v1/services",
        "/apis/apps/v1/replicasets",
        "/apis/policy",
        // The pod has no claims.
        "/api/v1/persistentvolumes",
        "/api/v1/namespaces/shop/persistentvolumeclaims",
        "/apis/storage.k8s.io",
    ] {
        assert!(lists(path).is_empty(), "{path}");
    }
    // Spread constraints count the pods of their own namespace.
    workspace.expect(
        0,
        "explain pod/web-new-2 --spread-only --kubeconfig kube.yaml",
    );
    let asked = api.take_asked();
    let mut pods = asked.iter().filter(|target| target.contains("/pods?"));
    assert!(pods.all(|target| target.starts_with("/api/v1/namespaces/shop/pods?")));
    // What is planned for all pods reads more.
    workspace.run("rebalance --kubeconfig kube.yaml");
    let asked = api.take_asked();
    assert!(
        asked
            .iter()
            .any(|target| target.starts_with("/apis/policy"))
    );
}
