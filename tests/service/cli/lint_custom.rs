//! `evenkeel lint`: constraints in custom resources and Helm values, whose places a table has.

use serde_json::Value;

use crate::cli::evenkeel::Workspace;

const BAD: &str = "{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: \
                   {matchLabels: {app: web}}}";

/// An object with one constraint at a path of its spec, `*` being an item of a list.
fn object(version: &str, kind: &str, path: &str, constraint: &str) -> String {
    let mut text = format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\nspec:\n");
    let mut indent = 2;
    for step in path.split('.').filter(|step| !step.is_empty()) {
        let blanks = " ".repeat(indent);
        match step.strip_suffix("[]") {
            Some(list) => text += &format!("{blanks}{list}:\n{blanks}- name: a\n"),
            None => text += &format!("{blanks}{step}:\n"),
        }
        indent += 2;
    }
    let blanks = " ".repeat(indent);
    text + &format!("{blanks}topologySpreadConstraints:\n{blanks}- {constraint}\n")
}

fn findings(workspace: &Workspace, line: &str) -> Vec<(String, String)> {
    let found = workspace.run(&format!("lint -o json {line}")).json();
    let found = found["findings"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    found
        .map(|it| (text(&it["rule"]), text(&it["path"])))
        .collect()
}

#[test]
fn constraints_are_found_where_resources_have_them() {
    let cases = [
        ("kubevirt.io/v1", "VirtualMachine", "template.spec"),
        ("kubevirt.io/v1", "VirtualMachineInstance", ""),
        (
            "pool.kubevirt.io/v1beta1",
            "VirtualMachinePool",
            "virtualMachineTemplate.spec.template.spec",
        ),
        ("postgresql.cnpg.io/v1", "Cluster", ""),
        ("monitoring.coreos.com/v1", "Prometheus", ""),
        ("monitoring.coreos.com/v1", "Alertmanager", ""),
        ("kafka.strimzi.io/v1beta2", "Kafka", "kafka.template.pod"),
        (
            "kafka.strimzi.io/v1beta2",
            "Kafka",
            "entityOperator.template.pod",
        ),
        ("kafka.strimzi.io/v1beta2", "KafkaNodePool", "template.pod"),
        (
            "operator.knative.dev/v1beta1",
            "KnativeServing",
            "workloads[]",
        ),
        (
            "operator.knative.dev/v1beta1",
            "KnativeEventing",
            "deployments[]",
        ),
        ("helm.toolkit.fluxcd.io/v2", "HelmRelease", "values"),
        ("helm.toolkit.fluxcd.io/v2", "HelmRelease", "values.a.b"),
        (
            "argoproj.io/v1alpha1",
            "Application",
            "source.helm.valuesObject.a",
        ),
        (
            "argoproj.io/v1alpha1",
            "Application",
            "sources[].helm.valuesObject",
        ),
        (
            "argoproj.io/v1alpha1",
            "ApplicationSet",
            "template.spec.source.helm.valuesObject",
        ),
    ];
    for (version, kind, path) in cases {
        let workspace = Workspace::new().file("a.yaml", &object(version, kind, path, BAD));
        let dot = if path.is_empty() { "" } else { "." };
        let at = format!("spec{dot}{path}").replace("[]", "[0]");
        let expected = format!("{at}.topologySpreadConstraints[0].maxSkew");
        let found = findings(&workspace, "-f a.yaml");
        assert_eq!(found, [("invalid".to_owned(), expected)], "{kind} {path}");
        let other = object(&version.replace('/', ".example/"), kind, path, BAD);
        let workspace = Workspace::new().file("a.yaml", &other);
        assert_eq!(
            findings(&workspace, "-f a.yaml"),
            [],
            "{kind} of another group"
        );
    }
}

#[test]
fn values_in_a_text_are_read() {
    let values = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: x}\nspec:\n  \
                  source:\n    helm:\n      values: |\n        topologySpreadConstraints:\n        - \
                  {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: Never}\n";
    let workspace = Workspace::new().file("a.yaml", values);
    workspace
        .expect(1, "lint -f a.yaml")
        .says("a.yaml:7:7: error: whenUnsatisfiable must be");
}

/// Operators add labels, and charts selectors and fields: what may be added is not missing.
#[test]
fn what_an_operator_or_a_chart_adds_is_not_missing() {
    let fine = "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: \
                {matchLabels: {of: operator}}}";
    let cases = [
        ("postgresql.cnpg.io/v1", "Cluster", "", fine),
        ("monitoring.coreos.com/v1", "Prometheus", "", fine),
        (
            "monitoring.coreos.com/v1",
            "Prometheus",
            "",
            "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, \
             additionalLabelSelectors: OnResource}",
        ),
        (
            "helm.toolkit.fluxcd.io/v2",
            "HelmRelease",
            "values",
            "{topologyKey: zone}",
        ),
        (
            "helm.toolkit.fluxcd.io/v2",
            "HelmRelease",
            "values",
            "{topologyKey: zone, enabled: true}",
        ),
    ];
    for (version, kind, path, constraint) in cases {
        let workspace = Workspace::new().file("a.yaml", &object(version, kind, path, constraint));
        assert_eq!(findings(&workspace, "-f a.yaml"), [], "{kind} {constraint}");
    }
    // The operator adds selectors to the constraints of a Prometheus alone.
    for kind in ["Alertmanager", "ThanosRuler"] {
        let selecting = "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, \
                         additionalLabelSelectors: OnResource}";
        let object = object("monitoring.coreos.com/v1", kind, "", selecting);
        let workspace = Workspace::new().file("a.yaml", &object);
        let found = findings(&workspace, "-f a.yaml");
        assert!(
            found.iter().any(|(rule, _)| rule == "unknown-field"),
            "{found:?}"
        );
    }
    let vm = object("kubevirt.io/v1", "VirtualMachine", "template.spec", fine);
    let workspace = Workspace::new().file("a.yaml", &vm);
    let found = findings(&workspace, "-f a.yaml");
    assert_eq!(
        found[0].0, "selector-mismatch",
        "a VM has its own labels: {found:?}"
    );
    let misplaced = object("kubevirt.io/v1", "VirtualMachine", "template", fine);
    let workspace = Workspace::new().file("a.yaml", &(misplaced + "    spec: {domain: {}}\n"));
    let found = findings(&workspace, "-f a.yaml");
    assert_eq!(found[0].0, "misplaced-constraints", "{found:?}");
}

#[test]
fn users_add_to_the_table() {
    let mine = object("db.example.com/v2", "Database", "shards[].pods", BAD);
    let row = |at: &str| {
        format!(
            "[[resources]]\ngroup = \"db.example.com\"\nkinds = [\"Database\"]\nat = \"{at}\"\n"
        )
    };
    let workspace = Workspace::new()
        .file("a.yaml", &mine)
        .file("mine.toml", &row("spec.shards.*.pods"));
    assert_eq!(findings(&workspace, "-f a.yaml"), []);
    let found = findings(&workspace, "-f a.yaml --config mine.toml");
    let path = "spec.shards[0].pods.topologySpreadConstraints[0].maxSkew";
    assert_eq!(found, [("invalid".to_owned(), path.to_owned())]);
    for (at, said) in [
        ("spec..pods", "resources[0]: at must be the path"),
        (
            "spec.topologySpreadConstraints",
            "resources[0]: at must be the path",
        ),
        (
            "spec.**.pods",
            "resources[0]: at may have ** only at its end",
        ),
    ] {
        let workspace = Workspace::new()
            .file("a.yaml", &mine)
            .file("mine.toml", &row(at));
        let refused = workspace.expect(2, "lint -f a.yaml --config mine.toml");
        refused.complains(said);
    }
}

/// A place that is no pod template is none for other commands.
#[test]
fn other_commands_do_not_ask_about_custom_resources() {
    let release = object("helm.toolkit.fluxcd.io/v2", "HelmRelease", "values", BAD);
    let pod = "\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: one}\n";
    let workspace = Workspace::new().file("a.yaml", &(release + pod)).file(
        "cluster.yaml",
        "{apiVersion: v1, kind: Node, metadata: {name: node}}",
    );
    workspace.expect(0, "filter -f a.yaml --load cluster.yaml");
}
