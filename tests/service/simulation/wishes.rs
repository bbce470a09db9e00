//! The calls that the clients of a server want to make.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel::limits::Limits;
use evenkeel::matching::Path;
use evenkeel::proto::v1::change::Object;
use evenkeel::proto::v1::{Change, ObjectMeta, Pod, PodSpec};
use evenkeel::snapshot::offer::Update;
use evenkeel::snapshot::{Batch, Error, JournalError, Offer};
use support::build::plain_node;

use crate::simulation::server::Server;
use crate::simulation::world::{NAME, NODES, pods};

/// A node.
pub fn node(number: usize) -> Object {
    Object::Node(plain_node(&format!("n{number}"), &[]))
}

/// A pod on a node.
pub fn pod(name: &str, node: usize) -> Object {
    Object::Pod(Pod {
        metadata: Some(ObjectMeta {
            name: name.to_owned(),
            namespace: "default".to_owned(),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            node_name: format!("n{node}"),
            ..PodSpec::default()
        }),
        ..Pod::default()
    })
}

/// A batch that puts objects.
pub fn batch(objects: Vec<Object>) -> Batch {
    let changes = objects.into_iter().map(|object| Change {
        object: Some(object),
    });
    let checked = Batch::check(changes, &Limits::none(), Path::root("changes"));
    checked.expect("the objects are valid")
}

/// Returns whether the change may have happened in spite of the error.
fn is_unknown(error: &Error) -> bool {
    matches!(error, Error::NotStored(JournalError::UnknownFate { .. }))
}

impl Server {
    /// Feeds the nodes and one more pod.
    pub fn put(&self) {
        let dice = &self.world.dice;
        let name = self.new_name('p');
        let mut objects: Vec<Object> = (0..NODES).map(node).collect();
        objects.push(pod(&name, dice.below(NODES)));
        let expected = self.snapshot().map(|snapshot| snapshot.revision());
        let offer = Offer {
            expected_revision: expected.filter(|_| dice.happens(300)),
            ..Offer::of(Arc::new(batch(objects)), self.registry.now().steady)
        };
        let result = self.registry.update(NAME, offer);
        self.told(&format!("put {name}"), &result);
        self.note_pod(name, result);
    }

    /// A name that no pod had yet.
    fn new_name(&self, kind: char) -> String {
        let mut ledger = self.world.ledger();
        ledger.named += 1;
        format!("{kind}{}", ledger.named)
    }

    /// Notes whether a pod of this name is there now.
    fn note_pod(&self, name: String, updated: Result<Update, Error>) {
        match updated {
            Ok(update) => {
                self.world
                    .acknowledge(&name, &update.epoch, update.revision);
                let mut ledger = self.world.ledger();
                ledger
                    .acknowledged
                    .push((name, update.epoch, update.revision));
            }
            Err(error) if is_unknown(&error) => {}
            Err(_) => {
                self.world.ledger().refused.insert(name);
            }
        }
    }

    pub fn end_expired(&self) {
        self.world.pass_time(Duration::from_secs(1));
        let ended = self.registry.end_expired();
        self.told("end", &ended);
    }

    /// Replaces the state by the same with one pod more.
    pub fn replace(&self) {
        let Some(snapshot) = self.snapshot() else {
            return;
        };
        let name = self.new_name('r');
        let revision = snapshot.revision();
        let objects: Vec<Object> = {
            let state = snapshot.state();
            let objects = state.changes().filter_map(|change| change.object);
            objects.chain([pod(&name, 0)]).collect()
        };
        let replaced = (|| {
            let mut staged = self.registry.stage(NAME)?;
            staged.apply(&batch(objects), None, &Limits::default())?;
            let arrived = self.registry.now().steady;
            self.registry
                .replace(NAME, staged, (Some(revision), None), arrived)
        })();
        self.told(&format!("replace {name}"), &replaced);
        self.note_pod(name, replaced);
    }

    /// Writes a checkpoint, and trims the log.
    pub fn keep(&self) {
        let written = self.replica.checkpoint(NAME);
        self.told("checkpoint", &written);
        self.world.pass_time(Duration::from_secs(400));
        let trimmed = self.replica.trim(NAME);
        self.told("trim", &trimmed);
    }

    pub fn delete(&self) {
        let Some(snapshot) = self.snapshot() else {
            return;
        };
        let epoch = snapshot.epoch().to_owned();
        let mut ledger = self.world.ledger();
        let had = ledger.deleted.entry(epoch.clone()).or_default();
        had.extend(pods(&snapshot));
        drop(ledger);
        let deleted = self.registry.delete(NAME, &epoch);
        self.told("delete", &deleted);
    }

    /// Changes the clocks of the server, or that of the log.
    pub fn jump(&self) {
        let dice = &self.world.dice;
        if self.world.seed % 8 == 3 && dice.happens(200) {
            let off = [0, 0, 2_000][dice.below(3)];
            self.told("clock of the log", &off);
            self.world.log_ahead.store(off, Ordering::Relaxed);
            return;
        }
        let jumped = self.clocks.jump();
        self.told("clocks", &jumped);
    }
}
