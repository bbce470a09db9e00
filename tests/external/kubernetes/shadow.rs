//! The server under test as kube-scheduler's shadow: before kube-scheduler places a pod or fails
//! to, the server is asked about the pod at the same state of the cluster.
//!
//! Some pods are made by the controllers of DaemonSets, StatefulSets and Jobs. They wait for a
//! gate, which is opened once the server was asked about them. `SHADOW_PODS=3000` places 3,000
//! pods.
//!
//! The states are the same because the test takes turns: it makes changes, waits until both sides
//! know a marker that it changed last, asks the question, and only then creates the pod.

use std::time::{Duration, Instant};

use evenkeel::proto::v1::Pod;
use fastrand::Rng;
use serde_json::{Value, json};

use crate::kubernetes::api::{Api, path};
use crate::kubernetes::changes;
use crate::kubernetes::control_plane::{ControlPlane, turn};
use crate::kubernetes::evenkeel::Evenkeel;
use crate::kubernetes::findings::Findings;
use crate::kubernetes::marks::{self, MARKER};
use crate::kubernetes::objects::{NAMESPACE, NODES, node, pod, priority_classes, workload};
use crate::kubernetes::process::{DEADLINE, eventually};
use crate::kubernetes::scheduler::{Defaults, Scheduler};
use crate::kubernetes::storage;

/// Above this number of pods, one is ended for each that is placed.
const LIVE_PODS: usize = 200;

/// The number of pods of a workload that are placed.
const MADE_AT_ONCE: usize = 3;

/// The longest time that the controller of DaemonSets may take to make pods, if it makes any.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest time that the API server may take for a request that a controller sent before it was
/// paused.
const IN_FLIGHT: Duration = Duration::from_millis(200);

/// The pods to place under one configuration of the scheduler.
struct Round {
    defaults: Defaults,
    pods: usize,
    /// The round goes on, for four times as many pods at most, until this many pods of all rounds
    /// were nominated. Chance decides how many are.
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

pub(crate) struct Shadow<'a> {
    pub(crate) plane: &'a mut ControlPlane,
    pub(crate) api: &'a Api,
    pub(crate) evenkeel: &'a Evenkeel,
    pub(crate) rng: Rng,
    pub(crate) mark: u64,
    pub(crate) pods: Vec<String>,
    /// Pods that controllers have made and that nobody has scheduled yet.
    held: Vec<String>,
    pub(crate) findings: Findings,
    /// True if storage has changed since both sides knew all of it.
    pub(crate) storage_changed: bool,
}

impl Shadow<'_> {
    /// Places pods under one configuration of the scheduler.
    async fn round(&mut self, round: &Round) {
        for _ in 0..4 {
            changes::to_an_owner(self.api, &mut self.rng).await;
        }
        self.plane.command("kill kube-controller-manager");
        self.plane.command("start kube-controller-manager");
        self.pause_controllers().await;
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
            if self.pods.len() > LIVE_PODS {
                self.end_an_old_pod().await;
            }
            if self.rng.usize(..3) == 0 {
                storage::change(self.api, &mut self.rng).await;
                self.storage_changed = true;
            }
            if self.held.is_empty() && self.rng.usize(..10) == 0 {
                self.held = self.made_by_a_controller().await;
            }
            self.place(&mut scheduler).await;
        }
        self.explains_what_waits(round.defaults).await;
        self.plane.command("kill kube-scheduler");
        self.plane.command("kill kube-controller-manager");
        // The next scheduler would try waiting pods at once.
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
        self.ends_nominations().await;
        self.known_to_all(scheduler).await;
        let held = self.held.pop();
        let name = held.clone();
        let name = name.unwrap_or_else(|| format!("pod-{:03}", self.pods.len()));
        let path = path("Pod", NAMESPACE, &name);
        let object = match &held {
            // The pod is as its controller made it.
            Some(_) => match self.api.get(&path).await {
                Some(made) => made,
                None => return,
            },
            None => pod(&mut self.rng, &name),
        };
        let incoming = match &held {
            Some(_) => {
                let mut incoming = read(object.clone());
                let spec = incoming.spec.get_or_insert_default();
                spec.scheduling_gates.clear();
                incoming
            }
            None => read(self.api.admitted(&object).await),
        };
        let from = scheduler.position();
        let filter = self.evenkeel.filter(&incoming).await.expect("an answer");
        let score = self.evenkeel.score(&incoming).await.expect("an answer");
        match held {
            Some(_) => {
                let open = json!({ "spec": { "schedulingGates": null } });
                self.api.patch(&path, &open).await.expect("it exists");
                self.findings.made += 1;
            }
            None => drop(self.api.create(&object).await),
        }
        let decision = scheduler
            .decides(from, &format!("{NAMESPACE}/{name}"))
            .await;
        if decision.is_void {
            self.api.delete(&path, 0).await;
            self.storage_changed = true;
            return;
        }
        self.findings.compare(&object, &decision, &filter, &score);
        // The claims of the pod may have been bound.
        self.storage_changed |= object["spec"]["volumes"].is_array();
        if decision.feasible.is_empty() && self.given_up(&name).await {
            self.findings.nominated += 1;
        }
        self.pods.push(name);
    }

    /// Releases nominated pods that terminate, because the scheduler counts them until it skips
    /// them, at a time of its own.
    pub(crate) async fn ends_nominations(&self) {
        let nominated = "status.nominatedNodeName!=,spec.nodeName=";
        for pod in self.api.list_where("Pod", nominated).await {
            if !pod["metadata"]["deletionTimestamp"].is_null() {
                self.api.release("Pod", &pod).await;
            }
        }
    }

    /// Ends one of the pods that were placed last, so that others find a node.
    async fn end_an_old_pod(&mut self) {
        let recent = self.pods.len().saturating_sub(2 * LIVE_PODS);
        let name = self
            .rng
            .choice(&self.pods[recent..])
            .expect("there are pods");
        self.api.delete(&path("Pod", NAMESPACE, name), 0).await;
    }

    /// Keeps controllers from changing anything between a question and the scheduler's decision: at
    /// times of their own they end pods of nodes that were tainted or are gone, and release deleted
    /// pods of Jobs.
    async fn pause_controllers(&mut self) {
        self.plane.command("pause kube-controller-manager");
        tokio::time::sleep(IN_FLIGHT).await;
    }

    /// Has a controller make pods, which wait for a gate. Returns the first of them.
    async fn made_by_a_controller(&mut self) -> Vec<String> {
        self.plane.command("resume kube-controller-manager");
        let made = self.made_by_a_running_controller().await;
        self.pause_controllers().await;
        made
    }

    async fn made_by_a_running_controller(&mut self) -> Vec<String> {
        let workload = workload(&mut self.rng, &format!("made-{}", self.mark));
        let name = workload["metadata"]["name"].clone();
        self.api.create(&workload).await;
        let start = Instant::now();
        loop {
            let pods = self.api.list("Pod").await.into_iter();
            let own = pods.filter(|pod| pod["metadata"]["labels"]["workload"] == name);
            let names = own.filter_map(|pod| Some(pod["metadata"]["name"].as_str()?.to_owned()));
            let mut names: Vec<String> = names.collect();
            if names.len() >= MADE_AT_ONCE {
                names.truncate(MADE_AT_ONCE);
                return names;
            }
            // A DaemonSet makes no pods where they can go nowhere.
            if start.elapsed() > PATIENCE && workload["kind"] == "DaemonSet" {
                return names;
            }
            assert!(start.elapsed() < DEADLINE, "nothing is made of {workload}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the scheduler has said in a pod's status that the pod does not fit. Returns
    /// whether it was nominated to a node.
    async fn given_up(&self, name: &str) -> bool {
        let path = path("Pod", NAMESPACE, name);
        let what = format!("{name} has a condition");
        eventually(&what, async || {
            let pod = self.api.get(&path).await.expect("it was created");
            let status = &pod["status"];
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            // Before that, the status of a controller's pod says that it waits for its gate.
            let has_failed = conditions.any(|it| it["reason"] == "Unschedulable");
            has_failed.then(|| !status["nominatedNodeName"].is_null())
        })
        .await
    }
}

pub(crate) fn read(pod: Value) -> Pod {
    serde_json::from_value(pod).expect("a pod")
}

/// Makes the cluster as it is before the first pod.
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
    for class in storage::classes() {
        api.create(&class).await;
    }
    marks::make(api).await;
}

/// Shadows the scheduler in rounds.
async fn shadow(plane: &mut ControlPlane, seed: u64, rounds: &[Round]) -> Findings {
    println!("seed {seed}");
    let api = Api::connect(&plane.kubeconfig()).await;
    let mut rng = Rng::with_seed(seed);
    make(&api, &mut rng).await;
    let storage = Api::connect(&plane.kubeconfig()).await;
    let binding = tokio::spawn(async move { storage::bind(&storage).await });
    let mut findings = Findings::default();
    let mut pods = Vec::new();
    for (number, round) in rounds.iter().enumerate() {
        let kubeconfig = plane.kubeconfig();
        let config = Scheduler::configure(plane, round.defaults);
        let config = config.to_str().expect("it is text");
        let evenkeel = Evenkeel::start(&kubeconfig, &["--kubernetes-scheduler-config", config]);
        let mut run = Shadow {
            plane,
            api: &api,
            evenkeel: &evenkeel,
            rng: rng.fork(),
            mark: (number * 1_000_000) as u64,
            held: Vec::new(),
            pods,
            findings,
            storage_changed: true,
        };
        run.round(round).await;
        (pods, findings) = (run.pods, run.findings);
        println!("{}", findings.summary());
        evenkeel.agrees_with(&api).await;
    }
    binding.abort();
    api.clear().await;
    findings
}

/// The seed of a run: `SEED`, else another one each time.
fn seed() -> u64 {
    let given = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| fastrand::u64(..))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: deploy/tools.sh install_control_plane"]
async fn every_set_and_every_score_is_kube_schedulers() {
    let mut plane = turn().await;
    let pods = std::env::var("SHADOW_PODS").map_or(300, |pods| pods.parse().expect("a number"));
    let rounds = [
        Round::of(Defaults::System, pods / 3),
        Round::of(Defaults::Listed, pods / 3),
        Round {
            nominated: 6,
            ..Round::of(Defaults::System, pods - 2 * (pods / 3))
        },
    ];
    let findings = shadow(&mut plane, seed(), &rounds).await;
    findings.agree();
    // Enough pods of each sort were compared, for their number.
    let enough = |found: usize, of_300: usize| {
        assert!(found >= of_300 * pods / 300, "{}", findings.summary());
    };
    enough(findings.scored, 31);
    enough(findings.nominated, 6);
    enough(findings.made, 6);
    enough(findings.stored, 31);
    enough(findings.explained, 6);
}
