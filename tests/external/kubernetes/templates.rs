//! A pod template becomes the pod that the cluster makes of it: kube-scheduler binds as many pods
//! as `evenkeel place` says.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kubernetes::api::{Api, path};
use crate::kubernetes::control_plane::turn;
use crate::kubernetes::process::DEADLINE;
use crate::kubernetes::scheduler::{Defaults, Scheduler};
use crate::kubernetes::template_cases::{
    Case, LIMITED, WANTED, admission, cases, deployment, nodes,
};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: deploy/tools.sh install_control_plane"]
async fn a_template_takes_the_room_that_its_pods_take() {
    let mut plane = turn().await;
    let api = Api::connect(&plane.kubeconfig()).await;
    api.clear().await;
    let _scheduler = Scheduler::start(&mut plane, Defaults::System);
    let namespace = path("Namespace", "", LIMITED);
    if api.get(&namespace).await.is_none() {
        let object =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": LIMITED } });
        api.create(&object).await;
    }
    for object in nodes().into_iter().chain(admission()) {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
        let kind = object["kind"].as_str().expect("a kind");
        api.delete(&path(kind, text("namespace"), text("name")), 0)
            .await;
        api.create(&object).await;
    }
    let file = plane.directory().join("made.json");
    for case in cases() {
        fs::write(&file, deployment(&case).to_string()).expect("a file");
        let said = said(&file, &plane.kubeconfig(), &case);
        let bound = bound(&api, &case).await;
        assert_eq!((said, bound), (case.placed, case.placed), "{}", case.name);
    }
    api.clear().await;
}

/// Returns how many pods `evenkeel place` finds a node for.
fn said(file: &Path, kubeconfig: &Path, case: &Case) -> usize {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(["place", "-o", "name", "-f"]).arg(file);
    command.arg("--kubeconfig").arg(kubeconfig);
    let output = command.output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.is_empty(), "{}: {told}", case.name);
    output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .count()
}

/// Returns how many pods of a case kube-scheduler binds.
async fn bound(api: &Api, case: &Case) -> usize {
    let pod = |index: usize| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("made-{index}"), "namespace": case.namespace,
                "labels": { "app": "made" },
            },
            "spec": case.spec,
        })
    };
    for index in 0..WANTED {
        api.create(&pod(index)).await;
    }
    let start = Instant::now();
    let pods = loop {
        let pods = api.list("Pod").await;
        let attempted = pods.iter().filter(|pod| {
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            conditions
                .clone()
                .any(|condition| condition["type"] == "PodScheduled")
        });
        if attempted.count() == WANTED {
            break pods;
        }
        assert!(
            start.elapsed() < DEADLINE,
            "{}: some are not attempted",
            case.name
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let bound = pods
        .iter()
        .filter(|pod| pod["spec"]["nodeName"] != Value::Null);
    let bound = bound.count();
    for index in 0..WANTED {
        let name = format!("made-{index}");
        api.delete(&path("Pod", case.namespace, &name), 0).await;
    }
    bound
}
