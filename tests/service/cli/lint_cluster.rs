//! Findings of `evenkeel lint` on a cluster: each is reported once, and none about defaults.

use crate::cli::evenkeel::Workspace;

const NODES: &str = "\
{kind: Node, metadata: {name: a, labels: {zone: a, kubernetes.io/hostname: a}}}
---
{kind: Node, metadata: {name: b, labels: {zone: b, kubernetes.io/hostname: b}}}
---
{kind: Node, metadata: {name: c, labels: {kubernetes.io/hostname: c}}}
";

fn deployment(name: &str, spec: &str) -> String {
    let labels = format!("{{app: {name}}}");
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec: {{selector: \
         {{matchLabels: {labels}}}, template: {{metadata: {{labels: {labels}}}, spec: {spec}}}}}\n---\n"
    )
}

fn spread(name: &str, key: &str) -> String {
    let constraint = format!(
        "{{maxSkew: 1, topologyKey: {key}, whenUnsatisfiable: DoNotSchedule, labelSelector: \
         {{matchLabels: {{app: {name}}}}}}}"
    );
    deployment(
        name,
        &format!("{{topologySpreadConstraints: [{constraint}]}}"),
    )
}

/// The rules and fields of the findings.
fn found(manifests: &str) -> Vec<(String, String)> {
    let workspace = Workspace::new()
        .file("nodes.yaml", NODES)
        .file("all.yaml", manifests);
    let answer = workspace
        .run("lint -f all.yaml --load nodes.yaml -o json")
        .json();
    let findings = answer["findings"].as_array().expect("a list");
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    let found = findings.iter();
    found
        .map(|it| (text(&it["rule"]), text(&it["path"])))
        .collect()
}

fn count(found: &[(String, String)], rule: &str) -> usize {
    found.iter().filter(|(it, _)| it == rule).count()
}

#[test]
fn nodes_without_a_key_are_said_once() {
    let both = spread("web", "zone") + &spread("api", "zone");
    assert_eq!(count(&found(&both), "missing-key"), 1);
    // A key that is misspelt is a fault of each workload.
    let both = spread("web", "zine") + &spread("api", "zine");
    assert_eq!(count(&found(&both), "unknown-topology-key"), 2);
}

#[test]
fn default_constraints_stand_in_no_file() {
    let service =
        "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}}}";
    let all = deployment("web", "{}") + service;
    let of_constraints = found(&all)
        .into_iter()
        .filter(|(_, path)| path.contains("topologySpreadConstraints"));
    assert_eq!(of_constraints.collect::<Vec<_>>(), []);
}

#[test]
fn a_topology_key_of_affinity_that_no_node_has_is_found() {
    let term =
        |key: &str| format!("[{{topologyKey: {key}, labelSelector: {{matchLabels: {{a: b}}}}}}]");
    let list = "requiredDuringSchedulingIgnoredDuringExecution";
    for (rules, key, is_found) in [
        ("podAffinity", "rack", true),
        ("podAntiAffinity", "rack", true),
        ("podAffinity", "zone", false),
        ("podAntiAffinity", "zone", false),
    ] {
        let spec = format!("{{affinity: {{{rules}: {{{list}: {}}}}}}}", term(key));
        let found = found(&deployment("web", &spec));
        let path = format!("spec.template.spec.affinity.{rules}.{list}[0].topologyKey");
        let wanted = ("unknown-topology-key".to_owned(), path);
        assert_eq!(
            found.contains(&wanted),
            is_found,
            "{rules} {key}: {found:?}"
        );
    }
}
