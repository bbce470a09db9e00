//! `evenkeel lint`: each rule finds what it is for and nothing else, and tells its line.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use super::process;

/// A Deployment of these labels, replicas and constraints.
fn deployment(labels: &str, replicas: u8, constraints: &str) -> String {
    workload("Deployment", labels, replicas, constraints)
}

fn workload(kind: &str, labels: &str, replicas: u8, constraints: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: web}}\nspec:\n  replicas: {replicas}\n  \
         template:\n    metadata: {{labels: {labels}}}\n    spec:\n      \
         topologySpreadConstraints:\n{constraints}      containers: [{{name: c, image: i}}]\n  \
         selector: {{matchLabels: {labels}}}\n"
    )
}

/// A pod with one required term of each of these rules.
fn affine(rules: &[(&str, &str)]) -> String {
    let mut text =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  affinity:\n".to_owned();
    for (rules, selector) in rules {
        text.push_str(&format!(
            "    {rules}:\n      requiredDuringSchedulingIgnoredDuringExecution:\n      - {{topologyKey: \
             zone{selector}}}\n"
        ));
    }
    text
}

fn placement(placement_type: &str, constraints: &str) -> String {
    format!(
        "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: \
         {{name: web}}\nspec:\n  policy:\n    placementType: {placement_type}\n    \
         numberOfClusters: 3\n    topologySpreadConstraints:\n{constraints}"
    )
}

const ZONE: &str = "      - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule,\n        \
                    labelSelector: {matchLabels: {app: web}}}\n";
const SEPARATED: &str = "      - maxSkew: 1\n        topologyKey: zone\n        whenUnsatisfiable: DoNotSchedule\n        \
                         labelSelector: {matchLabels: {app: web}}\n        matchLabelKeys: [pod-template-hash]\n";
const REGION: &str = "    - {topologyKey: region}\n";
const RING: &str = "    - {topologyKey: ring}\n";

fn soft(max_skew: u8) -> String {
    format!(
        "      - maxSkew: {max_skew}\n        topologyKey: zone\n        whenUnsatisfiable: ScheduleAnyway\n        \
         labelSelector: {{matchLabels: {{app: web}}}}\n"
    )
}

/// A rule, the line of its finding, or `None` if it must find nothing, and the file.
fn cases() -> Vec<(&'static str, Option<u64>, String)> {
    let web = "{app: web}";
    let clean = deployment(web, 3, SEPARATED);
    let deprecated = SEPARATED.replace("zone", "failure-domain.beta.kubernetes.io/zone");
    let no_selector = SEPARATED.replace("        labelSelector: {matchLabels: {app: web}}\n", "");
    let no_selector = no_selector.replace("        matchLabelKeys: [pod-template-hash]\n", "");
    let unknown_key = SEPARATED.replace("[pod-template-hash]", "[pod-template-hash, rev]");
    let (near, apart) = ("podAffinity", "podAntiAffinity");
    let web_only = ", labelSelector: {matchLabels: {app: web}}";
    let nobody = ", labelSelector: {matchLabels: {app: web}, matchExpressions: [{key: app, operator: \
                  NotIn, values: [web, api]}]}";
    vec![
        ("unmet-affinity", Some(8), affine(&[(near, "")])),
        ("unmet-affinity", Some(8), affine(&[(near, nobody)])),
        (
            "unmet-affinity",
            Some(8),
            affine(&[(near, web_only), (apart, web_only)]),
        ),
        (
            "unmet-affinity",
            None,
            affine(&[(near, web_only), (apart, "")]),
        ),
        ("idle-anti-affinity", Some(8), affine(&[(apart, "")])),
        ("idle-anti-affinity", Some(8), affine(&[(apart, nobody)])),
        ("idle-anti-affinity", None, affine(&[(apart, web_only)])),
        (
            "selector-mismatch",
            Some(13),
            deployment("{app: api}", 3, SEPARATED),
        ),
        ("selector-mismatch", None, clean.clone()),
        ("empty-selector", Some(10), deployment(web, 3, &no_selector)),
        ("empty-selector", None, clean.clone()),
        (
            "unknown-match-label-key",
            Some(14),
            deployment(web, 3, &unknown_key),
        ),
        ("unknown-match-label-key", None, clean.clone()),
        ("mixed-revisions", Some(10), deployment(web, 3, ZONE)),
        ("mixed-revisions", None, clean.clone()),
        (
            "mixed-revisions",
            None,
            workload("StatefulSet", web, 3, ZONE),
        ),
        ("deprecated-key", Some(11), deployment(web, 3, &deprecated)),
        ("deprecated-key", None, clean.clone()),
        ("daemon-set", Some(10), workload("DaemonSet", web, 3, ZONE)),
        ("daemon-set", None, clean.clone()),
        ("single-replica", Some(5), deployment(web, 1, SEPARATED)),
        ("single-replica", None, clean.clone()),
        ("soft-max-skew", Some(10), deployment(web, 3, &soft(2))),
        ("soft-max-skew", None, deployment(web, 3, &soft(1))),
        ("invalid", Some(10), deployment(web, 3, &soft(0))),
        ("invalid", None, clean.clone()),
        (
            "unreadable",
            Some(3),
            "apiVersion: v1\nkind: Pod\nmetadata: {name: [}\n".to_owned(),
        ),
        ("unreadable", None, clean.clone()),
        (
            "unrendered",
            Some(1),
            clean.replace("name: web", "name: '{{ .Name }}'"),
        ),
        ("unrendered", None, clean),
        ("unused-constraints", Some(8), placement("PickAll", REGION)),
        ("unused-constraints", None, placement("PickN", REGION)),
        (
            "greedy-picking",
            Some(8),
            placement("PickN", &format!("{REGION}{RING}")),
        ),
        ("greedy-picking", None, placement("PickN", REGION)),
    ]
}

fn lint(arguments: &[&str]) -> Output {
    let mut command = process::command(&["lint"]);
    command.args(arguments);
    process::run(command)
}

fn findings(arguments: &[&str]) -> Vec<Value> {
    let mut all = vec!["-o", "json"];
    all.extend(arguments);
    let output = lint(&all);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    answer["findings"].as_array().expect("a list").clone()
}

fn written(directory: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = directory.path().join(name);
    fs::write(&path, text).expect("it can be written");
    path
}

#[test]
fn every_rule_finds_what_it_is_for_and_nothing_else() {
    let directory = TempDir::new().expect("a directory");
    for (rule, line, text) in cases() {
        let path = written(&directory, "case.yaml", &text);
        let found = findings(&["-f", path.to_str().expect("UTF-8")]);
        let found: Vec<&Value> = found.iter().filter(|f| f["rule"] == rule).collect();
        match (line, &*found) {
            (None, []) => {}
            (Some(line), [finding]) => assert_eq!(finding["line"], line, "{finding}\n{text}"),
            _ => panic!("{rule}: {found:?} in\n{text}"),
        }
    }
}

#[test]
fn on_a_cluster_it_tells_what_holds_a_pod_back() {
    let cases: [(&str, &[&str]); 3] = [
        ("stuck-rack.yaml", &["fits-nowhere", "unusable-domain"]),
        ("min-domains.yaml", &["fits-nowhere", "min-domains"]),
        ("node-taints-policy.yaml", &[]),
    ];
    for (file, rules) in cases {
        let file = format!("{}/examples/three-zones/{file}", env!("CARGO_MANIFEST_DIR"));
        let cluster = format!(
            "{}/examples/three-zones/cluster.yaml",
            env!("CARGO_MANIFEST_DIR")
        );
        let found = findings(&["-f", &file, "--load", &cluster]);
        let mut found: Vec<&str> = found.iter().filter_map(|f| f["rule"].as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, rules, "{file}");
    }
}

/// The labels of a cluster can make constraints useless that are right by themselves.
#[test]
fn on_a_cluster_it_tells_which_labels_are_in_the_way() {
    let node = |name: &str, labels: &str| {
        format!("kind: Node\nmetadata: {{name: {name}, labels: {{{labels}}}}}\n---\n")
    };
    let runs = |name: &str, node: &str| {
        format!(
            "kind: Pod\nmetadata: {{name: {name}, labels: {{app: web}}}}\n\
             spec: {{nodeName: {node}}}\n---\n"
        )
    };
    let zone = "topology.kubernetes.io/zone";
    let named = node("a", &format!("{zone}: a, rack: r"));
    // Zone a and rack s are the fuller ones, so the two constraints leave different nodes.
    let crossed = [
        named.clone(),
        node("b", &format!("{zone}: b, rack: s")),
        runs("p", "a"),
        runs("q", "a"),
        node("c", &format!("{zone}: a, rack: s")),
        runs("r", "c"),
        runs("s", "c"),
        runs("t", "c"),
    ]
    .concat();
    let over = |key: &str| {
        format!(
            "{{maxSkew: 1, topologyKey: {key}, whenUnsatisfiable: DoNotSchedule, \
             labelSelector: {{matchLabels: {{app: web}}}}}}"
        )
    };
    let (one, both) = (over(zone), format!("{}, {}", over(zone), over("rack")));
    let cases: [(String, &str, &[&str]); 4] = [
        (named.clone(), &one, &["one-domain"]),
        (
            named.clone() + &node("x", "rack: r"),
            &one,
            &["missing-key", "one-domain"],
        ),
        (
            named.clone() + &node("e", &format!("{zone}: ''")),
            &one,
            &["empty-value"],
        ),
        (crossed, &both, &["conflict", "fits-nowhere"]),
    ];
    let directory = TempDir::new().expect("a directory");
    for (cluster, constraints, rules) in cases {
        let pod = format!(
            "kind: Pod\nmetadata: {{name: new, labels: {{app: web}}}}\n\
             spec: {{topologySpreadConstraints: [{constraints}]}}\n"
        );
        let pod = written(&directory, "pod.yaml", &pod);
        let cluster_file = written(&directory, "cluster.yaml", &cluster);
        let path = |path: &PathBuf| path.to_str().expect("UTF-8").to_owned();
        let found = findings(&["-f", &path(&pod), "--load", &path(&cluster_file)]);
        let mut found: Vec<&str> = found.iter().filter_map(|f| f["rule"].as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, rules, "{cluster}");
    }
}

/// Lint and Explain word the same mistake alike.
#[test]
fn it_words_a_mistake_as_explain_does() {
    let directory = TempDir::new().expect("a directory");
    let cluster = format!(
        "{}/examples/three-zones/cluster.yaml",
        env!("CARGO_MANIFEST_DIR")
    );
    let web = "{app: web}";
    let no_selector = "      - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}\n";
    let cases = [
        (
            "selector-mismatch",
            "KIND_SELF_MISMATCH",
            deployment("{app: api}", 3, ZONE),
        ),
        (
            "empty-selector",
            "KIND_EMPTY_SELECTOR",
            deployment(web, 3, no_selector),
        ),
        ("soft-max-skew", "KIND_SOFT", deployment(web, 3, &soft(2))),
    ];
    for (rule, kind, text) in cases {
        let path = written(&directory, "case.yaml", &text);
        let file = path.to_str().expect("UTF-8");
        let found = findings(&["-f", file]);
        let found = found.iter().find(|finding| finding["rule"] == rule);
        let explain = ["explain", "-f", file, "--load", &cluster, "-o", "json"];
        let output = process::run(process::command(&explain));
        let answer: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
        let mut hints = answer["hints"].as_array().expect("hints").iter();
        let hint = hints.find(|hint| hint["kind"] == kind);
        let message = |of: Option<&Value>| of.expect(rule)["message"].clone();
        assert_eq!(message(found), message(hint), "{rule}");
    }
}

#[test]
fn the_exit_code_is_for_ci() {
    let directory = TempDir::new().expect("a directory");
    let note = written(&directory, "note.yaml", &deployment("{app: web}", 3, ZONE));
    let error = written(&directory, "error.yaml", &deployment("{app: api}", 3, ZONE));
    let missing = directory.path().join("missing.yaml");
    let cases: [(&PathBuf, &[&str], i32); 6] = [
        (&note, &[], 0),
        (&note, &["--fail-on", "note"], 1),
        (
            &note,
            &["--fail-on", "note", "--ignore", "mixed-revisions"],
            0,
        ),
        (&error, &[], 1),
        (&error, &["--ignore", "selector-mismatch"], 0),
        (&missing, &[], 2),
    ];
    for (file, flags, code) in cases {
        let mut arguments = vec!["-f", file.to_str().expect("UTF-8")];
        arguments.extend(flags);
        let output = lint(&arguments);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {output:?}"
        );
    }
}

#[test]
fn sarif_says_the_same_as_json() {
    let directory = TempDir::new().expect("a directory");
    let path = written(
        &directory,
        "a file.yaml",
        &deployment("{app: api}", 1, ZONE),
    );
    let file = path.to_str().expect("UTF-8");
    let output = lint(&["-f", file, "-o", "sarif"]);
    let log: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    let results = run["results"].as_array().expect("results");
    let found = findings(&["-f", file]);
    assert_eq!(results.len(), found.len());
    for (result, finding) in results.iter().zip(&found) {
        let physical = &result["locations"][0]["physicalLocation"];
        let index = result["ruleIndex"].as_u64().expect("an index") as usize;
        assert_eq!(rules[index]["id"], finding["rule"]);
        assert_eq!(result["ruleId"], finding["rule"]);
        assert_eq!(result["level"], finding["severity"]);
        assert_eq!(physical["region"]["startLine"], finding["line"]);
        let uri = physical["artifactLocation"]["uri"].as_str().expect("a URI");
        assert!(
            uri.starts_with("file:///") && uri.ends_with("/a%20file.yaml"),
            "{uri}"
        );
    }
}
