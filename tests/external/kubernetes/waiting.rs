//! `evenkeel explain --pending` says of each waiting pod what kube-scheduler has written into the
//! pod's status.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::{Value, json};

use crate::kubernetes::api::path;
use crate::kubernetes::objects::{NAMESPACE, OWN_NAME, pod};
use crate::kubernetes::scheduler::{Defaults, Scheduler, reasons};
use crate::kubernetes::shadow::Shadow;

/// The number of pods at the end of a round for which few nodes have room.
const LARGE_PODS: usize = 15;

impl Shadow<'_> {
    /// Compares what the command says of each pod that waits with what its status says,
    /// once nothing changes any more.
    pub(crate) async fn explains_what_waits(&mut self, defaults: Defaults) {
        for _ in 0..LARGE_PODS {
            let name = format!("large-{}", self.pods.len());
            let mut large = pod(&mut self.rng, &name);
            let container = &mut large["spec"]["containers"][0];
            container["resources"]["requests"]["cpu"] = "2900m".into();
            self.api.create(&large).await;
            self.pods.push(name);
        }
        self.ends_nominations().await;
        let mut waiting = Vec::new();
        // The scheduler withdraws nominations pod by pod, so the first pass in which it binds no
        // pod may still change what pods find.
        let mut quiet = 0;
        while quiet < 2 {
            let mut scheduler = Scheduler::start_without_preemption(self.plane, defaults);
            waiting = self.waiting().await;
            let mut binds = false;
            for name in &waiting {
                let about = format!("{NAMESPACE}/{name}");
                let decision = scheduler.decides(0, &about).await;
                binds |= decision.is_void || !decision.feasible.is_empty();
            }
            quiet = if binds { 0 } else { quiet + 1 };
        }
        for name in waiting {
            let path = path("Pod", NAMESPACE, &name);
            let label = json!({ "metadata": { "labels": { OWN_NAME: name } } });
            self.api.patch(&path, &label).await.expect("it exists");
            self.findings.explained += 1;
            let said = self.explained(&name, defaults);
            let pod = self.api.get(&path).await.expect("it exists");
            let conditions = pod["status"]["conditions"].as_array().expect("a list");
            let scheduled = conditions.iter().find(|it| it["type"] == "PodScheduled");
            let message = scheduled.and_then(|it| it["message"].as_str());
            let wanted = reasons(message.unwrap_or_default());
            if Some(&said) != wanted.as_ref() {
                self.findings
                    .wrong_words
                    .push(format!("{said:?}, not {message:?}, of {pod}"));
            }
        }
    }

    /// The pods that wait for a node, and for no gate.
    async fn waiting(&self) -> Vec<String> {
        let waits = |pod: &Value| {
            pod["metadata"]["namespace"] == NAMESPACE
                && pod["spec"]["nodeName"].is_null()
                && pod["spec"]["schedulingGates"].is_null()
                && pod["metadata"]["deletionTimestamp"].is_null()
                && pod["status"]["phase"] == "Pending"
        };
        let pods = self.api.list("Pod").await.into_iter().filter(waits);
        let name = |pod: Value| pod["metadata"]["name"].as_str().map(str::to_owned);
        pods.filter_map(name).collect()
    }

    /// Returns how many nodes `evenkeel explain --pending` says there are for each reason.
    fn explained(&self, pod: &str, defaults: Defaults) -> BTreeMap<String, i64> {
        let config = Scheduler::configure(self.plane, defaults);
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.args(["explain", "--pending", "-o", "json", "-n", NAMESPACE]);
        command.args(["-l", &format!("{OWN_NAME}={pod}")]);
        command.arg("--default-constraints").arg(config);
        command.arg("--kubeconfig").arg(self.plane.kubeconfig());
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let reasons = answer["workloads"][0]["explanation"]["reasons"].as_array();
        let count = |it: &Value| {
            let count = it["count"].as_str().and_then(|it| it.parse().ok());
            Some((it["reason"].as_str()?.to_owned(), count?))
        };
        reasons.into_iter().flatten().filter_map(count).collect()
    }
}
