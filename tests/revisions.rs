//! While many write, every answer of every method is that of the revision it
//! names: what the same question is answered on a copy of that revision that
//! nobody writes to.
//!
//! That copy is built from the history alone, and decisions on it are held
//! against the brute-force judge and against the vectors of other tests.

mod support;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evenkeel::proto::v1::{
    Change, ConfirmReservationsRequest, Confirmation, DefaultConstraints, DeleteSnapshotRequest,
    DescribeSpreadRequest, Dialect, ExplainRequest, FilterRequest, Mode, Node, NodeChecks,
    NodeNames, NodeStatus, PlaceRequest, Pod, Quantity, ReleaseReservationsRequest, Reservation,
    ReservedPod, ScoreRequest, TopologySpreadConstraint, UpdateSnapshotRequest, View,
    describe_spread_request::Subject,
};
use evenkeel::recount::Cluster;
use proptest::prelude::Strategy;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use support::agree;
use support::build::{HOSTNAME, ZONE, hard, labelled, node, on, pod, soft, spread};
use support::generate;
use support::model::{self, Stored};
use support::server::{Client, Server};
use tonic::{Code, Status};

/// Batches of each feeder.
const BATCHES: usize = 150;

/// Every so many, one is a replace; and every so many, the snapshot is deleted.
const REPLACE_EVERY: usize = 29;
const DELETE_EVERY: usize = 71;

/// Answers that are waited for after each batch, so that readers keep up.
const ANSWERS: usize = 3;

/// How long an answer may take before the test fails.
const DEADLINE: Duration = Duration::from_secs(60);

/// Where reservations are made, which no other pod is in.
const RESERVED: &str = "reserved";

/// The one node where something is held for a moment.
const APART: &str = "apart";

/// Epoch and revision.
type Version = (String, i64);

/// What one revision changed.
#[derive(Debug, Clone)]
enum Moved {
    Batch(Vec<Change>),
    Replace(Vec<Change>),
    Reserved(Box<PlaceRequest>, Vec<(String, String)>),
    Released(Vec<String>),
}

/// What there was at a revision.
#[derive(Debug, Clone, Default)]
struct State {
    cluster: Cluster,
    /// What is held, by id, as a pod.
    held: BTreeMap<String, Pod>,
}

impl State {
    fn apply(&mut self, moved: &Moved, became: &HashMap<String, String>) {
        match moved {
            Moved::Batch(changes) => {
                changes
                    .iter()
                    .for_each(|c| model::apply(&mut self.cluster, c));
                let arrived: Vec<_> = changes.iter().map(model::subject).collect();
                self.held.retain(|id, _| {
                    let name = became.get(id).cloned().unwrap_or_default();
                    !arrived.contains(&("Pod".into(), RESERVED.into(), name))
                });
            }
            Moved::Replace(changes) => {
                self.cluster = Cluster::default();
                self.apply(&Moved::Batch(changes.clone()), became);
            }
            Moved::Reserved(request, picks) => {
                for (id, node) in picks {
                    let mut held = on(request.pod.clone().unwrap_or_default(), node);
                    let spec = held.spec.get_or_insert_default();
                    spec.topology_spread_constraints.clear();
                    self.held.insert(id.clone(), held);
                }
            }
            Moved::Released(ids) => ids.iter().for_each(|id| {
                self.held.remove(id);
            }),
        }
    }

    /// The state with all that is held as pods.
    fn whole(&self) -> Cluster {
        let mut cluster = self.cluster.clone();
        for (number, pod) in self.held.values().enumerate() {
            let mut pod = pod.clone();
            pod.metadata.get_or_insert_default().name = format!("held-{number}");
            cluster.pods.push(pod);
        }
        cluster
    }
}

/// What writers and readers share.
#[derive(Default)]
struct Shared {
    history: Mutex<BTreeMap<Version, Moved>>,
    /// The pods that reservations were confirmed for, by their ids.
    became: Mutex<HashMap<String, String>>,
    /// How many answers there were.
    answered: AtomicUsize,
    done: AtomicBool,
}

impl Shared {
    fn note(&self, epoch: String, revision: i64, moved: Moved) {
        let mut history = self.history.lock().expect("nobody panicked");
        let before = history.insert((epoch, revision), moved);
        assert!(before.is_none(), "two changes made revision {revision}");
    }

    fn confirmed(&self, id: String, name: &str) {
        let mut became = self.became.lock().expect("nobody panicked");
        became.insert(id, name.to_owned());
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// What there was at these revisions.
    fn states(&self, wanted: &[&Version]) -> HashMap<Version, State> {
        let history = self.history.lock().expect("nobody panicked");
        let became = self.became.lock().expect("nobody panicked");
        let mut states = HashMap::new();
        for version in wanted {
            let moves = history.range((version.0.clone(), 0)..=(*version).clone());
            let mut state = State::default();
            moves.for_each(|(_, moved)| state.apply(moved, &became));
            states.insert((*version).clone(), state);
        }
        states
    }
}

/// A question of any method.
#[derive(Debug, Clone)]
enum Asked {
    Filter(FilterRequest),
    Score(ScoreRequest),
    Explain(ExplainRequest),
    Place(PlaceRequest),
    Describe(DescribeSpreadRequest),
}

/// What it was answered, and of which revision.
type Answer = (Version, String);

impl Asked {
    /// The pod of a Filter that the brute-force judge knows how to answer.
    fn plain_filter(&self) -> Option<&Pod> {
        match self {
            Self::Filter(request) if request.dialect() == Dialect::Kubernetes => {
                request.pod.as_ref()
            }
            _ => None,
        }
    }

    async fn ask(&self, client: &mut Client, snapshot: &str) -> Result<Answer, Status> {
        macro_rules! ask {
            ($method:ident, $request:ident) => {{
                let mut request = $request.clone();
                request.snapshot = snapshot.to_owned();
                let mut answer = client.$method(request).await?.into_inner();
                let epoch = std::mem::take(&mut answer.epoch);
                let revision = std::mem::take(&mut answer.revision);
                Ok(((epoch, revision), format!("{answer:#?}")))
            }};
        }
        match self {
            Self::Filter(request) => ask!(filter, request),
            Self::Score(request) => ask!(score, request),
            Self::Explain(request) => ask!(explain, request),
            Self::Place(request) => ask!(place, request),
            Self::Describe(request) => ask!(describe_spread, request),
        }
    }
}

fn draw<T>(strategy: &impl Strategy<Value = T>, runner: &mut TestRunner) -> T {
    let tree = strategy.new_tree(runner);
    tree.expect("no strategy here rejects").current()
}

/// Namespaces that come into being and go.
fn passing(number: usize) -> String {
    format!("passing-{}", number % 3)
}

fn within(mut pod: Pod, namespace: &str) -> Pod {
    pod.metadata.get_or_insert_default().namespace = namespace.into();
    pod
}

/// Constraints that both dialects know.
fn constraints() -> Vec<TopologySpreadConstraint> {
    vec![
        hard(2, ZONE, &[("app", "a")]),
        hard(1, "rack", &[("app", "a")]),
        soft(1, HOSTNAME, &[("app", "a")]),
    ]
}

/// Every question about a pod, in both dialects.
fn about(pod: &Pod, overlay: &[Change], dialect: Dialect) -> Vec<Asked> {
    let (pod, overlay) = (Some(pod.clone()), overlay.to_vec());
    let (view, max_domains, dialect) = (View::Full as i32, Some(0), dialect as i32);
    vec![
        Asked::Filter(FilterRequest {
            pod: pod.clone(),
            overlay: overlay.clone(),
            view,
            max_domains,
            dialect,
            ..Default::default()
        }),
        Asked::Score(ScoreRequest {
            pod: pod.clone(),
            overlay: overlay.clone(),
            view,
            max_domains,
            dialect,
            ..Default::default()
        }),
        Asked::Explain(ExplainRequest {
            pod: pod.clone(),
            overlay: overlay.clone(),
            max_domains,
            dialect,
            ..Default::default()
        }),
        Asked::Place(PlaceRequest {
            pod,
            overlay,
            replicas: 4,
            view,
            max_domains,
            dialect,
            ..Default::default()
        }),
    ]
}

/// How things are spread in a namespace.
fn described(namespace: &str) -> Vec<Asked> {
    let describe = DescribeSpreadRequest {
        namespace: namespace.into(),
        max_domains: Some(0),
        ..Default::default()
    };
    let by_key = DescribeSpreadRequest {
        topology_key: ZONE.into(),
        ..describe.clone()
    };
    let selector = DescribeSpreadRequest {
        subject: Some(Subject::Selector(labelled(&[("app", "a")]))),
        ..describe.clone()
    };
    [describe, by_key, selector].map(Asked::Describe).into()
}

fn questions(runner: &mut TestRunner) -> Vec<Asked> {
    let mut all = Vec::new();
    let any = (generate::incoming::pod(), generate::batch(3));
    for index in 0..4 {
        let (pod, overlay) = draw(&any, runner);
        let overlay = if index % 2 == 0 { &[] } else { &overlay[..] };
        all.extend(about(&pod, overlay, Dialect::Kubernetes));
    }
    let web = spread(pod("", &[("app", "a")]), constraints());
    for namespace in ["default", "other", RESERVED, &passing(0), &passing(1)] {
        let pod = within(web.clone(), namespace);
        for dialect in [Dialect::Kubernetes, Dialect::Fleet] {
            let all_about = about(&pod, &[], dialect);
            // What is explained tells what is held from what runs.
            let explains = |asked: &Asked| matches!(asked, Asked::Explain(_));
            let kept = all_about
                .into_iter()
                .filter(|a| namespace != RESERVED || !explains(a));
            all.extend(kept);
        }
        if namespace != RESERVED {
            all.extend(described(namespace));
        }
    }
    all
}

/// Moves the snapshot on, and notes where it is then.
async fn update(client: &mut Client, shared: &Shared, moved: Moved) {
    let (mode, changes) = match &moved {
        Moved::Replace(changes) => (Mode::Replace, changes),
        Moved::Batch(changes) => (Mode::Unspecified, changes),
        _ => unreachable!("only objects are sent"),
    };
    let request = UpdateSnapshotRequest {
        changes: changes.clone(),
        mode: mode as i32,
        ..Default::default()
    };
    let done = client.update_snapshot(request).await;
    let done = done.expect("a valid batch").into_inner();
    shared.note(done.epoch, done.revision, moved);
}

/// Sends batches, replaces all now and then, and deletes the snapshot.
async fn feed(mut client: Client, shared: Arc<Shared>, batches: Vec<Vec<Change>>) {
    for (number, mut changes) in batches.into_iter().enumerate() {
        if number % DELETE_EVERY == DELETE_EVERY - 1 {
            let deleted = client.delete_snapshot(DeleteSnapshotRequest::default());
            deleted.await.expect("it is there, for others only write");
        }
        let is_replace = number % REPLACE_EVERY == 0;
        changes.push(apart().change());
        // A namespace that has one pod, or none any more.
        let passer = within(on(pod("passer", &[("app", "a")]), "n0"), &passing(number));
        changes.push(match number % 2 {
            0 => passer.change(),
            _ => model::delete("Pod", &passing(number / 2), "passer"),
        });
        let moved = match is_replace {
            true => Moved::Replace(changes),
            false => Moved::Batch(changes),
        };
        update(&mut client, &shared, moved).await;
        let before = shared.answered.load(Ordering::Acquire);
        let begun = Instant::now();
        while shared.answered.load(Ordering::Acquire) < before + ANSWERS {
            assert!(begun.elapsed() < DEADLINE, "nobody is answered");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Reserves, and lets go again in each of the ways that there are.
async fn reserve(mut client: Client, shared: Arc<Shared>) {
    let gone =
        |status: &Status| [Code::NotFound, Code::FailedPrecondition].contains(&status.code());
    for number in 0.. {
        if shared.is_done() {
            return;
        }
        let template = within(spread(pod("", &[("app", "a")]), constraints()), RESERVED);
        let request = PlaceRequest {
            pod: Some(template),
            replicas: 2,
            // The zones are as full as they may be, unless some are let go.
            node_checks: NodeChecks::SpreadOnly as i32,
            reserve: Some(Reservation {
                owner: "test".into(),
                ttl: Some(Duration::from_secs(3_000).into()),
            }),
            ..Default::default()
        };
        let placed = match client.place(request.clone()).await {
            Ok(placed) => placed.into_inner(),
            Err(status) if gone(&status) => continue,
            Err(status) => panic!("{status}"),
        };
        let picks: Vec<_> = placed
            .placements
            .into_iter()
            .map(|pick| (pick.reservation_id, pick.node))
            .collect();
        expire(&mut client).await;
        let Some((id, node)) = picks.first().cloned() else {
            continue;
        };
        shared.note(
            placed.epoch,
            placed.revision,
            Moved::Reserved(Box::new(request), picks.clone()),
        );
        if number % 3 == 0 {
            let name = format!("became-{number}");
            let confirm = ConfirmReservationsRequest {
                confirmations: vec![Confirmation {
                    id: id.clone(),
                    pod: Some(ReservedPod {
                        name: name.clone(),
                        uid: String::new(),
                    }),
                }],
                ..Default::default()
            };
            let Ok(confirmed) = client.confirm_reservations(confirm).await else {
                continue;
            };
            if !confirmed.into_inner().unknown_ids.is_empty() {
                continue;
            }
            shared.confirmed(id, &name);
            let became = within(on(pod(&name, &[("app", "a")]), &node), RESERVED);
            let moved = Moved::Batch(vec![became.change()]);
            update(&mut client, &shared, moved).await;
        } else {
            let ids: Vec<String> = picks.into_iter().map(|(id, _)| id).collect();
            let request = ReleaseReservationsRequest {
                ids: ids.clone(),
                ..Default::default()
            };
            let Ok(released) = client.release_reservations(request).await else {
                continue;
            };
            let released = released.into_inner();
            let known = |id: &String| !released.unknown_ids.contains(id);
            let known: Vec<String> = ids.iter().filter(|id| known(id)).cloned().collect();
            if !known.is_empty() {
                shared.note(released.epoch, released.revision, Moved::Released(known));
            }
        }
    }
}

/// A node with room for all that is held for a moment.
fn apart() -> Node {
    let pods = Quantity {
        string: "1000000".into(),
    };
    Node {
        status: Some(NodeStatus {
            allocatable: [("pods".to_owned(), pods)].into(),
        }),
        ..node(APART, &[])
    }
}

/// Holds something for a moment where nobody looks: its end moves the revision
/// on, and changes no answer.
async fn expire(client: &mut Client) {
    let request = PlaceRequest {
        pod: Some(within(pod("", &[("app", "z")]), "elsewhere")),
        replicas: 1,
        candidates: Some(NodeNames {
            names: vec![APART.into()],
        }),
        reserve: Some(Reservation {
            owner: "moment".into(),
            ttl: Some(Duration::from_millis(20).into()),
        }),
        ..Default::default()
    };
    // There may be no snapshot now.
    let _ = client.place(request).await;
}

/// Asks the same questions over and over, and keeps one answer of each for each
/// revision.
async fn read(
    mut client: Client,
    questions: Arc<Vec<Asked>>,
    shared: Arc<Shared>,
    first: usize,
) -> HashMap<(Version, usize), String> {
    let mut answers = HashMap::new();
    while !shared.is_done() {
        for number in 0..questions.len() {
            let number = (number * 7 + first) % questions.len();
            match questions[number].ask(&mut client, "").await {
                Ok((version, answer)) => {
                    answers.insert((version, number), answer);
                    shared.answered.fetch_add(1, Ordering::AcqRel);
                }
                // Deleted, not fed again yet, or nothing to describe.
                Err(status)
                    if [Code::NotFound, Code::FailedPrecondition].contains(&status.code()) => {}
                Err(status) => panic!("{:?}: {status}", questions[number]),
            }
        }
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_answer_of_every_method_is_of_the_revision_that_it_names() {
    let server = Server::start().await;
    let still = Server::start().await;
    let shared = Arc::new(Shared::default());
    let mut runner = TestRunner::deterministic();

    let mut questions = questions(&mut runner);
    let mut asker = still.client();
    still.update("empty", Vec::new()).await;
    let mut valid = Vec::new();
    for asked in questions.drain(..) {
        let answer = asked.ask(&mut asker, "empty").await;
        // There is nothing to describe yet.
        if answer.is_ok() || matches!(asked, Asked::Describe(_)) {
            valid.push(asked);
        }
    }
    let questions = Arc::new(valid);
    assert!(questions.len() > 50, "{} are valid", questions.len());

    let batches = |runner: &mut TestRunner| {
        let batches = (0..BATCHES).map(|number| {
            let most = if number % REPLACE_EVERY == 0 { 40 } else { 4 };
            draw(&generate::batch(most), runner)
        });
        batches.collect::<Vec<_>>()
    };
    let feeding = tokio::spawn(feed(
        server.another_client().await,
        Arc::clone(&shared),
        batches(&mut runner),
    ));
    let reserving = tokio::spawn(reserve(server.another_client().await, Arc::clone(&shared)));
    let mut readers = Vec::new();
    for reader in 0..3 {
        let client = server.another_client().await;
        readers.push(tokio::spawn(read(
            client,
            Arc::clone(&questions),
            Arc::clone(&shared),
            reader * 11,
        )));
    }
    feeding.await.expect("it feeds");
    shared.done.store(true, Ordering::Release);
    reserving.await.expect("it reserves");
    let mut answers = HashMap::new();
    for reader in readers {
        answers.extend(reader.await.expect("it reads"));
    }

    let mut versions: Vec<&Version> = answers.keys().map(|(version, _)| version).collect();
    versions.sort_unstable();
    versions.dedup();
    assert!(
        versions.len() > 20,
        "answers of {} revisions",
        versions.len()
    );
    let states = shared.states(&versions);
    let mut names: HashMap<&Version, String> = HashMap::new();
    for (number, version) in versions.iter().enumerate() {
        let name = format!("still-{number}");
        let cluster = states[*version].whole();
        still
            .replace(
                &name,
                model::changes(&cluster),
                DefaultConstraints::default(),
            )
            .await;
        names.insert(version, name);
    }
    for ((version, number), answer) in &answers {
        let asked = &questions[*number];
        let wanted = asked.ask(&mut asker, &names[version]).await;
        let wanted = wanted.map(|(_, wanted)| wanted);
        assert_eq!(
            Some(answer),
            wanted.as_ref().ok(),
            "{asked:?} at {version:?}: {:?}",
            wanted.as_ref().err()
        );
        if let Some(pod) = asked.plain_filter() {
            let (place, cluster) = (format!("{version:?}"), states[version].whole());
            let about = agree::Question {
                cluster: &cluster,
                pod,
                place: &place,
            };
            agree::decisions(&still, &names[version], &about).await;
        }
    }
}
