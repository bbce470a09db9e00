//! Plans in a real cluster, where kwok does what kubelets do: `rebalance --apply` brings pods back to a
//! zone that returns, within their budget.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::kubernetes::api::{Api, path};
use crate::kubernetes::control_plane::{ControlPlane, turn};
use crate::kubernetes::objects::{NAMESPACE, ZONE, status, topology};
use crate::kubernetes::process;
use crate::kubernetes::scheduler::{Defaults, Scheduler};

/// The longest time that a rollout or a run of the command may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);

pub(super) const ZONES: [&str; 3] = ["a", "b", "c"];

pub(super) fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    pod["metadata"]["deletionTimestamp"].is_null()
        && conditions.any(|it| it["type"] == "Ready" && it["status"] == "True")
}

pub(super) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn is_web(pod: &Value) -> bool {
    pod["metadata"]["labels"]["app"] == "web"
}

/// Watches how many pods of the app `web` are ready.
struct ReadyPods {
    looking: JoinHandle<()>,
    /// The fewest ready pods since this field was last set.
    fewest: Arc<AtomicUsize>,
}

impl Drop for ReadyPods {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

impl ReadyPods {
    fn look_on(api: Arc<Api>) -> Self {
        let fewest = Arc::new(AtomicUsize::new(usize::MAX));
        let noted = Arc::clone(&fewest);
        let looking = tokio::spawn(async move {
            loop {
                let pods = api.list("Pod").await;
                let ready = pods.iter().filter(|pod| is_web(pod) && is_ready(pod));
                noted.fetch_min(ready.count(), Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        Self { looking, fewest }
    }
}

/// Adds `in_each` nodes to each of these zones.
pub(super) async fn add_nodes(api: &Api, zones: &[&str], in_each: usize) {
    for zone in zones {
        for number in 0..in_each {
            let name = format!("{zone}{number}");
            let node = json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": { "name": name, "labels": topology(&name, zone, None) },
                "status": status(8000),
            });
            api.create(&node).await;
        }
    }
}

/// A workload of pods that are spread over zones.
pub(super) fn workload(kind: &str, name: &str, replicas: usize) -> Value {
    let labels = json!({ "app": name });
    json!({
        "apiVersion": "apps/v1", "kind": kind,
        "metadata": { "namespace": NAMESPACE, "name": name },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "containers": [{ "name": "main", "image": "none" }],
                    "topologySpreadConstraints": [{
                        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": { "matchLabels": labels },
                    }],
                },
            },
        },
    })
}

/// Starts the controllers, the scheduler and kwok on an empty cluster.
pub(super) async fn start(plane: &mut ControlPlane, api: &Api) -> Scheduler {
    api.clear().await;
    let more = "replicaset-controller,deployment-controller,disruption-controller";
    plane.command(&format!(
        "start kube-controller-manager --controllers={more}"
    ));
    plane.command("start kwok");
    Scheduler::start(plane, Defaults::System)
}

pub(super) async fn end(plane: &mut ControlPlane, api: &Api) {
    for kind in ["Deployment", "ReplicaSet"] {
        for object in api.list(kind).await {
            api.delete(&path(kind, NAMESPACE, name(&object)), 0).await;
        }
    }
    plane.command("stop kube-controller-manager");
    plane.command("stop kwok");
    api.clear().await;
}

/// Waits until there are `pods` pods of the app `web`, all ready and accepted. Returns their number
/// in each zone, also in empty ones.
async fn settled(
    api: &Api,
    pods: usize,
    accepts: impl Fn(&Value) -> bool,
) -> BTreeMap<String, usize> {
    let began = Instant::now();
    loop {
        let all = api.list("Pod").await;
        let web: Vec<&Value> = all.iter().filter(|pod| is_web(pod)).collect();
        if web.len() == pods && web.iter().all(|pod| is_ready(pod) && accepts(pod)) {
            let mut counts = ZONES.map(|zone| (zone.to_owned(), 0)).into();
            for pod in web {
                let node = pod["spec"]["nodeName"].as_str().expect("it is on a node");
                *BTreeMap::entry(&mut counts, node[..1].to_owned()).or_default() += 1;
            }
            return counts;
        }
        assert!(began.elapsed() < PATIENCE, "{pods} pods: {all:#?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn skew(counts: &BTreeMap<String, usize>) -> usize {
    counts.values().max().expect("zones") - counts.values().min().expect("zones")
}

/// A run of `rebalance --apply`.
fn rebalance(plane: &ControlPlane) -> Child {
    let kubeconfig = plane.kubeconfig().display().to_string();
    let mut command: Command = process::command(&[
        "rebalance",
        "deploy/web",
        "-n",
        NAMESPACE,
        "--kubeconfig",
        &kubeconfig,
        "--apply",
        "--yes",
    ]);
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn().expect("the binary starts")
}

/// Waits for the end of a run. Returns how many pods it moved, and why it ended.
async fn report(run: Child) -> (usize, String) {
    let output = tokio::task::spawn_blocking(|| run.wait_with_output()).await;
    let output = output.expect("it does not panic").expect("it ends");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let moves = report["moves"].as_array().map_or(0, Vec::len);
    (
        moves,
        report["ended"].as_str().unwrap_or_default().to_owned(),
    )
}

/// Deletes the nodes of zone c, and their pods.
async fn outage(api: &Api) {
    for number in 0..2 {
        api.delete(&path("Node", "", &format!("c{number}")), 0)
            .await;
    }
    for pod in api.list("Pod").await {
        if pod["spec"]["nodeName"]
            .as_str()
            .is_some_and(|it| it.starts_with('c'))
        {
            api.delete(&path("Pod", NAMESPACE, name(&pod)), 0).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: deploy/tools.sh install_control_plane"]
async fn pods_move_back_to_a_zone_that_returns() {
    let mut plane = turn().await;
    let api = Arc::new(Api::connect(&plane.kubeconfig()).await);
    let _scheduler = start(&mut plane, &api).await;
    let ready = ReadyPods::look_on(Arc::clone(&api));
    add_nodes(&api, &ZONES, 2).await;
    api.create(&workload("Deployment", "web", 9)).await;
    api.create(&workload("Deployment", "other", 3)).await;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "namespace": NAMESPACE, "name": "web" },
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "app": "web" } } },
    });
    api.create(&budget).await;
    for is_killed in [false, true] {
        assert_eq!(skew(&settled(&api, 9, |_| true).await), 0);
        outage(&api).await;
        let uneven = settled(&api, 9, |_| true).await;
        assert_eq!(uneven["c"], 0, "{uneven:?}");
        add_nodes(&api, &["c"], 2).await;
        ready.fewest.store(usize::MAX, Ordering::Relaxed);
        // Another Deployment is rolled out all the while.
        let rolled = Arc::clone(&api);
        let rolling = tokio::spawn(async move {
            for turn in 0_u64.. {
                let annotation = json!({ "turn": turn.to_string() });
                let template = json!({ "template": { "metadata": { "annotations": annotation } } });
                let other = path("Deployment", NAMESPACE, "other");
                rolled.patch(&other, &json!({ "spec": template })).await;
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        });
        let mut run = rebalance(&plane);
        let mut moved_before = 0;
        if is_killed {
            let began = Instant::now();
            // The run is killed in the middle of the second move.
            while ready_in(&api, "c").await < 1 {
                assert!(began.elapsed() < PATIENCE, "no pod moves");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            run.kill().expect("it runs");
            run.wait().expect("it ends");
            settled(&api, 9, |_| true).await;
            moved_before = ready_in(&api, "c").await;
            run = rebalance(&plane);
        }
        let (moves, ended) = report(run).await;
        assert_eq!((moves + moved_before, &*ended), (3, "even"));
        assert_eq!(skew(&settled(&api, 9, |_| true).await), 0);
        let fewest = ready.fewest.load(Ordering::Relaxed);
        assert!(
            fewest >= 8,
            "{fewest} of 9 pods were ready, of which 8 have to be"
        );
        let again = report(rebalance(&plane)).await;
        assert_eq!(again, (0, "even".to_owned()));
        rolling.abort();
        println!("3 pods moved, killed: {is_killed}; never fewer than {fewest} of 9 ready");
    }
    drop(ready);
    end(&mut plane, &api).await;
}

/// Returns the number of pods of the app `web` that are ready on nodes of a zone.
async fn ready_in(api: &Api, zone: &str) -> usize {
    let pods = api.list("Pod").await;
    let is_in = |pod: &&Value| {
        let node = pod["spec"]["nodeName"].as_str();
        is_web(pod) && is_ready(pod) && node.is_some_and(|node| node.starts_with(zone))
    };
    pods.iter().filter(is_in).count()
}
