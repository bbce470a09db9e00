//! The views that a snapshot keeps up to date, compared with a recount after random changes of
//! nodes, pods and views in any order: views stay warm, are built anew, evicted, refused for want
//! of room, or updated as nodes move.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::decisions::events::{Event, NAMESPACES, Step, burst, history};
use evenkeel::account::Account;
use evenkeel::proto::v1::{
    Change, FilterRequest, Mode, NodeChecks, Pod, UpdateSnapshotRequest, View,
};
use evenkeel::snapshot::{Limits, Registry, Unobserved};
use evenkeel::verify::verify;
use proptest::prelude::*;
use support::agree::{self, Question};
use support::build::{HOSTNAME, ZONE, full_filter_of, hard, node, on, pod, score_as, soft, spread};
use support::history::cases;
use support::model::{self, Stored, changes, delete};
use support::recount::Cluster;
use support::server::Server;
use tokio::runtime::Runtime;

/// The bytes that the allocator says are in use, of 1 GiB, each time that it is asked: so many that
/// nothing is cached, so many now and then, and none.
const IN_USE: [fn(usize) -> usize; 3] = [|_| 900 << 20, |times| times % 3 * (450 << 20), |_| 0];

proptest! {
    #![proptest_config(cases(16))]

    #[test]
    fn what_is_kept_is_what_a_recount_says((questions, steps) in history()) {
        let (runtime, servers) = shared();
        for server in servers {
            runtime.block_on(live_through(server, &questions, &steps));
        }
    }
}

/// Constraints with one selector count different nodes, whether or not partitions are kept, with an
/// overlay and without.
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

/// A server for each figure of `IN_USE`.
fn shared() -> &'static (Runtime, Vec<Server>) {
    static SHARED: OnceLock<(Runtime, Vec<Server>)> = OnceLock::new();
    SHARED.get_or_init(|| {
        let runtime = Runtime::new().expect("a runtime");
        let servers = IN_USE.map(|in_use| {
            let registry = Registry::new(Limits::default(), Arc::new(Unobserved));
            let times = AtomicUsize::new(0);
            let account = Account::measured(1 << 30, move || {
                in_use(times.fetch_add(1, Ordering::Relaxed))
            });
            runtime.block_on(Server::with_registry(registry.with_account(account)))
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

    /// Applies an event. Returns the overlay for the questions after it.
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

    /// Checks that Filter and Score answer as the recount does.
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
        let request = FilterRequest {
            snapshot: self.snapshot.clone(),
            overlay: overlay.to_vec(),
            ..full_filter_of(pod.clone())
        };
        let score = score_as(request.clone());
        let got = self.server.filter(FilterRequest {
            node_checks: checks as i32,
            ..request
        });
        agree::filter(&got.await, &seen.filter(pod, None, checks), &about);
        self.ask_for_counts(&about, overlay).await;
        let got = self.server.score(score);
        let want = seen.score(pod, None, NodeChecks::Unspecified);
        agree::score(&got.await, &want, &about);
    }

    /// Checks an answer without names, which is counted domain by domain.
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

    /// Checks that no kept view has drifted, and that the objects are those that were sent.
    fn verify(&self, place: &str) {
        let snapshot = self.server.registry.get(&self.snapshot);
        let Ok(snapshot) = snapshot else { return };
        let state = snapshot.state();
        let report = verify(&state, &|| false).expect("it is not cancelled");
        assert_eq!(
            report.findings.described,
            [],
            "{place} of {}",
            self.snapshot
        );
        assert_eq!(
            model::outlines(state.changes()),
            model::outlines(changes(&self.cluster).into_iter()),
            "{place} of {}",
            self.snapshot
        );
    }

    /// Checks that no view is left once all are idle.
    async fn end(self) {
        let snapshot = self.server.registry.get(&self.snapshot);
        let snapshot = snapshot.expect("every history begins with an update");
        self.server.registry.sweep(0);
        assert_eq!(snapshot.summary().views, 0, "{}", self.snapshot);
        self.server
            .registry
            .delete(&self.snapshot, "")
            .expect("it exists");
    }
}
