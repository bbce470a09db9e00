//! kube-scheduler's shadow: for each pod that it places or cannot place, the
//! server under test was asked before, at the same state of the cluster.
//!
//! The state is made the same by taking turns: changes are made, both sides are
//! waited for until they know a marker that was changed last, the question is
//! asked, and only then is the pod created.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use evenkeel::proto::v1::{FilterResponse, Pod, ScoreResponse};
use fastrand::Rng;
use serde_json::{Value, json};

use crate::api::{Api, path};
use crate::changes;
use crate::control_plane::{ControlPlane, turn};
use crate::evenkeel::Evenkeel;
use crate::objects::{NAMESPACE, NODES, node, pod, priority_classes, status};
use crate::process::DEADLINE;
use crate::proxy::Proxy;
use crate::scheduler::{Decision, Defaults, Scheduler};

/// A topology of one node, and a label of the pod there: their value is the
/// number of the last change.
const MARK: &str = "example.com/mark";
const MARKER: &str = "marker";

/// What was compared, and what was different.
#[derive(Debug, Default)]
struct Findings {
    bound: usize,
    pending: usize,
    /// Pending pods that victims were ended for.
    nominated: usize,
    /// Pods whose nodes were scored by spread.
    scored: usize,
    wrong_sets: Vec<String>,
    wrong_scores: Vec<String>,
    wrong_reasons: Vec<String>,
}

/// What is placed under one configuration of the scheduler.
struct Round {
    defaults: Defaults,
    pods: usize,
    /// It goes on, for four times as many pods at most, until so many of all rounds
    /// were nominated: how many there are is chance.
    nominated: usize,
}

impl Round {
    const fn of(defaults: Defaults, pods: usize) -> Self {
        Self {
            defaults,
            pods,
            nominated: 0,
        }
    }

    fn goes_on(&self, placed: usize, findings: &Findings) -> bool {
        placed < self.pods || findings.nominated < self.nominated && placed < 4 * self.pods
    }
}

struct Shadow<'a> {
    plane: &'a mut ControlPlane,
    api: &'a Api,
    evenkeel: &'a Evenkeel,
    rng: Rng,
    mark: u64,
    pods: Vec<String>,
    findings: Findings,
}

impl Shadow<'_> {
    /// Places pods under one configuration of the scheduler.
    async fn round(&mut self, round: &Round) {
        for _ in 0..4 {
            changes::to_an_owner(self.api, &mut self.rng).await;
        }
        let mut scheduler = Scheduler::start(self.plane, round.defaults);
        let before = self.pods.len();
        while round.goes_on(self.pods.len() - before, &self.findings) {
            for _ in 0..self.rng.usize(..3) {
                match self.rng.bool() {
                    true => changes::to_a_node(self.api, &mut self.rng).await,
                    false => changes::to_a_pod(self.api, &mut self.rng, &self.pods).await,
                }
            }
            if self.pods.len() % 5 == 4 {
                changes::to_waiting_pods(self.api, &mut self.rng).await;
            }
            self.place(&mut scheduler).await;
        }
        self.plane.command("kill kube-scheduler");
        // The next scheduler would try them at once.
        for name in &self.pods {
            let path = path("Pod", NAMESPACE, name);
            let pod = self.api.get(&path).await;
            if pod.is_some_and(|pod| pod["spec"]["nodeName"].is_null()) {
                self.api.delete(&path, 0).await;
            }
        }
    }

    /// Asks about a pod, has it scheduled, and compares.
    async fn place(&mut self, scheduler: &mut Scheduler) {
        self.known_to_all(scheduler).await;
        let name = format!("pod-{:03}", self.pods.len());
        let object = pod(&mut self.rng, &name);
        let incoming = read(self.api.admitted(&object).await);
        let filter = self.evenkeel.filter(&incoming).await.expect("an answer");
        let score = self.evenkeel.score(&incoming).await.expect("an answer");
        let from = scheduler.position();
        self.api.create(&object).await;
        let decision = scheduler
            .decides(from, &format!("{NAMESPACE}/{name}"))
            .await;
        self.findings.compare(&object, &decision, &filter, &score);
        if decision.feasible.is_empty() && self.given_up(&name).await {
            self.findings.nominated += 1;
        }
        self.pods.push(name);
    }

    /// Waits until both know all that has happened.
    async fn known_to_all(&mut self, scheduler: &mut Scheduler) {
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
        marked(self.evenkeel, self.mark).await;
    }

    /// Waits until the scheduler has said in a pod's status that it does not fit;
    /// whether it was nominated to a node.
    async fn given_up(&self, name: &str) -> bool {
        let path = path("Pod", NAMESPACE, name);
        let start = Instant::now();
        loop {
            let pod = self.api.get(&path).await.expect("it was created");
            let status = &pod["status"];
            if status["conditions"]
                .as_array()
                .is_some_and(|all| !all.is_empty())
            {
                return !status["nominatedNodeName"].is_null();
            }
            assert!(start.elapsed() < DEADLINE, "{name} has no condition");
        }
    }
}

/// Waits until the server knows a mark on a node and on a pod.
async fn marked(evenkeel: &Evenkeel, mark: u64) {
    let mark = mark.to_string();
    let question = read(json!({
        "metadata": { "namespace": MARKER, "name": "question" },
        "spec": { "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": MARK, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": { "matchLabels": { MARK: mark } },
        }]},
    }));
    let start = Instant::now();
    loop {
        let answer = evenkeel.filter(&question).await;
        let reports = answer.map(|answer| answer.constraints).unwrap_or_default();
        let mut domains = reports.iter().flat_map(|report| &report.domains);
        if domains.any(|domain| domain.value == mark && domain.matching_pods == 1) {
            return;
        }
        assert!(
            start.elapsed() < DEADLINE,
            "the server does not learn of changes"
        );
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

fn read(pod: Value) -> Pod {
    serde_json::from_value(pod).expect("a pod")
}

impl Findings {
    fn compare(
        &mut self,
        pod: &Value,
        decision: &Decision,
        filter: &FilterResponse,
        score: &ScoreResponse,
    ) {
        let feasible: BTreeSet<String> = filter.feasible.iter().cloned().collect();
        if feasible != decision.feasible {
            let wanted = &decision.feasible;
            let more: Vec<_> = feasible.difference(wanted).collect();
            let less: Vec<_> = wanted.difference(&feasible).collect();
            self.wrong_sets
                .push(format!("{more:?} too many, {less:?} missing, of {pod}"));
        }
        if decision.feasible.is_empty() {
            self.pending += 1;
            let reasons: BTreeMap<String, i64> = filter
                .reasons
                .iter()
                .map(|reason| (reason.reason.clone(), reason.count))
                .collect();
            if reasons != decision.reasons {
                self.wrong_reasons
                    .push(format!("{reasons:?}, not {:?}, of {pod}", decision.reasons));
            }
            return;
        }
        self.bound += 1;
        let Some(wanted) = &decision.scores else {
            return;
        };
        self.scored += usize::from(!wanted.is_empty());
        let scores: BTreeMap<String, i64> = match score.skipped {
            true => BTreeMap::new(),
            false => score
                .scores
                .iter()
                .map(|score| (score.node.clone(), score.score))
                .collect(),
        };
        if scores != *wanted {
            self.wrong_scores
                .push(format!("{scores:?}, not {wanted:?}, of {pod}"));
        }
    }
}

/// The cluster before the first pod.
async fn make(api: &Api, rng: &mut Rng) {
    api.clear().await;
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": MARKER } });
    for object in priority_classes().chain([namespace]) {
        let name = object["metadata"]["name"].as_str().expect("a name");
        let kind = object["kind"].as_str().expect("a kind");
        if api.get(&path(kind, "", name)).await.is_none() {
            api.create(&object).await;
        }
    }
    for index in 0..NODES {
        api.create(&node(rng, index)).await;
    }
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

/// Shadows the scheduler for these many pods, in rounds. With `lose_one_in`, a
/// proxy loses events on the way to the server.
async fn shadow(
    plane: &mut ControlPlane,
    seed: u64,
    rounds: &[Round],
    lose_one_in: Option<usize>,
) -> Findings {
    println!("seed {seed}");
    let api = Api::connect(&plane.kubeconfig()).await;
    let mut rng = Rng::with_seed(seed);
    make(&api, &mut rng).await;
    let mut findings = Findings::default();
    let mut pods = Vec::new();
    for (number, round) in rounds.iter().enumerate() {
        let proxy = Proxy::start(api.client(), seed).await;
        proxy.faults().lose_one_in = lose_one_in;
        let kubeconfig = match lose_one_in {
            Some(_) => plane.kubeconfig_for(&proxy.url(), &json!({})),
            None => plane.kubeconfig(),
        };
        let config = Scheduler::configure(plane, round.defaults);
        let config = config.to_str().expect("it is text");
        let evenkeel = Evenkeel::start(&kubeconfig, &["--kubernetes-scheduler-config", config]);
        let mut run = Shadow {
            plane,
            api: &api,
            evenkeel: &evenkeel,
            rng: rng.fork(),
            mark: (number * 1_000_000) as u64,
            pods,
            findings,
        };
        run.round(round).await;
        (pods, findings) = (run.pods, run.findings);
        println!("{}, {} events lost", findings.summary(), proxy.lost());
        if lose_one_in.is_none() {
            evenkeel.agrees_with(&api).await;
        }
    }
    api.clear().await;
    findings
}

impl Findings {
    #[track_caller]
    fn agree(&self) {
        let wrong = [&self.wrong_sets, &self.wrong_scores, &self.wrong_reasons];
        for (what, wrong) in ["set", "scores", "reasons"].iter().zip(wrong) {
            for one in wrong.iter().take(5) {
                println!("wrong {what}: {one}");
            }
        }
        assert!(
            wrong.iter().all(|wrong| wrong.is_empty()),
            "{}",
            self.summary()
        );
    }

    fn summary(&self) -> String {
        format!(
            "{} bound, {} of them scored, {} pending, {} nominated; wrong: {} sets, {} scores, {} reasons",
            self.bound,
            self.scored,
            self.pending,
            self.nominated,
            self.wrong_sets.len(),
            self.wrong_scores.len(),
            self.wrong_reasons.len()
        )
    }
}

/// The seed of a run: `SEED`, else another one each time.
fn seed() -> u64 {
    let given = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| fastrand::u64(..))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_set_and_every_score_is_kube_schedulers() {
    let Some(mut plane) = turn().await else {
        return;
    };
    let rounds = [
        Round::of(Defaults::System, 100),
        Round::of(Defaults::Listed, 100),
        Round {
            nominated: 6,
            ..Round::of(Defaults::System, 100)
        },
    ];
    let findings = shadow(&mut plane, seed(), &rounds, None).await;
    findings.agree();
    // It was no idle comparison.
    assert!(findings.scored > 30, "{}", findings.summary());
    assert!(findings.nominated >= 6, "{}", findings.summary());
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_events_are_found_out() {
    let Some(mut plane) = turn().await else {
        return;
    };
    let findings = shadow(
        &mut plane,
        seed(),
        &[Round::of(Defaults::System, 100)],
        Some(6),
    )
    .await;
    assert!(!findings.wrong_sets.is_empty(), "{}", findings.summary());
    assert!(!findings.wrong_scores.is_empty(), "{}", findings.summary());
}
