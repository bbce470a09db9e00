//! The changes of each revision, as the writers note them, and the states that follow from these
//! changes alone.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use support::model;

use evenkeel::proto::v1::{Change, Mode, PlaceRequest, Pod, UpdateSnapshotRequest};
use support::recount::Cluster;

use crate::revisions::writers::RESERVED;
use support::build::{on, update_of};
use support::caller::Client;

/// Epoch and revision.
pub(crate) type Version = (String, i64);

/// The change of one revision.
#[derive(Debug, Clone)]
pub(crate) enum Moved {
    Batch(Vec<Change>),
    Replace(Vec<Change>),
    Reserved(Box<PlaceRequest>, Vec<(String, String)>),
    Released(Vec<String>),
}

/// The objects at a revision.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    cluster: Cluster,
    /// The reservations, by id, as pods.
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

    /// The state, with reservations as pods.
    pub(crate) fn whole(&self) -> Cluster {
        let mut cluster = self.cluster.clone();
        for (number, pod) in self.held.values().enumerate() {
            let mut pod = pod.clone();
            pod.metadata.get_or_insert_default().name = format!("held-{number}");
            cluster.pods.push(pod);
        }
        cluster
    }
}

/// The state that writers and readers share.
#[derive(Default)]
pub(crate) struct Shared {
    history: Mutex<BTreeMap<Version, Moved>>,
    /// The pods for which reservations were confirmed, by the ids of the reservations.
    became: Mutex<HashMap<String, String>>,
    /// The number of answers.
    pub(crate) answered: AtomicUsize,
    pub(crate) done: AtomicBool,
}

impl Shared {
    pub(crate) fn note(&self, epoch: String, revision: i64, moved: Moved) {
        let mut history = self.history.lock().expect("nobody panicked");
        let before = history.insert((epoch, revision), moved);
        assert!(before.is_none(), "two changes made revision {revision}");
    }

    pub(crate) fn confirmed(&self, id: String, name: &str) {
        let mut became = self.became.lock().expect("nobody panicked");
        became.insert(id, name.to_owned());
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Returns the states at these revisions.
    pub(crate) fn states(&self, wanted: &[&Version]) -> HashMap<Version, State> {
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

/// Updates the snapshot, and notes the revision that it reaches.
pub(crate) async fn update(client: &mut Client, shared: &Shared, moved: Moved) {
    let (mode, changes) = match &moved {
        Moved::Replace(changes) => (Mode::Replace, changes),
        Moved::Batch(changes) => (Mode::Unspecified, changes),
        _ => unreachable!("only objects are sent"),
    };
    let request = UpdateSnapshotRequest {
        mode: mode as i32,
        ..update_of(changes.clone())
    };
    let done = client.update_snapshot(request).await;
    let done = done.expect("a valid batch").into_inner();
    shared.note(done.epoch, done.revision, moved);
}
