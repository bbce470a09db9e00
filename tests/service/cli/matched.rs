//! Commands that are restricted to a namespace, a selector or a name: nothing matched is no success.

use crate::cli::evenkeel::Workspace;
use crate::cli::process::Server;

/// Web pods of namespace shop on two of three zones, which a constraint would keep even, a pod of
/// another namespace, and pods without constraints of their own.
const CLUSTER: &str = "
apiVersion: v1
kind: List
items:
- {kind: Node, metadata: {name: a1, labels: {topology.kubernetes.io/zone: a, rack: r1}}}
- {kind: Node, metadata: {name: b1, labels: {topology.kubernetes.io/zone: b, rack: r2}}}
- {kind: Service, metadata: {name: db, namespace: shop}, spec: {selector: {app: db}}}
- {kind: Deployment, apiVersion: apps/v1, metadata: {name: web, namespace: shop, labels: {app: web}}, spec: {
    template: {metadata: {labels: {app: web}}, spec: {containers: []}}}}
- kind: Pod
  metadata: {name: web-1, namespace: shop, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: web, controller: true}]}
  spec: &spec
    nodeName: a1
    topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]
- kind: Pod
  metadata: {name: db-1, namespace: shop, labels: {app: db}, ownerReferences: &db [{apiVersion: apps/v1, kind: StatefulSet, name: db, controller: true}]}
  spec: {nodeName: a1}
- kind: Pod
  metadata: {name: db-2, namespace: shop, labels: {app: db}, ownerReferences: *db}
  spec: {nodeName: a1}
- {kind: Pod, metadata: {name: audit, namespace: ops, labels: {app: audit}}, spec: {nodeName: b1}}
";

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 2, template: {metadata: {labels: {app: web}}, spec: {containers: []}}}
";

fn workspace() -> Workspace {
    Workspace::new()
        .file("cluster.yaml", CLUSTER)
        .file("web.yaml", WEB)
}

#[test]
fn a_misspelt_restriction_is_refused_with_the_nearest_names() {
    let namespace = "there is no such namespace, or no pod in it: shp; the nearest are shop, ops";
    let selector = "matches app=wbe; the nearest are app=web, app=db, app=audit";
    let workload =
        "has no pods (NotFound); the nearest are StatefulSet/shop/web, StatefulSet/shop/db";
    let cases = [
        ("rebalance -n shp", namespace),
        ("rebalance -l app=wbe", selector),
        ("rebalance -A -l app=wbe", selector),
        (
            "rebalance -n shop --stay app=wbe",
            "no pod in namespace shop matches app=wbe",
        ),
        ("rebalance -n shp sts/web", workload),
        ("spread -n shp", namespace),
        ("spread -l app=wbe", selector),
        ("spread -A -l app=wbe", selector),
        (
            "spread -n shop -l app=wbe",
            "no pod in namespace shop matches app=wbe; the nearest are app=web, app=db",
        ),
        ("spread -n shp sts/web", workload),
        ("scale-down -n shp sts/web --by 1", workload),
        ("explain --pending -n shp", namespace),
        ("explain --pending -l app=wbe", selector),
        ("report -n shp", namespace),
        ("nodes need --pending --like a1 -n shp", namespace),
        (
            "nodes need --pending --like a2",
            "there is no node \"a2\" (NotFound); the nearest are a1, b1",
        ),
        (
            "nodes drain b2",
            "there is no node \"b2\" (NotFound); the nearest are b1, a1",
        ),
        (
            "nodes spare --max 1 -l rack=r3",
            "no node matches rack=r3; the nearest are rack=r1, rack=r2",
        ),
    ];
    let server = Server::start(&[]);
    let asking = workspace().with_server(server.url());
    asking.expect(0, "load cluster.yaml --default-constraints system");
    for (line, said) in cases {
        for told in [
            workspace().expect(2, &format!("{line} --load cluster.yaml")),
            asking.expect(2, line),
        ] {
            told.complains(said);
            let error = told.err.lines().filter(|line| line.starts_with("error: "));
            assert_eq!((error.count(), &*told.out), (1, ""), "{line}: {}", told.err);
        }
    }
    let choices = "the nearest are";
    for (line, said) in [
        (
            "lint deploy -n shp",
            "has no Deployment/shp; there is Deployment/shop/web",
        ),
        (
            "lint deploy -A -l app=nosuch",
            "has no Deployment that matches app=nosuch",
        ),
        (
            "lint deploy/shop/wbe",
            "has no Deployment/shop/wbe; there is Deployment/shop/web",
        ),
        (
            "explain deploy/wbe -n shop",
            "no Deployment/shop/wbe in it; there is Deployment/shop/web",
        ),
        ("explain po/web-2 -n shop", choices),
    ] {
        workspace()
            .expect(2, &format!("{line} --load cluster.yaml"))
            .complains(said);
    }
    let told = asking.expect(2, "explain sts/web -n shp");
    told.complains("the nearest are StatefulSet/shop/web, StatefulSet/shop/db");
}

#[test]
fn what_matches_is_answered_as_before() {
    for (line, said) in [
        ("rebalance -n ops", "nothing to move"),
        ("spread -n ops", "violating: none"),
        ("explain --pending -n shop -l app=web", "no pod is pending"),
        ("lint deploy -n shop --fail-on error", ""),
    ] {
        let told = workspace().run(&format!("{line} --load cluster.yaml"));
        assert!(told.code < 2 && told.out.contains(said), "{line}: {told:?}");
    }
}

#[test]
fn a_selector_looks_where_the_command_looks_without_it() {
    for line in ["spread -l app", "spread -A -l app"] {
        let told = workspace().expect(0, &format!("{line} --load cluster.yaml -o json"));
        let workloads = told.json()["workloads"].clone();
        let workloads = workloads.as_array().expect("a list").iter();
        let found: Vec<_> = workloads
            .map(|it| (it["namespace"].clone(), it["podCount"].clone()))
            .collect();
        let expected = [("ops", "1"), ("shop", "3")];
        assert_eq!(
            found,
            expected.map(|(name, pods)| (name.into(), pods.into())),
            "{line}"
        );
    }
    let told = workspace().expect(0, "spread -l app=web --load cluster.yaml");
    told.says("pods with app=web, namespace shop: 1 pod");
}

#[test]
fn a_manifest_without_a_namespace_is_told_where_its_pods_are() {
    let said = "names no namespace: it was looked for in default, which has no pod with app=web, but \
                such pods are there: 1 pod in shop; say which namespace with -n";
    for line in ["explain", "filter", "place", "score"] {
        let line = format!("{line} -f web.yaml --load cluster.yaml");
        workspace().run(&line).complains(said);
        let named = workspace().run(&format!("{line} -n shop"));
        assert!(!named.err.contains("names no namespace"), "{}", named.err);
    }
    // Where default has such pods too, that is where it belongs.
    let here = "- {kind: Pod, metadata: {name: w, labels: {app: web}}, spec: {nodeName: b1}}\n";
    let workspace = workspace().file("cluster.yaml", &(CLUSTER.to_owned() + here));
    let told = workspace.run("explain -f web.yaml --load cluster.yaml");
    assert!(!told.err.contains("names no namespace"), "{}", told.err);
}

#[test]
fn rebalance_by_a_key_means_this_key() {
    // Both pods of db are in one rack. Default constraints, which are soft, do not stand in the way.
    for defaults in ["", "--default-constraints system"] {
        let line = format!("rebalance --by rack --load cluster.yaml {defaults} -o json");
        let plan = workspace().expect(0, &line).json();
        assert_eq!(plan["moves"].as_array().map(Vec::len), Some(1), "{plan}");
        assert_eq!(plan["moves"][0]["to"], "b1", "{plan}");
    }
}
