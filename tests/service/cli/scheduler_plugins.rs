//! The table of the README that says which plugins of kube-scheduler a decision covers.

use std::collections::BTreeMap;

use crate::cli::evenkeel::Workspace;

/// By plugin: a node and a pod that its Filter refuses there, or might refuse.
const FILTERED: [(&str, &str, &str); 15] = [
    (
        "SchedulingGates",
        "",
        "spec: {schedulingGates: [{name: g}]}",
    ),
    ("NodeUnschedulable", "spec: {unschedulable: true}", ""),
    ("NodeName", "", "spec: {nodeName: another}"),
    (
        "TaintToleration",
        "spec: {taints: [{key: t, effect: NoSchedule}]}",
        "",
    ),
    ("NodeAffinity", "", "spec: {nodeSelector: {a: b}}"),
    (
        "NodePorts",
        "status: {allocatable: {pods: 9}}",
        "spec: {containers: [{name: c, ports: [{containerPort: 80, hostPort: 80}]}]}",
    ),
    (
        "NodeResourcesFit",
        "status: {allocatable: {pods: 9, cpu: 1}}",
        "spec: {containers: [{name: c, resources: {requests: {cpu: 2}}}]}",
    ),
    (
        "PodTopologySpread",
        "",
        "spec: {topologySpreadConstraints: [{topologyKey: zone, maxSkew: 1, whenUnsatisfiable: \
         DoNotSchedule, labelSelector: {matchLabels: {a: b}}}]}",
    ),
    (
        "InterPodAffinity",
        "",
        "spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
         [{topologyKey: zone, labelSelector: {matchLabels: {a: b}}}]}}}",
    ),
    ("VolumeRestrictions", CLASS, CLAIM),
    ("NodeVolumeLimits", "", CLAIM),
    ("VolumeBinding", UNBOUND, CLAIM),
    ("VolumeZone", BOUND, CLAIM),
    (
        "DynamicResources",
        "",
        "spec: {resourceClaims: [{name: r}]}",
    ),
    (
        "NodeDeclaredFeatures",
        "",
        "spec: {containers: [{name: c, restartPolicyRules: [{action: RestartAllContainers}]}]}",
    ),
];

/// A storage class, beside a node.
const CLASS: &str = "---\nkind: StorageClass\nmetadata: {name: s}\nprovisioner: p\n";

/// The same, with a claim that no volume is bound to.
const UNBOUND: &str = "---\nkind: StorageClass\nmetadata: {name: s}\nprovisioner: p\n---\n\
    kind: PersistentVolumeClaim\nmetadata: {name: c}\nspec: {storageClassName: gone}\n";

/// The same, with a claim that is bound to a volume which is not there.
const BOUND: &str = "---\nkind: StorageClass\nmetadata: {name: s}\nprovisioner: p\n---\n\
    kind: PersistentVolumeClaim\nmetadata: {name: c, annotations: {pv.kubernetes.io/bind-completed: 'yes'}}\n\
    spec: {volumeName: gone}\n";

const CLAIM: &str = "spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]}";

/// By plugin: a node and a pod that its Score looks at.
const SCORED: [(&str, &str, &str); 9] = [
    (
        "TaintToleration",
        "spec: {taints: [{key: t, effect: PreferNoSchedule}]}",
        "",
    ),
    (
        "NodeAffinity",
        "",
        "spec: {affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: \
         [{weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}}}",
    ),
    (
        "NodeResourcesFit",
        "status: {allocatable: {pods: 9, cpu: 4}}",
        "spec: {containers: [{name: c, resources: {requests: {cpu: 2}}}]}",
    ),
    (
        "PodTopologySpread",
        "",
        "spec: {topologySpreadConstraints: [{topologyKey: kubernetes.io/hostname, maxSkew: 1, \
         whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {a: b}}}]}",
    ),
    (
        "InterPodAffinity",
        "",
        "spec: {affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: \
         [{weight: 1, podAffinityTerm: {topologyKey: zone, labelSelector: {}}}]}}}",
    ),
    ("VolumeBinding", "", CLAIM),
    (
        "DynamicResources",
        "",
        "spec: {resourceClaims: [{name: r}]}",
    ),
    (
        "NodeResourcesBalancedAllocation",
        "status: {allocatable: {pods: 9, cpu: 4}}",
        "spec: {containers: [{name: c, resources: {requests: {cpu: 2}}}]}",
    ),
    (
        "ImageLocality",
        "status: {images: [{names: [i], sizeBytes: 1}]}",
        "spec: {containers: [{name: c, image: i}]}",
    ),
];

/// The first word of a plugin's cell in the table, by plugin; `–` for none.
fn table(column: usize) -> BTreeMap<String, String> {
    let readme = include_str!("../../../README.md");
    let (_, table) = readme
        .split_once("| plugin | Filter | Score |\n|---|---|---|\n")
        .expect("the table");
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let word = cells[column].split([' ', ':']).next().unwrap_or_default();
        (cells[0].to_owned(), word.to_owned())
    });
    cells.filter(|(_, word)| word != "–").collect()
}

/// A workspace with a node, a pod that runs there and takes a port, and a pod to ask about.
fn workspace(node: &str, pod: &str) -> Workspace {
    let object = |kind: &str, labels: &str, more: &str| {
        let head = format!(
            "kind: {kind}\nmetadata: {{name: {}, labels: {{{labels}}}}}\n",
            kind.to_lowercase()
        );
        format!("{head}{more}\n")
    };
    let runs = "kind: Pod\nmetadata: {name: runs}\nspec: {nodeName: node, containers: [{name: c, \
                ports: [{containerPort: 80, hostPort: 80}]}]}\n";
    let node = object("Node", "kubernetes.io/hostname: node", node);
    Workspace::new()
        .file("all.yaml", &format!("{node}---\n{runs}"))
        .file("pod.yaml", &object("Pod", "a: b", pod))
}

#[test]
fn the_readme_says_what_of_each_plugin_is_checked() {
    let line = "-f pod.yaml --load all.yaml --default-constraints none -o json";
    let filtered = FILTERED.map(|(plugin, node, pod)| {
        let answer = workspace(node, pod).run(&format!("filter {line}")).json();
        let is_named = answer["unchecked"]
            .as_array()
            .is_some_and(|it| !it.is_empty());
        let status = match (answer["feasibleCount"].as_str(), is_named) {
            (None | Some("0"), _) => "exactly",
            (_, true) => "named",
            (_, false) => "not",
        };
        (plugin.to_owned(), status.to_owned())
    });
    assert_eq!(table(1), filtered.into());
    let scored = SCORED.map(|(plugin, node, pod)| {
        let workspace = workspace(node, pod);
        let answer = workspace.expect(0, &format!("score {line}")).json();
        let filtered = workspace.run(&format!("filter {line}")).json();
        let is_named = answer["unchecked"] != filtered["unchecked"];
        let status = match (answer["skipped"].as_bool(), is_named) {
            (Some(true), true) => "named",
            (Some(true), false) => "not",
            _ => "exactly",
        };
        (plugin.to_owned(), status.to_owned())
    });
    assert_eq!(table(2), scored.into());
}
