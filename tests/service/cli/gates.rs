//! Lint and report as gates: findings beside invalid constraints, the formats of build and test
//! systems, and the score that is enough.

use serde_json::Value;

use crate::cli::evenkeel::Workspace;

const AFTER_OUTAGE: &str = include_str!("../../../examples/three-zones/after-outage.yaml");

/// A workload of this kind with these constraints.
fn workload(kind: &str, constraints: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: web}}\nspec:\n  replicas: 3\n  \
         template:\n    metadata: {{labels: {{app: web}}}}\n    spec:\n      containers: []\n      \
         topologySpreadConstraints:\n{constraints}"
    )
}

/// A constraint on one line.
fn constraint(fields: &str) -> String {
    format!("      - {{topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, {fields}}}\n")
}

const RIGHT: &str = "maxSkew: 1, labelSelector: {matchLabels: {app: web}}";

/// The rules of the findings, each with the constraint that it is about.
fn found(text: &str) -> Vec<(String, String)> {
    let workspace = Workspace::new().file("app.yaml", text);
    let findings = workspace.run("lint -f app.yaml -o json").json();
    let findings = findings["findings"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found: Vec<_> = findings
        .map(|it| {
            let path = text(&it["path"]);
            let place = path.split(['[', ']']).nth(1).unwrap_or_default().to_owned();
            (text(&it["rule"]), place)
        })
        .collect();
    found.sort();
    found
}

#[test]
fn an_invalid_constraint_does_not_hide_what_is_wrong_with_others() {
    let other = constraint("maxSkew: 1, labelSelector: {matchLabels: {app: other}}");
    let other = other.replace("zone", "rack");
    for (invalid, rule) in [
        (
            constraint("maxSkew: 0, labelSelector: {matchLabels: {app: web}}"),
            "invalid",
        ),
        (constraint(&format!("{RIGHT}, minDomains: 2")), "invalid"),
    ] {
        let expected = [(rule, "0"), ("selector-mismatch", "1")];
        let expected = expected.map(|(rule, at)| (rule.to_owned(), at.to_owned()));
        let text = workload("StatefulSet", &(invalid + &other));
        assert_eq!(found(&text), expected, "{text}");
    }
}

#[test]
fn match_label_keys_are_those_that_pods_of_the_kind_have() {
    let keyed = |key: &str| constraint(&format!("{RIGHT}, matchLabelKeys: [{key}]"));
    for (kind, key, is_known) in [
        ("Deployment", "pod-template-hash", true),
        ("StatefulSet", "controller-revision-hash", true),
        ("StatefulSet", "pod-template-hash", false),
        ("Deployment", "controller-revision-hash", false),
        ("DaemonSet", "controller-revision-hash", true),
        ("Job", "pod-template-hash", false),
    ] {
        let found = found(&workload(kind, &keyed(key)));
        let is_found = found
            .iter()
            .any(|(rule, _)| rule == "unknown-match-label-key");
        assert_eq!(is_found, !is_known, "{kind} {key}: {found:?}");
    }
}

#[test]
fn findings_are_written_for_systems_that_build() {
    let text = workload(
        "StatefulSet",
        &constraint("maxSkew: 0, labelSelector: {matchLabels: {a: \"<\"}}"),
    );
    let workspace = Workspace::new()
        .file("a,b.yaml", &text)
        .file("ok.yaml", &workload("StatefulSet", &constraint(RIGHT)));
    let github = workspace.expect(1, "lint -f a,b.yaml -o github").out;
    let start = "::error file=a%2Cb.yaml,line=11,col=";
    assert!(
        github.lines().all(|line| line.starts_with(start)),
        "{github}"
    );
    assert!(github.contains(",title=invalid::StatefulSet "), "{github}");
    let junit = workspace.expect(1, "lint -f a,b.yaml -o junit").out;
    for part in [
        "<testsuite name=\"evenkeel lint\" tests=\"",
        "<failure type=\"error\" message=\"",
        "a,b.yaml:11:",
    ] {
        assert!(junit.contains(part), "{part}: {junit}");
    }
    assert!(!junit.contains("\"<\""), "{junit}");
    assert_eq!(workspace.expect(0, "lint -f ok.yaml -o github").out, "");
    let passed = workspace.expect(0, "lint -f ok.yaml -o junit").out;
    assert!(passed.contains("tests=\"1\" failures=\"0\""), "{passed}");
}

#[test]
fn a_report_fails_under_a_score() {
    let line = "report --load cluster.yaml -n shop";
    let workspace = Workspace::new().file("cluster.yaml", AFTER_OUTAGE);
    let score = workspace.run(&format!("{line} -o json")).json()["score"]["value"].as_i64();
    assert_eq!(score, Some(50));
    // Without the constraint that is violated, the score alone decides.
    let free = AFTER_OUTAGE.replace("DoNotSchedule", "ScheduleAnyway");
    let workspace = Workspace::new().file("cluster.yaml", &free);
    let score = workspace.run(&format!("{line} -o json")).json()["score"]["value"].as_i64();
    let score = score.expect("a score");
    for format in ["text", "html"] {
        let run = |least: i64| workspace.run(&format!("{line} --fail-under {least} -o {format}"));
        run(score).expect(0);
        run(score + 1).expect(1);
    }
    workspace.expect(2, &format!("{line} --fail-under 101"));
}

#[test]
fn a_folder_of_templates_that_nobody_rendered_is_no_clean_one() {
    let text = workload("Deployment", &constraint(RIGHT));
    let helm = format!("{{{{- if .Values.on }}}}\n{text}{{{{- end }}}}\n");
    let workspace = Workspace::new().file("a.yaml", &helm).file("b.yaml", &helm);
    let told = workspace.expect(2, "lint -f .");
    told.complains("nothing could be checked: all that was found has placeholders");
    told.says("[unrendered]");
    // Beside files that can be read, a template is a finding.
    let workspace = workspace.file("c.yaml", &workload("StatefulSet", &constraint(RIGHT)));
    let told = workspace.run("lint -f .");
    assert!(told.code < 2, "{told:?}");
    told.says("[unrendered]");
}
