//! Marks: labels that are changed last. Once both sides know a mark, they know all that happened
//! before.

use std::time::{Duration, Instant};

use evenkeel::proto::v1::FilterResponse;
use serde_json::{Value, json};

use crate::kubernetes::api::{Api, path};
use crate::kubernetes::evenkeel::Evenkeel;
use crate::kubernetes::objects::status;
use crate::kubernetes::process::DEADLINE;
use crate::kubernetes::scheduler::Scheduler;
use crate::kubernetes::shadow::{Shadow, read};
use crate::kubernetes::storage;

/// A label of one node, where it is a topology key, and of the pod there. Its value is the number
/// of the last change.
const MARK: &str = "example.com/mark";
pub(crate) const MARKER: &str = "marker";

/// Makes the node and the pod that are marked.
pub(crate) async fn make(api: &Api) {
    api.create(&json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": MARKER },
        "spec": { "unschedulable": true }, "status": status(1000),
    }))
    .await;
    api.create(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": MARKER, "namespace": MARKER },
        "spec": { "nodeName": MARKER, "containers": [{ "name": "main", "image": "none" }] },
    }))
    .await;
}

impl Shadow<'_> {
    /// Waits until the scheduler and the server know all that has happened.
    pub(crate) async fn known_to_all(&mut self, scheduler: &mut Scheduler) {
        self.mark += 1;
        let from = scheduler.position();
        let label = json!({ "metadata": { "labels": { MARK: self.mark.to_string() } } });
        let node = path("Node", "", MARKER);
        self.api.patch(&node, &label).await.expect("it exists");
        let pod = path("Pod", MARKER, MARKER);
        self.api.patch(&pod, &label).await.expect("it exists");
        scheduler
            .says(from, &["Update event for node", "node=\"marker\""])
            .await;
        scheduler
            .says(
                from,
                &["Update event for scheduled pod", "pod=\"marker/marker\""],
            )
            .await;
        knows_mark(self.evenkeel, self.mark).await;
        if std::mem::take(&mut self.storage_changed) {
            self.knows_storage(scheduler).await;
        }
    }

    /// Waits until the scheduler and the server know all claims and volumes: makes a claim and its
    /// volume last, and waits until both refuse a pod with that claim because of the volume.
    async fn knows_storage(&self, scheduler: &mut Scheduler) {
        let name = format!("{MARKER}-{}", self.mark);
        let made = [
            storage::volume_of_nowhere(&name),
            storage::bound_claim(MARKER, &name),
        ];
        for object in &made {
            self.api.create(object).await;
        }
        let start = Instant::now();
        for attempt in 0.. {
            let pod = format!("{name}-{attempt}");
            let from = scheduler.position();
            self.api
                .create(&json!({
                    "apiVersion": "v1", "kind": "Pod",
                    "metadata": { "name": pod, "namespace": MARKER },
                    "spec": {
                        "containers": [{ "name": "main", "image": "none" }],
                        "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": name } }],
                    },
                }))
                .await;
            let decision = scheduler.decides(from, &format!("{MARKER}/{pod}")).await;
            self.api.delete(&path("Pod", MARKER, &pod), 0).await;
            if decision.reasons.contains_key(storage::NOWHERE) {
                break;
            }
            assert!(
                start.elapsed() < DEADLINE,
                "the scheduler does not learn of claims: {decision:?}"
            );
        }
        knows_claim(self.evenkeel, &name).await;
        for object in &made {
            let kind = object["kind"].as_str().expect("a kind");
            let namespace = object["metadata"]["namespace"].as_str();
            self.api.release(kind, object).await;
            let path = path(kind, namespace.unwrap_or_default(), &name);
            self.api.delete(&path, 0).await;
        }
    }
}

/// Waits until the server refuses a pod with a claim because of the claim's volume.
async fn knows_claim(evenkeel: &Evenkeel, claim: &str) {
    let question = json!({
        "metadata": { "namespace": MARKER, "name": "question" },
        "spec": { "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": claim } }] },
    });
    let knows = |answer: &FilterResponse| {
        let mut reasons = answer.reasons.iter();
        reasons.any(|it| it.reason == storage::NOWHERE)
    };
    answers(evenkeel, question, knows).await;
}

/// Waits until the server knows a mark on a node and on a pod.
async fn knows_mark(evenkeel: &Evenkeel, mark: u64) {
    let mark = mark.to_string();
    let question = json!({
        "metadata": { "namespace": MARKER, "name": "question" },
        "spec": { "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": MARK, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": { "matchLabels": { MARK: mark } },
        }]},
    });
    let knows = |answer: &FilterResponse| {
        let mut domains = answer.constraints.iter().flat_map(|it| &it.domains);
        domains.any(|domain| domain.value == mark && domain.matching_pods == 1)
    };
    answers(evenkeel, question, knows).await;
}

/// Asks the server until its answer shows that it knows what happened.
async fn answers(evenkeel: &Evenkeel, question: Value, knows: impl Fn(&FilterResponse) -> bool) {
    let question = read(question);
    let start = Instant::now();
    loop {
        let answer = evenkeel.filter(&question).await;
        if answer.as_ref().is_ok_and(&knows) {
            return;
        }
        assert!(
            start.elapsed() < DEADLINE,
            "the server does not learn of changes: {answer:?}"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
