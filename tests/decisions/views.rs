//! What a snapshot keeps up to date is what a recount says, whatever happens
//! to nodes, pods and views in whatever order: counts kept warm, built anew,
//! evicted, refused for want of room, carried along by moving nodes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::agree::{self, Question};
use crate::support::build::{HOSTNAME, ZONE, hard, node, on, pod, soft, spread};
use crate::support::model::{Stored, changes, delete};
use crate::support::server::Server;
use crate::support::{generate, model};
use evenkeel::proto::v1::{
    Change, FilterRequest, Mode, Node, NodeChecks, Pod, ScoreRequest, UpdateSnapshotRequest, View,
};
use evenkeel::recount::Cluster;
use evenkeel::snapshot::Limits;
use evenkeel::verify::verify;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::subsequence;
use tokio::runtime::Runtime;

/// More than the 64 domains from which on a view orders its counts.
const NODES: usize = 72;
const PODS: usize = 90;
const NAMESPACES: [&str; 3] = ["default", "other", "third"];

/// Room for views: none, a few at a time, all.
const VIEW_BYTES: [usize; 3] = [0, 2_000, 256 << 20];

/// One event, after which some of the questions are asked.
#[derive(Debug, Clone)]
struct Step {
    event: Event,
    asked: Vec<usize>,
}

#[derive(Debug, Clone)]
enum Event {
    /// Pods come, change and go, on nodes that may not exist.
    Pods(Vec<Change>),
    /// A few nodes come, change and go: views follow them.
    Nodes(Vec<Change>),
    /// So many nodes change that views are counted anew.
    Upheaval(Vec<Change>),
    /// As many pods with a label set each come or go at once.
    Burst { namespace: usize, add: bool },
    /// A namespace loses all of its pods and owners.
    Emptied(usize),
    /// A new state that holds every nth object of the old one.
    Replaced(usize),
    /// Views go that were not used for so many sweeps.
    Swept(u64),
    /// A question about what is not so.
    Imagined(Vec<Change>),
}

/// The number of a node; half of them fall on a few, so that what changes has
/// pods and pods are on what changes.
fn node_number() -> impl Strategy<Value = usize> {
    prop_oneof![0..8_usize, 0..NODES + 4]
}

fn node_change() -> impl Strategy<Value = (usize, Option<Node>)> {
    let number = node_number().prop_map(|number| number % NODES);
    (number, prop::option::weighted(0.8, generate::node()))
}

/// Changes of nodes, at most one each.
fn nodes(count: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<Change>> {
    vec(node_change(), count).prop_map(|mut all| {
        all.sort_by_key(|(index, _)| *index);
        all.dedup_by_key(|(index, _)| *index);
        all.into_iter()
            .map(|(index, node)| node_at(index, node))
            .collect()
    })
}

fn node_at(index: usize, node: Option<Node>) -> Change {
    let name = format!("n{index}");
    let Some(mut node) = node else {
        return delete("Node", "", &name);
    };
    let metadata = node.metadata.get_or_insert_default();
    if let Some(hostname) = metadata.labels.get_mut(HOSTNAME)
        && hostname != "shared"
    {
        hostname.clone_from(&name);
    }
    metadata.name = name;
    node.change()
}

/// All nodes anew, or all but some of them gone.
fn upheaval() -> impl Strategy<Value = Vec<Change>> {
    let each = vec(prop::option::weighted(0.85, generate::node()), NODES);
    each.prop_map(|all| {
        all.into_iter()
            .enumerate()
            .map(|(i, n)| node_at(i, n))
            .collect()
    })
}

fn pod_change() -> impl Strategy<Value = (usize, usize, usize, Option<Pod>)> {
    let pod = prop::option::weighted(0.75, generate::pod());
    (0..NAMESPACES.len(), 0..PODS, node_number(), pod)
}

fn pods(count: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<Change>> {
    vec(pod_change(), count).prop_map(|mut all| {
        all.sort_by_key(|(namespace, index, ..)| (*namespace, *index));
        all.dedup_by_key(|(namespace, index, ..)| (*namespace, *index));
        let change = |(namespace, index, node, pod)| pod_at(namespace, index, node, pod);
        all.into_iter().map(change).collect()
    })
}

fn pod_at(namespace: usize, index: usize, node: usize, pod: Option<Pod>) -> Change {
    let (namespace, name) = (NAMESPACES[namespace], format!("p{index}"));
    let Some(mut pod) = pod else {
        return delete("Pod", namespace, &name);
    };
    let metadata = pod.metadata.get_or_insert_default();
    metadata.name = name;
    metadata.namespace = namespace.to_owned();
    if index.is_multiple_of(3) {
        // A label set of its own, as a stateful set's pods have.
        metadata.labels.insert("hash".into(), format!("h{index}"));
    }
    let spec = pod.spec.get_or_insert_default();
    if !spec.node_name.is_empty() {
        spec.node_name = format!("n{node}");
    }
    pod.change()
}

fn event() -> impl Strategy<Value = Event> {
    let imagined = (pods(0..6), nodes(0..8)).prop_map(|(mut pods, nodes)| {
        pods.extend(nodes);
        pods
    });
    let namespace = 0..NAMESPACES.len();
    prop_oneof![
        6 => pods(1..20).prop_map(Event::Pods),
        5 => nodes(1..12).prop_map(Event::Nodes),
        2 => upheaval().prop_map(Event::Upheaval),
        2 => (namespace.clone(), any::<bool>())
            .prop_map(|(namespace, add)| Event::Burst { namespace, add }),
        2 => namespace.prop_map(Event::Emptied),
        1 => (1..4_usize).prop_map(Event::Replaced),
        2 => (0..3_u64).prop_map(Event::Swept),
        4 => imagined.prop_map(Event::Imagined),
    ]
}

/// A history, with the few questions that are asked again and again in it.
fn history() -> impl Strategy<Value = (Vec<Pod>, Vec<Step>)> {
    const QUESTIONS: usize = 7;
    let asked = subsequence((0..QUESTIONS).collect::<Vec<_>>(), 1..=4);
    let step = (event(), asked).prop_map(|(event, asked)| Step { event, asked });
    let all = || (0..QUESTIONS).collect::<Vec<_>>();
    let first = (upheaval(), pods(60..PODS)).prop_map(move |(mut nodes, pods)| {
        nodes.extend(pods);
        Step {
            event: Event::Upheaval(nodes),
            asked: all(),
        }
    });
    let questions = vec(generate::incoming::pod(), QUESTIONS);
    (questions, first, vec(step, 4..12)).prop_map(|(questions, first, rest)| {
        let mut steps = vec![first];
        steps.extend(rest);
        (questions, steps)
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 16,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_kept_is_what_a_recount_says((questions, steps) in history()) {
        let (runtime, servers) = shared();
        for server in servers {
            runtime.block_on(live_through(server, &questions, &steps));
        }
    }
}

/// Constraints with one selector over different nodes, whether partitions are kept or
/// not, and whether a decision is made at once or aside.
#[test]
fn constraints_that_share_a_selector_are_counted_apart() {
    let at = |(name, zone, rack)| node(name, &[(ZONE, zone), ("rack", rack)]).change();
    let nodes = [("n0", "za", "ra"), ("n1", "zb", "ra"), ("n2", "zb", "rb")].map(at);
    let app = [("app", "a")];
    let pods = ["n0", "n0", "n1"].into_iter().enumerate();
    let pods = pods.map(|(i, node)| on(pod(&format!("p{i}"), &app), node).change());
    let keys = ["rack", ZONE, HOSTNAME];
    let constraints = keys.map(|key| [hard(1, key, &app), soft(1, key, &app)]);
    let question = spread(pod("", &app), constraints.into_iter().flatten().collect());
    let overlay = on(pod("imagined", &app), "n2").change();
    let (runtime, servers) = shared();
    for server in servers {
        let mut history = History::new(server);
        runtime.block_on(async {
            let changes = nodes.iter().cloned().chain(pods.clone()).collect();
            history.update(changes, Mode::Unspecified).await;
            history.ask(&question, &[], "as it is").await;
            history
                .ask(&question, std::slice::from_ref(&overlay), "as imagined")
                .await;
            history.end().await;
        });
    }
}

/// A server for each amount of room.
fn shared() -> &'static (Runtime, Vec<Server>) {
    static SHARED: OnceLock<(Runtime, Vec<Server>)> = OnceLock::new();
    SHARED.get_or_init(|| {
        let runtime = Runtime::new().expect("a runtime");
        let servers = VIEW_BYTES.map(|max_view_bytes| {
            runtime.block_on(Server::with_limits(Limits {
                max_view_bytes,
                ..Limits::default()
            }))
        });
        (runtime, servers.into())
    })
}

/// The snapshot of one history.
struct History<'a> {
    server: &'a Server,
    snapshot: String,
    cluster: Cluster,
}

async fn live_through(server: &Server, questions: &[Pod], steps: &[Step]) {
    let mut history = History::new(server);
    for (index, step) in steps.iter().enumerate() {
        let place = format!("step {index}");
        let overlay = history.happen(&step.event).await;
        for asked in &step.asked {
            history.ask(&questions[*asked], &overlay, &place).await;
        }
        history.verify(&place);
    }
    history.end().await;
}

impl<'a> History<'a> {
    fn new(server: &'a Server) -> Self {
        static HISTORIES: AtomicUsize = AtomicUsize::new(0);
        let number = HISTORIES.fetch_add(1, Ordering::Relaxed);
        Self {
            server,
            snapshot: format!("history-{number}"),
            cluster: Cluster::default(),
        }
    }

    /// Lets an event happen; what the questions after it are to imagine.
    async fn happen(&mut self, event: &Event) -> Vec<Change> {
        match event {
            Event::Pods(changes) | Event::Nodes(changes) | Event::Upheaval(changes) => {
                self.update(changes.clone(), Mode::Unspecified).await;
            }
            Event::Burst { namespace, add } => {
                let changes = burst(NAMESPACES[*namespace], *add);
                self.update(changes, Mode::Unspecified).await;
            }
            Event::Emptied(namespace) => {
                let changes = self.all_of(NAMESPACES[*namespace]);
                self.update(changes, Mode::Unspecified).await;
            }
            Event::Replaced(nth) => {
                let kept = changes(&self.cluster).into_iter().step_by(*nth).collect();
                self.update(kept, Mode::Replace).await;
            }
            Event::Swept(idle_ticks) => self.server.registry.sweep(*idle_ticks),
            Event::Imagined(changes) => return changes.clone(),
        }
        Vec::new()
    }

    async fn update(&mut self, changes: Vec<Change>, mode: Mode) {
        if mode == Mode::Replace {
            self.cluster = Cluster::default();
        }
        for change in &changes {
            model::apply(&mut self.cluster, change);
        }
        self.server
            .send(UpdateSnapshotRequest {
                snapshot: self.snapshot.clone(),
                changes,
                mode: mode as i32,
                ..Default::default()
            })
            .await;
    }

    fn all_of(&self, namespace: &str) -> Vec<Change> {
        let pods = self.cluster.pods.iter().map(Stored::key);
        let here = pods.filter(|(theirs, _)| theirs == namespace);
        here.map(|(_, name)| delete("Pod", namespace, &name))
            .collect()
    }

    /// Filter and Score answer as the recount does.
    async fn ask(&self, pod: &Pod, overlay: &[Change], place: &str) {
        let mut seen = self.cluster.clone();
        overlay.iter().for_each(|c| model::apply(&mut seen, c));
        let place = format!("{place} of {}", self.snapshot);
        let about = Question {
            cluster: &seen,
            pod,
            place: &place,
        };
        let checks = NodeChecks::SpreadOnly;
        let got = self.server.filter(FilterRequest {
            snapshot: self.snapshot.clone(),
            pod: Some(pod.clone()),
            node_checks: checks as i32,
            view: View::Full as i32,
            overlay: overlay.to_vec(),
            max_domains: Some(0),
            ..FilterRequest::default()
        });
        agree::filter(&got.await, &seen.filter(pod, None, checks), &about);
        self.ask_for_counts(&about, overlay).await;
        let got = self.server.score(ScoreRequest {
            snapshot: self.snapshot.clone(),
            pod: Some(pod.clone()),
            view: View::Full as i32,
            overlay: overlay.to_vec(),
            max_domains: Some(0),
            ..ScoreRequest::default()
        });
        let want = seen.score(pod, None, NodeChecks::Unspecified);
        agree::score(&got.await, &want, &about);
    }

    /// Counts without names go another way: domain by domain.
    async fn ask_for_counts(&self, about: &Question<'_>, overlay: &[Change]) {
        let want = about
            .cluster
            .filter(about.pod, None, NodeChecks::Unspecified);
        let want = agree::filter_response(&want);
        let got = self.server.filter(FilterRequest {
            snapshot: self.snapshot.clone(),
            pod: Some(about.pod.clone()),
            view: View::Domains as i32,
            overlay: overlay.to_vec(),
            ..FilterRequest::default()
        });
        let got = got.await;
        assert_eq!(got.reasons, want.reasons, "{about}");
        assert_eq!(got.feasible_count, want.feasible_count, "{about}");
    }

    /// Nothing that is kept has drifted.
    fn verify(&self, place: &str) {
        let snapshot = self.server.registry.get(&self.snapshot);
        let Ok(snapshot) = snapshot else { return };
        let (frozen, kept) = snapshot.freeze_kept();
        let report = verify(&frozen, &kept, &|| false).expect("it is not cancelled");
        assert_eq!(
            report.findings.described,
            [],
            "{place} of {}",
            self.snapshot
        );
    }

    /// Once all views are gone, none is on the books any more.
    async fn end(self) {
        let snapshot = self.server.registry.get(&self.snapshot);
        let snapshot = snapshot.expect("every history begins with an update");
        self.server.registry.sweep(0);
        assert_eq!(snapshot.summary().memory.views, 0, "{}", self.snapshot);
        self.server
            .registry
            .delete(&self.snapshot, "")
            .expect("it exists");
    }
}

/// Pods of a job: a label set each, under one that they share.
fn burst(namespace: &str, add: bool) -> Vec<Change> {
    let of_job = |index: usize| {
        let name = format!("job-{index}");
        if !add {
            return delete("Pod", namespace, &name);
        }
        let labels = [("app", "a"), ("hash", &*name)];
        let mut pod = on(pod(&name, &labels), &format!("n{}", index % NODES));
        pod.metadata.get_or_insert_default().namespace = namespace.to_owned();
        pod.change()
    };
    (0..40).map(of_job).collect()
}
