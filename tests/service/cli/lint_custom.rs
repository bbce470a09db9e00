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

/// Manifests as their projects' documents show them, each with a constraint whose action is written
/// `ACTION`, and the path of the action.
const WRITTEN: [(&str, &str); 18] = [
    (
        "spec.topologySpreadConstraints[0]",
        "apiVersion: postgresql.cnpg.io/v1
kind: Cluster
metadata: {name: cluster-example, namespace: db}
spec:
  instances: 3
  imageName: ghcr.io/cloudnative-pg/postgresql:17.5
  affinity: {enablePodAntiAffinity: true, topologyKey: kubernetes.io/hostname, podAntiAffinityType: preferred}
  topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ACTION
    nodeTaintsPolicy: Honor
    labelSelector: {matchLabels: {cnpg.io/cluster: cluster-example}}
  storage: {size: 1Gi}
",
    ),
    (
        "spec.template.spec.topologySpreadConstraints[0]",
        "apiVersion: postgresql.cnpg.io/v1
kind: Pooler
metadata: {name: pooler-example-rw}
spec:
  cluster: {name: cluster-example}
  instances: 3
  type: rw
  template:
    metadata: {labels: {app: pooler}}
    spec:
      containers: []
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ACTION, labelSelector: {matchLabels: {app: pooler}}}
  pgbouncer: {poolMode: session}
",
    ),
    (
        "spec.template.spec.topologySpreadConstraints[0]",
        "apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: testvm}
spec:
  runStrategy: Always
  template:
    metadata: {labels: {kubevirt.io/size: small, app: vms}}
    spec:
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ACTION, labelSelector: {matchLabels: {kubevirt.io: virt-launcher, app: vms}}}
      domain:
        devices: {disks: [{name: rootdisk, disk: {bus: virtio}}]}
        resources: {requests: {memory: 64M}}
      volumes: [{name: rootdisk, containerDisk: {image: quay.io/kubevirt/cirros-container-disk-demo}}]
",
    ),
    (
        "spec.topologySpreadConstraints[0]",
        "apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: testvmi, labels: {special: vmi}}
spec:
  terminationGracePeriodSeconds: 30
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ACTION, labelSelector: {matchLabels: {special: vmi}}}
  domain: {resources: {requests: {memory: 1024M}}}
",
    ),
    (
        "spec.virtualMachineTemplate.spec.template.spec.topologySpreadConstraints[0]",
        "apiVersion: pool.kubevirt.io/v1beta1
kind: VirtualMachinePool
metadata: {name: vm-pool-cirros}
spec:
  replicas: 3
  selector: {matchLabels: {kubevirt.io/vmpool: vm-pool-cirros}}
  virtualMachineTemplate:
    metadata: {labels: {kubevirt.io/vmpool: vm-pool-cirros}}
    spec:
      runStrategy: Always
      template:
        metadata: {labels: {pool: cirros}}
        spec:
          domain: {devices: {}}
          topologySpreadConstraints:
          - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ACTION, labelSelector: {matchLabels: {pool: cirros}}}
",
    ),
    (
        "spec.topologySpreadConstraints[0]",
        "apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata: {name: prometheus}
spec:
  replicas: 2
  shards: 2
  serviceMonitorSelector: {matchLabels: {team: frontend}}
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ACTION, additionalLabelSelectors: OnShard}
",
    ),
    (
        "spec.topologySpreadConstraints[0]",
        "apiVersion: monitoring.coreos.com/v1
kind: Alertmanager
metadata: {name: main}
spec:
  replicas: 3
  podMetadata: {labels: {team: ops}}
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ACTION, labelSelector: {matchLabels: {alertmanager: main}}}
",
    ),
    (
        "spec.entityOperator.template.pod.topologySpreadConstraints[0]",
        "apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {name: my-cluster}
spec:
  kafka:
    version: 4.1.0
    listeners: [{name: plain, port: 9092, type: internal, tls: false}]
  entityOperator:
    topicOperator: {}
    template:
      pod:
        metadata: {labels: {tier: control}}
        topologySpreadConstraints:
        - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ACTION, labelSelector: {matchLabels: {strimzi.io/cluster: my-cluster}}}
",
    ),
    (
        "spec.template.pod.topologySpreadConstraints[0]",
        "apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {name: broker, labels: {strimzi.io/cluster: my-cluster}}
spec:
  replicas: 3
  roles: [broker]
  storage: {type: jbod, volumes: [{id: 0, type: persistent-claim, size: 100Gi}]}
  template:
    pod:
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ACTION, labelSelector: {matchLabels: {strimzi.io/pool-name: broker}}}
",
    ),
    (
        "spec.template.buildPod.topologySpreadConstraints[0]",
        "apiVersion: kafka.strimzi.io/v1
kind: KafkaConnect
metadata: {name: my-connect}
spec:
  replicas: 1
  bootstrapServers: my-cluster-kafka-bootstrap:9093
  template:
    buildPod:
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ACTION, labelSelector: {matchLabels: {strimzi.io/kind: KafkaConnect}}}
",
    ),
    (
        "spec.workloads[0].topologySpreadConstraints[0]",
        "apiVersion: operator.knative.dev/v1beta1
kind: KnativeServing
metadata: {name: knative-serving, namespace: knative-serving}
spec:
  high-availability: {replicas: 2}
  workloads:
  - name: webhook
    labels: {team: platform}
    topologySpreadConstraints:
    - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ACTION, labelSelector: {matchLabels: {app: webhook}}}
",
    ),
    (
        "spec.values.controller.topologySpreadConstraints[0]",
        "apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: ingress-nginx, namespace: ingress}
spec:
  interval: 30m
  chart: {spec: {chart: ingress-nginx, version: 4.x, sourceRef: {kind: HelmRepository, name: ingress-nginx}}}
  values:
    controller:
      replicaCount: 3
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ACTION, labelSelector: {matchLabels: {app.kubernetes.io/component: controller}}}
",
    ),
    (
        "spec.postRenderers[0].kustomize.patches[0].patch.spec.template.spec.topologySpreadConstraints[0]",
        "apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: metrics-server}
spec:
  postRenderers:
  - kustomize:
      patches:
      - target: {kind: Deployment, name: metrics-server}
        patch: |
          apiVersion: apps/v1
          kind: Deployment
          metadata: {name: metrics-server}
          spec:
            template:
              spec:
                topologySpreadConstraints:
                - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ACTION}
",
    ),
    (
        "spec.patches[0].patch.spec.template.spec.topologySpreadConstraints[0]",
        "apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: flux-system}
spec:
  interval: 10m
  sourceRef: {kind: GitRepository, name: apps}
  path: ./deploy
  prune: true
  patches:
  - target: {kind: Deployment}
    patch: |
      kind: Deployment
      metadata: {name: any}
      spec: {template: {spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ACTION}]}}}
",
    ),
    (
        "spec.source.helm.valuesObject.server.topologySpreadConstraints[0]",
        "apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: prometheus, namespace: argocd}
spec:
  project: default
  destination: {server: https://kubernetes.default.svc, namespace: monitoring}
  source:
    repoURL: https://prometheus-community.github.io/helm-charts
    chart: prometheus
    targetRevision: 27.0.0
    helm:
      releaseName: prometheus
      valuesObject:
        server:
          topologySpreadConstraints:
          - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ACTION, labelSelector: {matchLabels: {app: prometheus}}}
",
    ),
    (
        "spec.source.helm.parameters.controller.topologySpreadConstraints[0]",
        "apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: nginx}
spec:
  source:
    chart: ingress-nginx
    helm:
      parameters:
      - {name: controller.replicaCount, value: '3'}
      - {name: 'controller.topologySpreadConstraints[0].maxSkew', value: '1'}
      - {name: 'controller.topologySpreadConstraints[0].topologyKey', value: topology.kubernetes.io/zone}
      - {name: 'controller.topologySpreadConstraints[0].whenUnsatisfiable', value: ACTION}
      - {name: 'controller.topologySpreadConstraints[0].labelSelector.matchLabels.app\\.kubernetes\\.io/name', value: nginx}
",
    ),
    (
        "spec.sourceHydrator.drySource.helm.values.topologySpreadConstraints[0]",
        "apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: hydrated}
spec:
  sourceHydrator:
    drySource:
      repoURL: https://github.com/argoproj/argocd-example-apps
      path: helm-guestbook
      targetRevision: HEAD
      helm:
        values: |
          replicaCount: 2
          topologySpreadConstraints:
          - maxSkew: 1
            topologyKey: zone
            whenUnsatisfiable: ACTION
    syncSource: {targetBranch: env/dev, path: guestbook}
",
    ),
    (
        "spec.generators[0].list.template.spec.source.helm.valuesObject.topologySpreadConstraints[0]",
        "apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: guestbook}
spec:
  generators:
  - list:
      elements: [{cluster: engineering-dev}]
      template:
        metadata: {}
        spec:
          project: default
          source:
            repoURL: https://github.com/argoproj/argo-cd.git
            helm:
              valuesObject:
                topologySpreadConstraints:
                - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ACTION}
          destination: {}
  template:
    metadata: {name: '{{.cluster}}-guestbook'}
    spec: {project: default}
",
    ),
];

/// The paths are those of the projects' API types, and what operators add to pods and constraints is no
/// fault.
#[test]
fn manifests_of_other_projects_are_read_as_they_are_written() {
    for (path, manifest) in WRITTEN {
        let lint = |action: &str| {
            let text = manifest.replace("ACTION", action);
            let workspace = Workspace::new().file("a.yaml", &text);
            findings(&workspace, "-f a.yaml")
        };
        let wrong = format!("{path}.whenUnsatisfiable");
        assert_eq!(lint("Never"), [("invalid".to_owned(), wrong)], "{manifest}");
        assert_eq!(lint("DoNotSchedule"), [], "{manifest}");
    }
}
