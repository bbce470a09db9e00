//! The command line, through the real binary.

mod credentials;
mod documents;
mod evenkeel;
mod hostile;
mod hostile_server;
mod made_pods;
mod named;
mod odds;
#[cfg(unix)]
mod plugin;
mod rebalance;
mod refused;
mod remote;
mod report;
mod serve;
mod shop;

use support::{api_server, ports, process, templates};
/// Three zones: a holds two web pods, b one, c none. a2 is cordoned, c1 is
/// tainted, x1 has no zone.
const CLUSTER: &str = r#"
apiVersion: v1
kind: List
items:
- {kind: Node, metadata: {name: a1, labels: {zone: a, kubernetes.io/hostname: a1}}}
- {kind: Node, metadata: {name: a2, labels: {zone: a, kubernetes.io/hostname: a2}}, spec: {unschedulable: true}}
- {kind: Node, metadata: {name: b1, labels: {zone: b, kubernetes.io/hostname: b1}}}
- {kind: Node, metadata: {name: c1, labels: {zone: c, kubernetes.io/hostname: c1}}, spec: {taints: [{key: gpu, effect: NoSchedule}]}}
- {kind: Node, metadata: {name: x1}}
- {kind: Pod, metadata: {name: w1, labels: {app: web}}, spec: {nodeName: a1}}
- {kind: Pod, metadata: {name: w2, labels: {app: web}}, spec: {nodeName: b1}}
- {kind: Pod, metadata: {name: w3, labels: {app: web}}, spec: {nodeName: a1}}
- {kind: Service, metadata: {name: db}, spec: {selector: {app: db}}}
- {kind: ConfigMap, apiVersion: v1, metadata: {name: settings}}
"#;

/// A Deployment with a hard zone constraint, and a StatefulSet without any.
const WORKLOADS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    metadata: {labels: {app: web}}
    spec:
      tolerations:
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  template:
    metadata: {labels: {app: db}}
"#;

/// A workspace with both as files.
fn workspace() -> evenkeel::Workspace {
    evenkeel::Workspace::new()
        .file("cluster.yaml", CLUSTER)
        .file("workloads.yaml", WORKLOADS)
}
