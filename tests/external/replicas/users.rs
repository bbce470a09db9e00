//! Clients of a fleet that ask any of its servers, repeat what was not answered, and
//! write down what they were told.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use evenkeel::proto::v1::{
    FilterRequest, Mode, PlaceRequest, Pod, UpdateSnapshotRequest, UpdateSnapshotResponse,
};
use support::linearizable::{Event, What};
use support::model::{Stored, delete};
use support::refusal::reason;
use tonic::Status;

use crate::replicas::build::{
    ZONE, confirm_of, filter_of, hard, hold_of, on, pod, release_of, spread,
};
use crate::replicas::chaos::MAX_SKEW;
use crate::replicas::fleet::{Client, batch, described, insist};

/// A snapshot that one client replaces, again and again.
pub(crate) const REPLACED: &str = "replaced";

/// The time that reservations are held: longer than a test takes.
const TTL: Duration = Duration::from_secs(3000);

/// The notes that all clients write.
pub(crate) struct Notes {
    start: Instant,
    events: Mutex<Vec<Event>>,
}

/// A call that is under way.
struct Call {
    called: Instant,
}

impl Notes {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            events: Mutex::default(),
        }
    }

    fn call() -> Call {
        Call {
            called: Instant::now(),
        }
    }

    fn answered(&self, call: &Call, tries: usize, revision: i64, what: What) {
        let nanos = |moment: Instant| {
            let since = (moment - self.start).as_nanos();
            u64::try_from(since).expect("a test takes no centuries")
        };
        let event = Event {
            called: nanos(call.called),
            answered: nanos(Instant::now()),
            at: SystemTime::now(),
            retried: tries > 1,
            epoch: String::new(),
            revision,
            what,
        };
        self.events.lock().expect("no holder panics").push(event);
    }

    /// Takes all calls that were answered.
    pub(crate) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.lock().expect("no holder panics"))
    }

    fn last_revision(&self) -> i64 {
        let events = self.events.lock().expect("no holder panics");
        events.iter().map(|event| event.revision).max().unwrap_or(0)
    }
}

/// The objects that a client knows to be there.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Pods that it put, with their nodes.
    pub(crate) pods: BTreeMap<String, String>,
    /// Reservations that it has, with their nodes.
    pub(crate) held: BTreeMap<String, String>,
    /// The pods of the snapshot that it replaces.
    pub(crate) replaced: Option<Vec<String>>,
}

/// A client.
pub(crate) struct User {
    number: usize,
    clients: Vec<Client>,
    dice: fastrand::Rng,
    notes: Arc<Notes>,
    made: usize,
    /// Pods that were put at the first try, so that no other try comes late.
    sure: VecDeque<String>,
    /// The revision of the snapshot that it replaces.
    replaced_at: i64,
    pub(crate) known: Known,
}

impl User {
    pub(crate) fn new(number: usize, clients: Vec<Client>, seed: u64, notes: Arc<Notes>) -> Self {
        Self {
            number,
            clients,
            dice: fastrand::Rng::with_seed(seed.wrapping_add(number as u64)),
            notes,
            made: 0,
            sure: VecDeque::new(),
            replaced_at: 0,
            known: Known::default(),
        }
    }

    /// Makes a random call.
    pub(crate) async fn act(&mut self) {
        let first = self.dice.usize(..self.clients.len());
        match self.dice.u32(..12) {
            0..=3 => self.reserve(first).await,
            4..=5 => self.bind(first).await,
            6 => self.release(first).await,
            7 => self.contest(first).await,
            8..=9 => self.delete(first).await,
            10 => self.read(first).await,
            _ if self.number == 0 => self.replace(first).await,
            _ => self.feed(first).await,
        }
    }

    fn name(&mut self) -> String {
        self.made += 1;
        format!("p{}-{}", self.number, self.made)
    }

    async fn reserve(&mut self, first: usize) {
        let request = PlaceRequest {
            request_id: self.name(),
            ..hold_of(template(), self.dice.i32(1..3), TTL)
        };
        let until = SystemTime::now() + TTL;
        let began = Notes::call();
        let call = async |mut client: Client| Ok(client.place(request.clone()).await?.into_inner());
        let (placed, tries) = insist(&self.clients, first, "place", call).await;
        let picks = placed.placements.into_iter();
        let picks: Vec<_> = picks.map(|pick| (pick.reservation_id, pick.node)).collect();
        self.known.held.extend(picks.iter().cloned());
        let what = What::Reserved {
            picks,
            key: None,
            until,
        };
        self.notes.answered(&began, tries, placed.revision, what);
    }

    async fn confirm(&self, first: usize, id: &str, name: &str) -> bool {
        let request = confirm_of(id, name, "");
        let began = Notes::call();
        let call = async |mut client: Client| {
            let answer = client.confirm_reservations(request.clone()).await?;
            Ok(answer.into_inner())
        };
        let (confirmed, tries) = insist(&self.clients, first, "confirm", call).await;
        let (id, known) = (id.to_owned(), confirmed.unknown_ids.is_empty());
        let what = What::Used {
            id,
            known,
            until: None,
        };
        self.notes.answered(&began, tries, confirmed.revision, what);
        known
    }

    async fn give_up(&self, first: usize, id: &str) {
        let request = release_of(vec![id.to_owned()]);
        let began = Notes::call();
        let call = async |mut client: Client| {
            let answer = client.release_reservations(request.clone()).await?;
            Ok(answer.into_inner())
        };
        let (released, tries) = insist(&self.clients, first, "release", call).await;
        let (id, known) = (id.to_owned(), released.unknown_ids.is_empty());
        let what = What::Released { id, known };
        self.notes.answered(&began, tries, released.revision, what);
    }

    /// Confirms a reservation, and puts its pod.
    async fn bind(&mut self, first: usize) {
        let Some((id, node)) = self.known.held.pop_first() else {
            return;
        };
        let pod = self.name();
        if !self.confirm(first, &id, &pod).await {
            // The checker of histories decides whether the reservation may be unknown.
            return;
        }
        let mut bound = on(template(), &node);
        bound.metadata.get_or_insert_default().name.clone_from(&pod);
        let (began, first) = (Notes::call(), first + 1);
        let request = batch("default", vec![bound.change()]);
        let (updated, tries) = self.update(first, &request).await;
        let what = What::Bound {
            id,
            pod: pod.clone(),
        };
        self.notes.answered(&began, tries, updated.revision, what);
        if tries == 1 {
            self.sure.push_back(pod.clone());
        }
        self.known.pods.insert(pod, node);
    }

    async fn release(&mut self, first: usize) {
        if let Some((id, _)) = self.known.held.pop_last() {
            self.give_up(first, &id).await;
        }
    }

    /// Releases a reservation at one server while it is released or confirmed at
    /// another.
    async fn contest(&mut self, first: usize) {
        let Some((id, _)) = self.known.held.pop_last() else {
            return;
        };
        let is_confirm = self.dice.bool();
        let other = async {
            match is_confirm {
                true => drop(self.confirm(first + 1, &id, "contested").await),
                false => self.give_up(first + 1, &id).await,
            }
        };
        tokio::join!(self.give_up(first, &id), other);
    }

    /// Deletes a pod. Nothing puts it again.
    async fn delete(&mut self, first: usize) {
        let Some(pod) = self.sure.pop_front() else {
            return;
        };
        let began = Notes::call();
        let request = batch("default", vec![delete("Pod", "", &pod)]);
        let (updated, tries) = self.update(first, &request).await;
        self.known.pods.remove(&pod);
        let what = What::Deleted { pod };
        self.notes.answered(&began, tries, updated.revision, what);
    }

    /// Puts a pod on a node that no placement uses.
    async fn feed(&mut self, first: usize) {
        let name = self.name();
        let began = Notes::call();
        let request = batch("default", vec![on(pod(&name, &[]), "elsewhere").change()]);
        let (updated, tries) = self.update(first, &request).await;
        self.notes
            .answered(&began, tries, updated.revision, What::Fed);
        self.known.pods.insert(name, "elsewhere".to_owned());
    }

    async fn update(
        &self,
        first: usize,
        request: &UpdateSnapshotRequest,
    ) -> (UpdateSnapshotResponse, usize) {
        let call = async |mut client: Client| {
            Ok(client.update_snapshot(request.clone()).await?.into_inner())
        };
        insist(&self.clients, first, "update", call).await
    }

    /// Reads from any server, at no older revision than any client was told.
    async fn read(&mut self, first: usize) {
        let began = Notes::call();
        let request = FilterRequest {
            min_revision: self.notes.last_revision(),
            ..filter_of(template())
        };
        let call =
            async |mut client: Client| Ok(client.filter(request.clone()).await?.into_inner());
        let (read, tries) = insist(&self.clients, first, "read", call).await;
        self.notes
            .answered(&began, tries, read.revision, What::Read);
    }

    /// Replaces a snapshot that nobody else changes.
    async fn replace(&mut self, first: usize) {
        let names: Vec<_> = (0..self.dice.usize(1..20)).map(|_| self.name()).collect();
        let pods = names.iter().map(|name| on(pod(name, &[]), "x").change());
        let request = UpdateSnapshotRequest {
            mode: Mode::Replace as i32,
            expected_revision: Some(self.replaced_at),
            ..batch(REPLACED, pods.collect())
        };
        let wanted = self.replaced_at + 1;
        let call = async |mut client: Client| {
            let replaced = client.update_snapshot(request.clone()).await;
            match replaced {
                Ok(answer) => Ok(answer.into_inner().revision),
                // An earlier try was applied, because no other client replaces this snapshot.
                Err(status) if is_mismatch(&status) => {
                    match described(&mut client, REPLACED).await?.revision {
                        at if at == wanted => Ok(at),
                        at => panic!("revision {at} instead of {wanted}: {status}"),
                    }
                }
                Err(status) => Err(status),
            }
        };
        let (revision, _) = insist(&self.clients, first, "replace", call).await;
        assert_eq!(revision, wanted);
        self.replaced_at = revision;
        self.known.replaced = Some(names);
    }
}

fn is_mismatch(status: &Status) -> bool {
    reason(status).as_deref() == Some("REVISION_MISMATCH")
}

/// A pod that is spread over zones and needs room.
pub(crate) fn template() -> Pod {
    let labels = &[("app", "web")];
    spread(pod("", labels), vec![hard(MAX_SKEW, ZONE, labels)])
}
