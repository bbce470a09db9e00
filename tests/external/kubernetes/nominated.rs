//! Nominated pods that kube-scheduler does not try. Pods that wait for a gate take room.
//! Terminating pods take room until kube-scheduler skips them; the server counts them until they
//! are gone (`docs/semantics.md`, "Nominated pods").

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::kubernetes::api::{Api, path};
use crate::kubernetes::control_plane::turn;
use crate::kubernetes::evenkeel::Evenkeel;
use crate::kubernetes::objects::{NAMESPACE, status};
use crate::kubernetes::scheduler::{Defaults, Scheduler};
use crate::kubernetes::shadow::read;

/// A pod that requests most of a node.
fn large(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "terminationGracePeriodSeconds": 0, "containers": [{
            "name": "main", "image": "none", "resources": { "requests": { "cpu": "800m" } },
        }] },
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: deploy/tools.sh install_control_plane"]
async fn nominated_pods_that_are_not_tried() {
    let mut plane = turn().await;
    let api = Api::connect(&plane.kubeconfig()).await;
    let gate = json!({ "spec": { "schedulingGates": [{ "name": "example.com/gate" }] } });
    let finalizer = json!({ "metadata": { "finalizers": ["example.com/held"] } });
    for (more, is_deleted, said) in [
        (&gate, false, "Add event for unscheduled pod"),
        (&finalizer, true, "Skip schedule deleting pod"),
    ] {
        plane.command("kill kube-scheduler");
        api.clear().await;
        api.create(&json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": "one" }, "status": status(1000),
        }))
        .await;
        let mut first = large("first");
        for (part, fields) in more.as_object().expect("parts of a pod") {
            let part = first[part].as_object_mut().expect("a pod has them");
            part.extend(fields.as_object().expect("fields").clone());
        }
        api.create(&first).await;
        let at = path("Pod", NAMESPACE, "first");
        let nominated = json!({ "status": { "nominatedNodeName": "one" } });
        api.patch(&format!("{at}/status"), &nominated).await;
        if is_deleted {
            api.delete(&at, 0).await;
        }
        let evenkeel = Evenkeel::start(&plane.kubeconfig(), &[]);
        evenkeel.agrees_with(&api).await;
        let mut scheduler = Scheduler::start(&mut plane, Defaults::System);
        let from = scheduler.says(0, &[said, "pod=\"default/first\""]).await;
        let second = large("second");
        let incoming = read(api.admitted(&second).await);
        let filter = evenkeel.filter(&incoming).await.expect("an answer");
        api.create(&second).await;
        let decision = scheduler.decides(from, "default/second").await;
        let feasible: BTreeSet<String> = filter.feasible.into_iter().collect();
        assert_eq!(feasible, BTreeSet::new(), "{said}");
        assert_eq!(decision.feasible.is_empty(), !is_deleted, "{decision:?}");
    }
    plane.command("kill kube-scheduler");
    api.clear().await;
}
