//! Calls of clients about reservations, and their answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::limits::Limits;
use evenkeel::matching::Requests;
use evenkeel::snapshot::{
    Claim, DecidedPicks, Error, Hold, Reserved, Reserving, Retryable, Snapshot,
};

use crate::history::{Did, Op};
use crate::server::Server;
use crate::world::{NODES, ROOM, reserved};

/// Returns what somebody holds for so long.
pub fn hold(ttl: Duration) -> Hold {
    Hold {
        owner: "a".into(),
        ttl,
        namespace: "default".into(),
        labels: Arc::new(BTreeMap::new()),
        requests: Arc::new(Requests::default()),
        keeps_away: Default::default(),
        volumes: Default::default(),
    }
}

/// Returns what is told of reservations, as bytes that are kept.
fn tell(reserved: &Reserved) -> Vec<u8> {
    format!("{} {}", reserved.revision, reserved.ids.join(" ")).into_bytes()
}

/// The revision and the ids of what was told.
fn told(answer: &[u8]) -> (i64, Vec<String>) {
    let text = std::str::from_utf8(answer).expect("it was text");
    let mut words = text.split_whitespace();
    let revision = words.next().and_then(|word| word.parse().ok());
    let ids = words.map(str::to_owned).collect();
    (revision.expect("it begins with a revision"), ids)
}

impl Server {
    /// Reserves a place on a node that has room.
    pub fn reserve(&self) {
        let Some(snapshot) = self.snapshot() else {
            return;
        };
        let dice = &self.world.dice;
        let key = u8::try_from(dice.below(12)).expect("it is small");
        let request = dice.happens(700).then_some(Retryable {
            key: [key; 32],
            question: [0; 32],
        });
        let holds = [hold(Duration::from_millis(200 + dice.below(20_000) as u64))];
        let begun = self.world.ledger().history.tick();
        let until = self.world.now() + holds[0].ttl;
        let decide = || DecidedPicks {
            revision: snapshot.revision(),
            picks: pick(&snapshot).into_iter().map(|node| (0, node)).collect(),
            answer: Vec::new(),
        };
        let decided = decide();
        // A decision takes its time.
        self.wire.pass();
        let tell = |answer: &mut Vec<u8>, reserved: Reserved| {
            *answer = tell(&reserved);
            answer.clone()
        };
        let again = || Ok::<_, Error>(decide());
        let held = snapshot.reserve((&holds, request), &Limits::default(), decided, again, tell);
        self.told(&format!("reserve {key}"), &held);
        let (revision, did) = match held {
            Ok(Reserving::Done(answer)) => {
                let (revision, ids) = told(&answer);
                let key = request.map(|_| key);
                (revision, Did::Reserved { key, ids, until })
            }
            Ok(Reserving::Repeated(answer)) => {
                let (revision, ids) = told(&answer);
                (revision, Did::Repeated { key, ids })
            }
            Ok(Reserving::KeyTaken) => self.world.fail("the key is of another question"),
            Err(_) => return,
        };
        if let Did::Reserved { ids, .. } | Did::Repeated { ids, .. } = &did {
            self.world.ledger().ids.extend(ids.iter().cloned());
        }
        self.note(&snapshot, begun, revision, did);
    }

    /// Notes an answer.
    fn note(&self, snapshot: &Snapshot, begun: u64, revision: i64, did: Did) {
        let at = self.world.now();
        let history = &mut self.world.ledger().history;
        let op = Op {
            begun,
            ended: history.tick(),
            at,
            epoch: snapshot.epoch().to_owned(),
            revision,
            did,
        };
        history.note(op);
    }

    /// Confirms, renews or releases what somebody reserved.
    pub fn settle(&self) {
        let Some(snapshot) = self.snapshot() else {
            return;
        };
        let dice = &self.world.dice;
        let id = {
            let ledger = self.world.ledger();
            if ledger.ids.is_empty() {
                return;
            }
            ledger.ids[dice.below(ledger.ids.len())].clone()
        };
        let begun = self.world.ledger().history.tick();
        let used = |was_held: bool, until| Did::Used {
            id: id.clone(),
            was_held,
            until,
        };
        match dice.below(3) {
            0 => {
                let claim = Claim {
                    name: format!("c{id}").into(),
                    uid: "".into(),
                };
                let confirmed = snapshot.confirm(vec![(id.clone(), claim)]);
                self.told("confirm", &confirmed);
                if let Ok(confirmed) = confirmed {
                    let did = used(confirmed.unknown.is_empty(), None);
                    self.note(&snapshot, begun, confirmed.revision, did);
                }
            }
            1 => {
                let ttl = Duration::from_millis(dice.below(30_000) as u64);
                let ttl = dice.happens(700).then_some(ttl);
                let until = ttl.map(|ttl| self.world.now() + ttl);
                let renewed = snapshot.renew(vec![id.clone()], ttl);
                self.told("renew", &renewed);
                if let Ok(renewed) = renewed {
                    let did = used(renewed.unknown.is_empty(), until);
                    self.note(&snapshot, begun, renewed.revision, did);
                }
            }
            _ => self.release(&snapshot, id, begun),
        }
    }

    fn release(&self, snapshot: &Snapshot, id: String, begun: u64) {
        self.world.ledger().history.give_up(&id);
        let released = snapshot.release(vec![id.clone()]);
        self.told("release", &released);
        let Ok(released) = released else { return };
        let was_held = released.unknown.is_empty();
        if was_held {
            let who = format!("release {id}");
            self.world
                .acknowledge(&who, snapshot.epoch(), released.revision);
        }
        let did = Did::Released { id, was_held };
        self.note(snapshot, begun, released.revision, did);
    }
}

/// A node with room for one more reservation.
fn pick(snapshot: &Snapshot) -> Option<Box<str>> {
    let counts = reserved(snapshot);
    let room = |node: &String| counts.get(node).is_none_or(|count| *count < ROOM);
    let found = (0..NODES).map(|node| format!("n{node}")).find(room);
    found.map(Into::into)
}
