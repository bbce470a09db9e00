//! A feeder that knows what it sent, and the state that the server must have after it.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel::proto::v1::stream_snapshot_request::Step;
use evenkeel::proto::v1::{
    BeginReplace, Change, CommitReplace, DefaultConstraints, HeldPlacement, NodeChecks,
    StreamSnapshotRequest, StreamSnapshotResponse, UpdateSnapshotRequest, UpdateSnapshotResponse,
};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use support::recount::Cluster;
use tokio::sync::mpsc::Sender;
use tokio::sync::watch;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::restart::process::Server;
use support::agree::{self, Question};
use support::build::{
    ZONE, confirm_of, full_filter_of, hold_of, node, on, pod, release_of, replace_of, soft, spread,
    update_of,
};
use support::model::{self, Stored};
use support::{generate, server};

/// The most batches that are on their way at once.
const UNDER_WAY: usize = 8;

/// The number of pods in the larger batches: enough that writing them takes a while.
const BULK: usize = 300;

/// A feeder: the objects that it fed, and those known to have arrived.
pub struct Feeder {
    random: TestRunner,
    epoch: String,
    /// The last revision that was acknowledged. Others can wait for it.
    acknowledged: watch::Sender<i64>,
    /// The state at that revision, and at those that are on their way.
    states: BTreeMap<i64, Cluster>,
    /// The reservations when last looked at.
    held: BTreeMap<String, HeldPlacement>,
    /// True if a call about reservations is on its way.
    reserving: bool,
}

impl Feeder {
    pub fn new() -> Self {
        Self {
            random: TestRunner::default(),
            epoch: String::new(),
            acknowledged: watch::Sender::new(0),
            states: BTreeMap::from([(0, Cluster::default())]),
            held: BTreeMap::new(),
            reserving: false,
        }
    }

    /// The last revision that was acknowledged.
    pub fn acknowledged(&self) -> i64 {
        *self.acknowledged.borrow()
    }

    /// As [`Self::acknowledged`], as a value that others can wait for.
    pub fn progress(&self) -> watch::Receiver<i64> {
        self.acknowledged.subscribe()
    }

    fn draw<S: Strategy>(&mut self, strategy: S) -> S::Value {
        let tree = strategy.new_tree(&mut self.random);
        tree.expect("the strategy has values").current()
    }

    /// Checks that a restarted server is at a revision that was fed, not before the last
    /// acknowledged one, and has the state of that revision.
    pub async fn verify(&mut self, running: &Server) {
        let Some(described) = running.find("").await else {
            assert_eq!(self.acknowledged(), 0, "everything is gone");
            self.states.retain(|revision, _| *revision == 0);
            self.reserving = false;
            return;
        };
        let revision = described.revision;
        assert!(
            revision >= self.acknowledged(),
            "{} was acknowledged, {revision} is there",
            self.acknowledged()
        );
        if self.acknowledged() > 0 {
            assert_eq!(described.epoch, self.epoch);
        }
        self.epoch = described.epoch;
        let fed = self.states.get(&revision).cloned();
        let fed = fed.unwrap_or_else(|| panic!("revision {revision} was never fed"));

        let held = running.held().await;
        if !self.reserving {
            assert_eq!(held, self.held, "reservations");
        }
        self.held = held;
        self.reserving = false;
        self.compare(running, &fed).await;
        self.acknowledged.send_replace(revision);
        self.states = BTreeMap::from([(revision, fed)]);
    }

    /// Checks that the server exports the same as a fresh one that was given the state at once, and
    /// decides as the oracle does.
    async fn compare(&mut self, running: &Server, fed: &Cluster) {
        let fresh = server::Server::start().await;
        fresh
            .replace("", model::changes(fed), fed.defaults.clone())
            .await;
        let wanted = fresh.export("").await;
        let exported = running.export("").await;
        let updates = |parts: Vec<_>| -> Vec<(Vec<Change>, Option<DefaultConstraints>)> {
            let parts = parts.into_iter();
            let update = |part: evenkeel::proto::v1::ExportSnapshotResponse| part.update;
            let updates = parts.filter_map(update);
            updates
                .map(|u| (u.changes, u.default_constraints))
                .collect()
        };
        assert_eq!(updates(exported), updates(wanted));

        // Reservations count as pods do.
        let mut cluster = fed.clone();
        for held in self.held.values() {
            let mut reserved = on(pod(&format!("~{}", held.id), &[]), &held.node);
            let metadata = reserved.metadata.get_or_insert_default();
            metadata.labels = held.labels.clone();
            metadata.namespace = held.namespace.clone();
            cluster.pods.push(reserved);
        }
        let asked = self.draw(generate::incoming::pod());
        let about = Question {
            cluster: &cluster,
            pod: &asked,
            place: "after a restart",
        };
        let request = full_filter_of(asked.clone());
        let want = cluster.filter(&asked, None, NodeChecks::Unspecified);
        agree::filter(&running.filter(request).await, &want, &about);
    }

    /// Feeds until an error says that the server is gone.
    pub async fn feed(&mut self, running: &Server) -> Result<(), Status> {
        let (sender, receiver) = tokio::sync::mpsc::channel(UNDER_WAY);
        let mut client = running.client();
        // The stream's head comes with the first answer, or before.
        let stream = client.stream_snapshot(ReceiverStream::new(receiver));
        let mut answers = stream.await?.into_inner();
        loop {
            match fastrand::u8(..10) {
                0 => self.replace_in_parts(&sender, &mut answers).await?,
                1 => self.replace_at_once(running).await?,
                2..=3 => self.reserve(running).await?,
                4 => self.end_reservation(running).await?,
                _ => self.update(&sender, &mut answers).await?,
            }
        }
    }

    /// Notes the next revision and its state as on their way. Returns the revision.
    fn next(&mut self, change: impl FnOnce(&mut Cluster)) -> i64 {
        let (last, state) = self.states.last_key_value().expect("there is a state");
        let (next, mut state) = (last + 1, state.clone());
        change(&mut state);
        self.states.insert(next, state);
        next
    }

    /// Notes that a revision was acknowledged: no earlier one may come back.
    fn arrived(&mut self, revision: i64) {
        self.states = self.states.split_off(&revision);
        self.acknowledged.send_replace(revision);
    }

    fn acknowledge(&mut self, update: &UpdateSnapshotResponse) {
        assert_eq!(update.revision, self.acknowledged() + 1);
        if self.epoch.is_empty() {
            self.epoch.clone_from(&update.epoch);
        }
        assert_eq!(update.epoch, self.epoch);
        self.arrived(update.revision);
    }

    /// Returns changes, now and then many, so that writing them takes a while.
    fn changes(&mut self) -> Vec<Change> {
        if fastrand::u8(..8) > 0 {
            return self.draw(generate::batch(6));
        }
        let on_node = format!("n{}", fastrand::u8(..6));
        let pods = (0..BULK).map(|i| on(pod(&format!("bulk-{i}"), &[("app", "a")]), &on_node));
        pods.map(Stored::change).collect()
    }

    /// Sends batches, one after another, some before the last is acknowledged.
    async fn update(
        &mut self,
        sender: &Sender<StreamSnapshotRequest>,
        answers: &mut Streaming<StreamSnapshotResponse>,
    ) -> Result<(), Status> {
        let count = fastrand::usize(1..=UNDER_WAY);
        for _ in 0..count {
            let changes = self.changes();
            let defaults = (fastrand::u8(..6) == 0).then(|| self.draw(generate::defaults()));
            let next = self.next(|state| advance(state, &changes, defaults.as_ref()));
            let update = UpdateSnapshotRequest {
                default_constraints: defaults,
                expected_revision: Some(next - 1),
                ..update_of(changes)
            };
            send(sender, Step::Update(update)).await;
        }
        for _ in 0..count {
            let update = answer(answers).await?;
            self.acknowledge(&update);
        }
        Ok(())
    }

    async fn replace_in_parts(
        &mut self,
        sender: &Sender<StreamSnapshotRequest>,
        answers: &mut Streaming<StreamSnapshotResponse>,
    ) -> Result<(), Status> {
        let parts = [self.changes(), self.changes()];
        send(sender, Step::BeginReplace(BeginReplace::default())).await;
        answer(answers).await?;
        for changes in &parts {
            send(sender, Step::Update(update_of(changes.clone()))).await;
            answer(answers).await?;
        }
        self.next(|state| {
            empty(state);
            for part in &parts {
                advance(state, part, None);
            }
        });
        send(sender, Step::CommitReplace(CommitReplace::default())).await;
        let update = answer(answers).await?;
        self.acknowledge(&update);
        Ok(())
    }

    async fn replace_at_once(&mut self, running: &Server) -> Result<(), Status> {
        let mut changes = self.changes();
        // There is always a node to decide about.
        let all: Vec<_> = changes.iter().map(model::subject).collect();
        let first = node("n0", &[(ZONE, "za")]).change();
        if !all.contains(&model::subject(&first)) {
            changes.push(first);
        }
        self.next(|state| {
            empty(state);
            advance(state, &changes, None);
        });
        let request = replace_of("", changes);
        let update = running.client().update_snapshot(request).await?;
        self.acknowledge(&update.into_inner());
        Ok(())
    }

    async fn reserve(&mut self, running: &Server) -> Result<(), Status> {
        if self.acknowledged() == 0 {
            return Ok(());
        }
        let labels = [("app", "a")];
        let template = spread(pod("", &labels), vec![soft(1, ZONE, &labels)]);
        let request = hold_of(template, fastrand::i32(1..4), Duration::from_secs(3_000));
        self.reserving = true;
        let next = self.next(|_| {});
        let placed = running.client().place(request).await?.into_inner();
        if placed.placements.is_empty() {
            // There is no node to place on.
            self.states.remove(&next);
        } else {
            assert_eq!(placed.revision, next);
            self.arrived(next);
        }
        let held = running.held().await;
        for pick in &placed.placements {
            assert!(held.contains_key(&pick.reservation_id), "{held:?}");
        }
        self.held = held;
        self.reserving = false;
        Ok(())
    }

    async fn end_reservation(&mut self, running: &Server) -> Result<(), Status> {
        let ids: Vec<_> = self.held.keys().cloned().collect();
        let Some(id) = fastrand::choice(ids) else {
            return Ok(());
        };
        self.reserving = true;
        let mut client = running.client();
        if fastrand::bool() {
            // This pod never comes.
            let request = confirm_of(&id, "never", &id);
            let confirmed = client.confirm_reservations(request).await?.into_inner();
            assert!(confirmed.unknown_ids.is_empty());
        } else {
            let next = self.next(|_| {});
            let request = release_of(vec![id]);
            let released = client.release_reservations(request).await?.into_inner();
            assert!(released.unknown_ids.is_empty());
            assert_eq!(released.revision, next);
            self.arrived(next);
        }
        self.held = running.held().await;
        self.reserving = false;
        Ok(())
    }
}

async fn send(sender: &Sender<StreamSnapshotRequest>, step: Step) {
    let request = StreamSnapshotRequest { step: Some(step) };
    // If the server is gone, the next answer says so.
    let _ = sender.send(request).await;
}

async fn answer(
    answers: &mut Streaming<StreamSnapshotResponse>,
) -> Result<UpdateSnapshotResponse, Status> {
    let answer = answers.message().await?;
    let update = answer.and_then(|answer| answer.update);
    update.ok_or_else(|| Status::unavailable("the stream ended"))
}

fn advance(state: &mut Cluster, changes: &[Change], defaults: Option<&DefaultConstraints>) {
    for change in changes {
        model::apply(state, change);
    }
    if let Some(defaults) = defaults {
        state.defaults = defaults.clone();
    }
}

fn empty(state: &mut Cluster) {
    let defaults = std::mem::take(&mut state.defaults);
    *state = Cluster {
        defaults,
        ..Cluster::default()
    };
}
