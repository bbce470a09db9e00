//! `evenkeel lint`: fields that nobody reads, pod templates of any kind, and
//! their lines in every form of file.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use super::process;

const CONSTRAINT: &str = "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, \
                          labelSelector: {matchLabels: {app: web}}}";

/// A Deployment with `of_spec` beside its replicas, and `of_pod` in the template's spec, which
/// begins on line 8.
pub(super) fn deployment(of_spec: &str, of_pod: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec: \n  replicas: 3\n  \
         template:\n    metadata: {{labels: {{app: web}}}}\n    spec:\n      containers: []\n{of_pod}{of_spec}"
    )
}

fn constraints(of_pod: &str) -> String {
    deployment(
        "",
        &format!("      topologySpreadConstraints:\n      - {of_pod}\n"),
    )
}

fn rollout(container: &str, constraint: &str) -> String {
    format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {{name: web}}\nspec:\n  replicas: 3\n  \
         {container}:\n    metadata: {{labels: {{app: web}}}}\n    spec:\n      containers: [{{name: web}}]\n      \
         topologySpreadConstraints:\n      - {constraint}\n"
    )
}

fn findings_in(directory: &Path, arguments: &[&str]) -> Vec<Value> {
    let mut command = process::command(&["lint", "-o", "json"]);
    command.args(arguments).current_dir(directory);
    let output = process::run(command);
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    answer["findings"].as_array().expect("a list").clone()
}

/// Returns the findings of a file: rule, line, path and message.
fn found(name: &str, text: &str, more: &[&str]) -> Vec<(String, u64, String, String)> {
    let directory = TempDir::new().expect("a directory");
    fs::write(directory.path().join(name), text).expect("it can be written");
    let mut arguments = vec!["-f", name];
    arguments.extend(more);
    let text_of = |finding: &Value, field: &str| finding[field].as_str().expect(field).to_owned();
    let findings = findings_in(directory.path(), &arguments);
    let said = findings.iter().map(|finding| {
        let line = finding["line"].as_u64().expect("a line");
        let [rule, path, message] =
            ["rule", "path", "message"].map(|field| text_of(finding, field));
        (rule, line, path, message)
    });
    said.collect()
}

#[test]
fn fields_that_nobody_reads_are_found_where_they_are() {
    let of_template = "spec.template.spec.topologySpreadConstraints";
    let skew = CONSTRAINT.replace("maxSkew", "maxSkwe");
    let text = CONSTRAINT.replace("maxSkew: 1", "maxSkew: \"1\"");
    let labels = CONSTRAINT.replace("matchLabels", "matchLabel");
    let expression = CONSTRAINT.replace(
        "matchLabels: {app: web}",
        "matchExpressions: [{key: app, operatr: Exists}]",
    );
    let far = CONSTRAINT.replace("{maxSkew", "{weight: 1, maxSkew");
    let keys = CONSTRAINT.replace("{maxSkew", "{matchLabelKeys: app, maxSkew");
    let under_spec = deployment(
        &format!("  topologySpreadConstraints: [{CONSTRAINT}]\n"),
        "",
    );
    let singular = deployment(
        "",
        &format!("      topologySpreadConstraint: [{CONSTRAINT}]\n"),
    );
    let in_container = deployment("", "").replace(
        "containers: []",
        &format!("containers: [{{topologySpreadConstraints: [{CONSTRAINT}]}}]"),
    );
    let cases = [
        (
            constraints(&skew),
            "unknown-field",
            11,
            format!("{of_template}[0].maxSkwe"),
            "unknown field maxSkwe: did you mean maxSkew?",
        ),
        (
            constraints(&text),
            "invalid",
            11,
            format!("{of_template}[0].maxSkew"),
            "maxSkew must be an integer, not the string \"1\"",
        ),
        (
            constraints(&labels),
            "unknown-field",
            11,
            format!("{of_template}[0].labelSelector.matchLabel"),
            "unknown field matchLabel: did you mean matchLabels?",
        ),
        (
            constraints(&expression),
            "unknown-field",
            11,
            format!("{of_template}[0].labelSelector.matchExpressions[0].operatr"),
            "unknown field operatr: did you mean operator?",
        ),
        (
            constraints(&far),
            "unknown-field",
            11,
            format!("{of_template}[0].weight"),
            "unknown field weight",
        ),
        (
            constraints(&keys),
            "invalid",
            11,
            format!("{of_template}[0].matchLabelKeys"),
            "matchLabelKeys must be a list, not the string \"app\"",
        ),
        (
            under_spec,
            "misplaced-constraints",
            10,
            "spec.topologySpreadConstraints".to_owned(),
            "topologySpreadConstraints of spec is not read: topologySpreadConstraints has to be a field of spec.template.spec",
        ),
        (
            singular,
            "unknown-field",
            10,
            "spec.template.spec.topologySpreadConstraint".to_owned(),
            "unknown field topologySpreadConstraint: did you mean topologySpreadConstraints?",
        ),
        (
            in_container,
            "misplaced-constraints",
            9,
            "spec.template.spec.containers[0].topologySpreadConstraints".to_owned(),
            "topologySpreadConstraints of spec.template.spec.containers[0] is not read: topologySpreadConstraints has to be a field of spec.template.spec",
        ),
        (
            rollout("template", &skew),
            "unknown-field",
            11,
            format!("{of_template}[0].maxSkwe"),
            "unknown field maxSkwe: did you mean maxSkew?",
        ),
        (
            rollout("podTemplate", &skew),
            "unknown-field",
            11,
            "spec.podTemplate.spec.topologySpreadConstraints[0].maxSkwe".to_owned(),
            "unknown field maxSkwe: did you mean maxSkew?",
        ),
        (
            format!(
                "{}  topologySpreadConstraints: [{CONSTRAINT}]\n",
                rollout("template", CONSTRAINT)
            ),
            "misplaced-constraints",
            12,
            "spec.topologySpreadConstraints".to_owned(),
            "topologySpreadConstraints of spec is not read: topologySpreadConstraints has to be a field of spec.template.spec",
        ),
    ];
    for (text, rule, line, path, message) in cases {
        let found = found("a.yaml", &text, &[]);
        let said: Vec<_> = found.iter().filter(|(is, ..)| is == rule).collect();
        let expected = (rule.to_owned(), line, path, message.to_owned());
        assert!(said.contains(&&expected), "{found:?} in\n{text}");
    }
    for text in [constraints(CONSTRAINT), rollout("template", CONSTRAINT)] {
        assert_eq!(found("a.yaml", &text, &[]), [], "{text}");
    }
}

/// A file of JSON is split into objects first. An object that cannot be read is still reported with
/// its line of the file.
#[test]
fn json_that_cannot_be_read_has_its_line_of_the_file() {
    let cases = [
        (
            r#"{"apiVersion": "v1", "items": [{}, {"kind": "Pod",
"spec": {"priority": 1e999}}]}"#,
            2,
        ),
        (
            "{\"apiVersion\": \"v1\",\n\"kind\": \"Pod\"}\n\n{\"kind\": }",
            4,
        ),
    ];
    for (text, line) in cases {
        let found = found("a.json", text, &[]);
        let said: Vec<_> = found.iter().map(|(rule, at, ..)| (&**rule, *at)).collect();
        assert_eq!(said, [("unreadable", line)], "{found:?}");
    }
}

/// JSON, lists of either syntax and anchors: each finding has its own line.
#[test]
fn findings_have_the_lines_of_the_file_in_every_form_of_it() {
    let odd = CONSTRAINT.replace("maxSkew", "maxSkwe");
    let pod = format!(
        "kind: Pod\n  metadata: {{name: p, labels: {{app: web}}}}\n  spec:\n    topologySpreadConstraints:\n    - {odd}\n"
    );
    let quoted = r#"{"maxSkwe": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}}}"#;
    let json = format!(
        "{{\"apiVersion\": \"v1\", \"items\": [\n{{\"kind\": \"Node\"}},\n{{\"kind\": \"Pod\", \"metadata\": {{\"labels\": {{\"app\": \"web\"}}}},\n\"spec\": {{\"topologySpreadConstraints\": [\n{quoted}]}}}}],\n\"kind\": \"List\"}}\n"
    );
    let made = "- kind: Pod\n  metadata: {ownerReferences: [{controller: true}]}\n  spec: {topologySpreadConstraints: [{maxSkwe: 1}]}\n";
    let anchored = format!("apiVersion: v1\nkind: List\nitems:\n- &one\n  {pod}- *one\n");
    let cases = [
        (
            "a.yaml",
            format!("apiVersion: v1\nkind: List\nitems:\n{made}- {pod}"),
            vec![(11, "items[1].spec")],
        ),
        (
            "a.yaml",
            format!(
                "# Nothing.\n---\n{}---\n{}",
                constraints(CONSTRAINT),
                constraints(&odd)
            ),
            vec![(25, "spec.template.spec")],
        ),
        (
            "a.yaml",
            anchored,
            vec![(9, "items[0].spec"), (10, "items[1].spec")],
        ),
        ("a.json", json, vec![(5, "items[1].spec")]),
    ];
    for (name, text, expected) in cases {
        let found = found(name, &text, &[]);
        let said = found.iter().filter(|(rule, ..)| rule == "unknown-field");
        let said: Vec<(u64, String)> = said
            .map(|(_, line, path, _)| (*line, path.clone()))
            .collect();
        let expected = expected.into_iter();
        let expected: Vec<(u64, String)> = expected
            .map(|(line, spec)| (line, format!("{spec}.topologySpreadConstraints[0].maxSkwe")))
            .collect();
        assert_eq!(said, expected, "{found:?} in\n{text}");
    }
}

#[test]
fn a_topology_key_that_no_node_has_is_an_error() {
    let typed = constraints(&CONSTRAINT.replace("zone", "topology.kubernetes.io/zones"));
    let directory = TempDir::new().expect("a directory");
    let node = "kind: Node\nmetadata: {name: a, labels: {zone: a}}\n";
    fs::write(directory.path().join("cluster.yaml"), node).expect("it can be written");
    fs::write(directory.path().join("a.yaml"), typed).expect("it can be written");
    let findings = findings_in(
        directory.path(),
        &["-f", "a.yaml", "--load", "cluster.yaml"],
    );
    let key = findings
        .iter()
        .find(|finding| finding["rule"] == "unknown-topology-key");
    let key = key.unwrap_or_else(|| panic!("{findings:?}"));
    assert_eq!(key["severity"], "error");
    assert_eq!(
        key["message"],
        "none of 1 node has the label topology.kubernetes.io/zones, did you mean topology.kubernetes.io/zone?"
    );
}

#[test]
fn a_selector_that_others_share_is_noted() {
    let mine = constraints(CONSTRAINT);
    let other = |name: &str, namespace: &str| {
        mine.replace(
            "{name: web}",
            &format!("{{name: {name}, namespace: {namespace}}}"),
        )
        .replace(
            &format!("topologySpreadConstraints:\n      - {CONSTRAINT}"),
            "",
        )
    };
    let separated = CONSTRAINT.replace("{maxSkew", "{matchLabelKeys: [pod-template-hash], maxSkew");
    let cases = [
        (format!("{mine}---\n{}", other("api", "default")), 1),
        (format!("{mine}---\n{}", other("api", "shop")), 0),
        (format!("{mine}---\n{mine}"), 0),
        (
            format!(
                "{}---\n{}",
                constraints(&separated),
                other("api", "default")
            ),
            0,
        ),
    ];
    for (text, count) in cases {
        let found = found("a.yaml", &text, &[]);
        let shared: Vec<_> = found
            .iter()
            .filter(|(rule, ..)| rule == "shared-selector")
            .collect();
        assert_eq!(shared.len(), count, "{found:?} in\n{text}");
        if let [(_, line, _, message)] = *shared {
            assert_eq!(*line, 11);
            assert_eq!(
                message,
                "app=web selects the pods of Deployment default/api too: they are counted and spread together"
            );
        }
    }
}
