//! `evenkeel lint`: what an object leaves to something else is no fault: a patch to its base, a
//! template to what fills it in, a controller's labels to the controller. And what is wrong is named
//! as the mistake that it is.

use serde_json::Value;

use crate::cli::evenkeel::Workspace;

fn rules(workspace: &Workspace, line: &str) -> Vec<String> {
    let found = workspace.run(&format!("lint -o json {line}")).json();
    let found = found["findings"].as_array().expect("a list").iter();
    let mut rules: Vec<String> = found
        .filter_map(|it| it["rule"].as_str().map(str::to_owned))
        .collect();
    rules.sort();
    rules
}

fn rules_of(text: &str) -> Vec<String> {
    rules(&Workspace::new().file("a.yaml", text), "-f a.yaml")
}

/// A workload of these labels, with a constraint, and what else its spec has.
fn workload(kind: &str, labels: &str, constraint: &str, more: &str) -> String {
    let version = match kind {
        "Rollout" => "argoproj.io/v1alpha1",
        _ => "apps/v1",
    };
    format!(
        "apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\nspec:\n  {more}\n  template:\n    \
         metadata: {{labels: {labels}}}\n    spec:\n      containers: [{{name: c, image: i}}]\n      \
         topologySpreadConstraints:\n      - {constraint}\n"
    )
}

const SELECTED: &str = "selector: {matchLabels: {app: x}}";
const ZONE: &str = "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: \
                    {matchLabels: {app: x}}}";

#[test]
fn a_patch_leaves_the_rest_to_its_base() {
    let patch = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec:\n  template:\n    \
                 spec:\n      topologySpreadConstraints:\n      - ";
    for constraint in [
        "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: \
         {matchLabels: {app: x}}, matchLabelKeys: [version]}",
        "{maxSkew: 2, topologyKey: zone}",
        "{$patch: delete, topologyKey: zone}",
    ] {
        let text = format!("{patch}{constraint}\n");
        assert_eq!(rules_of(&text), Vec::<String>::new(), "{text}");
        let stateful = text.replace("Deployment", "StatefulSet");
        assert_eq!(rules_of(&stateful), Vec::<String>::new(), "{stateful}");
    }
    // A selector that no further label can make match is wrong in a patch, too.
    let contradicting = workload("StatefulSet", "{app: z}", ZONE, "replicas: 2");
    assert_eq!(rules_of(&contradicting), ["selector-mismatch"]);
    let open = workload("StatefulSet", "{version: z}", ZONE, "replicas: 2");
    assert_eq!(rules_of(&open), Vec::<String>::new());
    let whole = workload("StatefulSet", "{version: z}", ZONE, SELECTED);
    assert_eq!(rules_of(&whole), ["selector-mismatch"]);
    let wrong = format!("{patch}{{maxSkew: 0, topologyKey: zone, labelSelectors: {{}}}}\n");
    assert_eq!(rules_of(&wrong), ["invalid", "unknown-field"]);
}

#[test]
fn variables_that_were_not_filled_in_are_no_errors() {
    for variable in [
        "${APP}",
        "${APP:-web}",
        "${{APP}}",
        "$(APP)",
        "$APP",
        "#{APP}#",
    ] {
        let labels = format!("{{app: '{variable}'}}");
        let text = workload("Deployment", &labels, ZONE, "replicas: ${REPLICAS}");
        assert_eq!(rules_of(&text), ["unrendered"], "{variable}");
    }
    // Such a text cannot even be parsed.
    let unquoted = "apiVersion: v1\nkind: Pod\nmetadata: {name: ${APP}}\n";
    assert_eq!(rules_of(unquoted), ["unrendered"]);
    let of_script = "apiVersion: v1\nkind: ConfigMap\ndata:\n  run: echo ${APP}\n---\na: [\n";
    assert_eq!(rules_of(of_script), ["unreadable"]);
    // A program has variables of its own.
    let program = workload("StatefulSet", "{app: x}", ZONE, SELECTED);
    let program = program.replace("image: i", "image: i, args: ['${HOME}', '$(POD)']");
    assert_eq!(rules_of(&program), Vec::<String>::new());
}

#[test]
fn a_rollout_has_its_own_label_of_revisions() {
    let with = |key: &str| ZONE.replace("{maxSkew", &format!("{{matchLabelKeys: [{key}], maxSkew"));
    let rollout = |constraint: &str| workload("Rollout", "{app: x}", constraint, SELECTED);
    let own = with("rollouts-pod-template-hash");
    assert_eq!(rules_of(&rollout(&own)), Vec::<String>::new());
    assert_eq!(
        rules_of(&rollout(&with("pod-template-hash"))),
        ["unknown-match-label-key"]
    );
    assert_eq!(rules_of(&rollout(ZONE)), ["mixed-revisions"]);
    let deployment = workload("Deployment", "{app: x}", &own, SELECTED);
    assert_eq!(rules_of(&deployment), ["unknown-match-label-key"]);
    let workspace = Workspace::new().file("a.yaml", &rollout(ZONE));
    let told = workspace.expect(0, "lint -f a.yaml");
    told.says("matchLabelKeys: [rollouts-pod-template-hash]");
}

const TWO_NODES: &str = "
apiVersion: v1
kind: List
items:
- {kind: Node, metadata: {name: a, labels: {zone: a}}}
- {kind: Node, metadata: {name: b, labels: {zone: b}}}
";

#[test]
fn an_indentation_is_named_by_lint_and_by_questions() {
    let start = "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, ";
    let cases = [
        (
            "labelSelector: null, matchLabels: {app: x}}",
            "matchLabels: it belongs under labelSelector, so indent it further",
        ),
        (
            "labelSelector: null, matchExpressions: [{key: app, operator: Exists}]}",
            "matchExpressions: it belongs under labelSelector, so indent it further",
        ),
        (
            "labelSelector: {matchLabels: {app: x}, matchLabelKeys: [app]}}",
            "matchLabelKeys: it belongs beside labelSelector, not under it, so indent it less",
        ),
        (
            "labelSelector: {app: x}}",
            "app: a label belongs under matchLabels",
        ),
        (
            "labelSelector: {key: app, operator: Exists}}",
            "key: it belongs into an item of matchExpressions",
        ),
        (
            "labelSelectr: {}}",
            "labelSelectr: did you mean labelSelector?",
        ),
    ];
    for (rest, said) in cases {
        let text = workload(
            "StatefulSet",
            "{app: x}",
            &format!("{start}{rest}"),
            SELECTED,
        );
        let workspace = Workspace::new()
            .file("a.yaml", &text)
            .file("cluster.yaml", TWO_NODES);
        let said = format!("unknown field {said}");
        workspace.expect(1, "lint -f a.yaml").says(&said);
        for question in ["filter", "explain", "score", "place"] {
            let line = format!("{question} -f a.yaml --load cluster.yaml");
            workspace.run(&line).complains(&said);
        }
    }
    let misplaced = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec:\n  \
                     topologySpreadConstraints: []\n  template: {spec: {containers: []}}\n";
    let workspace = Workspace::new()
        .file("a.yaml", misplaced)
        .file("cluster.yaml", TWO_NODES);
    let told = workspace.expect(0, "filter -f a.yaml --load cluster.yaml");
    told.complains("topologySpreadConstraints of spec is not read");
}

#[test]
fn one_invalid_constraint_hides_nothing_of_the_others() {
    let misspelt = ZONE.replace("topologyKey: zone", "topologyKey: zonee");
    for broken in [
        ZONE.replace("maxSkew: 1", "maxSkew: 0"),
        ZONE.replace("maxSkew: 1", "maxSkew: many"),
        "just a text".to_owned(),
    ] {
        let both = format!("{broken}\n      - {misspelt}");
        let text = workload("StatefulSet", "{app: x}", &both, SELECTED);
        let workspace = Workspace::new()
            .file("a.yaml", &text)
            .file("cluster.yaml", TWO_NODES);
        let found = workspace
            .run("lint -o json -f a.yaml --load cluster.yaml")
            .json();
        let found = found["findings"].as_array().expect("a list");
        let of = |rule: &str| -> Vec<&Value> {
            let found = found.iter().filter(|it| it["rule"] == rule);
            found.map(|it| &it["path"]).collect()
        };
        assert_eq!(of("invalid").len(), 1, "{broken}: {found:?}");
        let path = "spec.template.spec.topologySpreadConstraints[1].topologyKey";
        assert_eq!(of("unknown-topology-key"), [path], "{broken}: {found:?}");
    }
}

#[test]
fn notes_do_not_fail_in_junit() {
    let noted = workload("Deployment", "{app: x}", ZONE, SELECTED);
    let workspace = Workspace::new().file("a.yaml", &noted);
    let told = workspace.expect(0, "lint -f a.yaml -o junit");
    told.says("tests=\"1\" failures=\"0\"");
    told.says("<system-out>note: a.yaml:");
    assert!(!told.out.contains("<failure"), "{}", told.out);
    let told = workspace.expect(1, "lint -f a.yaml -o junit --fail-on note");
    told.says("tests=\"1\" failures=\"1\"");
}

/// The parser keeps only some comments at a time, so they are skipped.
#[test]
fn comments_after_a_key_without_a_value_are_read_over() {
    let comments = |indent: &str| format!("{indent}# a comment\n").repeat(500);
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: x}}\nspec:\n  tolerations:\n{}  \
         topologySpreadConstraints:\n{}  - {{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: \
         DoNotSchedule}}\n",
        comments("  "),
        comments("  ")
    );
    let nodes = format!(
        "{}\nkind: Node\nmetadata:\n{}\n  name: node\n",
        comments(""),
        comments("  ")
    );
    let workspace = Workspace::new()
        .file("a.yaml", &text)
        .file("good.yaml", &text.replace("maxSkew: 0", "maxSkew: 1"))
        .file("cluster.yaml", &nodes)
        .file("defaults.yaml", &format!("{}[]\n", comments("")));
    workspace
        .expect(1, "lint -f a.yaml")
        .says("a.yaml:1007:6: error: maxSkew");
    let line = "filter -f good.yaml --load cluster.yaml --default-constraints defaults.yaml";
    workspace.expect(1, line).says("feasible: 0 of 1 node\n");
}

#[test]
fn properties_of_clusters_are_no_errors() {
    let policy = |affinity: &str| {
        format!(
            "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: \
             {{name: x}}\nspec: {{policy: {{placementType: PickN, numberOfClusters: 1, affinity: \
             {{clusterAffinity: {affinity}}}}}}}\n"
        )
    };
    let sorter = "{preferredDuringSchedulingIgnoredDuringExecution: [{weight: 20, preference: \
                  {propertySorter: {name: cpu, sortOrder: Descending}}}]}";
    let selector = "{requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: \
                    [{propertySelector: {matchExpressions: [{name: cpu, operator: Ge, values: ['4']}]}}]}}";
    let clusters =
        "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {name: m}\n";
    for (affinity, unchecked) in [(sorter, "propertySorter"), (selector, "propertySelector")] {
        let workspace = Workspace::new()
            .file("a.yaml", &policy(affinity))
            .file("fleet.yaml", clusters);
        assert_eq!(
            rules(&workspace, "-f a.yaml"),
            Vec::<String>::new(),
            "{affinity}"
        );
        let placed = workspace.expect(0, "place -f a.yaml --load fleet.yaml");
        placed.says(&format!("({unchecked}) was not checked"));
    }
}
