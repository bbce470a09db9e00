//! Tests of the pod that a question is about.

use serde_json::{Value, json};

use super::super::WorkloadFinder;
use super::{directory_with, message};
use evenkeel_core::proto::v1::Pod;

fn workload(content: &str, name: Option<&str>, namespace: Option<&str>) -> Result<Value, String> {
    let directory = directory_with(&[("a.yaml", content)]);
    let name = name.map(|name| name.parse().expect("a name"));
    let path = directory.path().join("a.yaml");
    let finder = WorkloadFinder::read(&path, name.as_ref(), namespace);
    finder
        .and_then(|finder| finder.finish(&path.display().to_string()))
        .map(|workload| json!([workload.name, without_tolerations(workload.pod)]))
        .map_err(|error| message(&error, &directory))
}

/// Removes the tolerations that admission adds, which `tests/service/cli/made_pods.rs` tests.
fn without_tolerations(mut pod: Pod) -> Pod {
    if let Some(spec) = &mut pod.spec {
        assert!(spec.tolerations.len() >= 2, "{spec:?}");
        spec.tolerations.clear();
    }
    pod
}

#[test]
fn a_pod_template_becomes_a_pod() {
    let template = "template: {metadata: {name: ignored, labels: {app: web}}, spec: {nodeSelector: {disk: ssd}}}";
    let owner = |version: &str, kind: &str| json!([{"apiVersion": version, "kind": kind, "name": "web", "controller": true}]);
    let cases = [
        (
            "apps/v1",
            "Deployment",
            Some(owner("apps/v1", "Deployment")),
        ),
        ("apps/v1", "DaemonSet", Some(owner("apps/v1", "DaemonSet"))),
        ("batch/v1", "Job", None),
        ("batch/v1", "CronJob", None),
        (
            "apps/v1",
            "ReplicaSet",
            Some(owner("apps/v1", "ReplicaSet")),
        ),
        (
            "apps/v1",
            "StatefulSet",
            Some(owner("apps/v1", "StatefulSet")),
        ),
        (
            "v1",
            "ReplicationController",
            Some(owner("v1", "ReplicationController")),
        ),
    ];
    for (version, kind, owners) in cases {
        let spec = match kind {
            "CronJob" => format!("{{jobTemplate: {{spec: {{{template}}}}}}}"),
            _ => format!("{{{template}}}"),
        };
        let content = format!(
            "apiVersion: {version}\nkind: {kind}\nmetadata: {{name: web, namespace: shop, labels: {{not: used}}}}\nspec: {spec}"
        );
        let mut metadata = json!({"namespace": "shop", "labels": {"app": "web"}});
        let job = match kind {
            "Job" => Some("web"),
            "CronJob" => Some("web-next"),
            _ => None,
        };
        if let Some(job) = job {
            metadata["labels"]["job-name"] = job.into();
            metadata["labels"]["batch.kubernetes.io/job-name"] = job.into();
        }
        if let Some(owners) = owners {
            metadata["ownerReferences"] = owners;
        }
        let pod = json!({"metadata": metadata, "spec": {"nodeSelector": {"disk": "ssd"}}});
        assert_eq!(
            workload(&content, None, None),
            Ok(json!([format!("{kind} shop/web"), pod]))
        );
    }
}

#[test]
fn a_workload_is_chosen_by_name() {
    let content = "kind: Pod\nmetadata: {name: a}\n---\nkind: Service\nmetadata: {name: a}\n---\n\
        kind: Pod\nmetadata: {name: a, namespace: x}\n---\nkind: Deployment\nmetadata: {name: b}\nspec: {template: {}}\n";
    let all = "Pod/default/a, Pod/x/a, Deployment/default/b";
    let cases = [
        (Some("b"), Ok("Deployment default/b")),
        (Some("deployment/b"), Ok("Deployment default/b")),
        (Some("pod/x/a"), Ok("Pod x/a")),
        (Some("Pod/default/a"), Ok("Pod default/a")),
        (
            None,
            Err(format!(
                "a.yaml: 3 pods and workloads in it; say which with --name KIND/NAME: {all}"
            )),
        ),
        (
            Some("c"),
            Err(
                "a.yaml: no c in it; the nearest are Pod/x/a, Pod/default/a, Deployment/default/b"
                    .to_owned(),
            ),
        ),
        (
            Some("a"),
            Err(
                "a.yaml: 2 objects called a in it; say which with --name KIND/NAMESPACE/NAME: \
                 Pod/default/a, Pod/x/a"
                    .to_owned(),
            ),
        ),
    ];
    for (name, expected) in cases {
        let found = workload(content, name, None).map(|found| found[0].clone());
        assert_eq!(found, expected.map(Value::from), "{name:?}");
    }
}

#[test]
fn the_namespace_can_be_overridden() {
    let found = workload(
        "kind: Pod\nmetadata: {name: a, namespace: x}\nspec: {}",
        None,
        Some("y"),
    );
    assert_eq!(
        found,
        Ok(json!(["Pod y/a", {"metadata": {"name": "a", "namespace": "y"}, "spec": {}}]))
    );
}

#[test]
fn a_file_without_pods_is_refused() {
    let cases = [
        (
            "kind: Service\nmetadata: {name: a}",
            "a.yaml: no Pod or workload with a pod template in it",
        ),
        (
            "kind: Deployment\nmetadata: {name: a}\nspec: {}",
            "a.yaml, document 1: Deployment default/a: spec.template: no pod template there",
        ),
    ];
    for (content, expected) in cases {
        assert_eq!(workload(content, None, None), Err(expected.to_owned()));
    }
}
