//! Calls of clients about reservations, and their answers.

use std::sync::Arc;
use std::time::Duration;

use evenkeel::limits::Limits;
use evenkeel::snapshot::reserving::{Reserved, Reserving};
use evenkeel::snapshot::{Claim, DecidedPicks, Error, Hold, Retryable, Snapshot};
use support::linearizable::{Event, What};

use crate::simulation::server::Server;
use crate::simulation::world::{NODES, ROOM, reserved};

/// Returns a hold that lasts so long.
pub fn hold(ttl: Duration) -> Hold {
    Hold {
        owner: "a".into(),
        ttl,
        template: Arc::default(),
    }
}

/// Encodes an answer about reservations as the bytes that the snapshot keeps.
fn tell(reserved: &Reserved) -> Vec<u8> {
    format!("{} {}", reserved.revision, reserved.ids.join(" ")).into_bytes()
}

/// Decodes the revision and the ids of such an answer.
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
        let begun = self.world.ledger().tick();
        let until = self.world.now() + holds[0].ttl;
        let decide = || DecidedPicks {
            revision: snapshot.revision(),
            picks: pick(&snapshot).into_iter().map(|node| (0, node)).collect(),
            answer: Vec::new(),
        };
        let decided = decide();
        // A decision takes time, in which others run.
        self.wire.pass();
        let tell = |answer: &mut Vec<u8>, reserved: Reserved| {
            *answer = tell(&reserved);
            answer.clone()
        };
        let again = || Ok::<_, Error>(decide());
        let held = snapshot.reserve((&holds, request), &Limits::default(), decided, again, tell);
        self.told(&format!("reserve {key}"), &held);
        let heard = |answer: &[u8]| {
            let (revision, ids) = told(answer);
            self.world.ledger().ids.extend(ids.iter().cloned());
            (revision, ids)
        };
        let (revision, what) = match held {
            Ok(Reserving::Done(answer)) => {
                let (revision, ids) = heard(&answer);
                let key = request.map(|_| key);
                let picks = ids.into_iter().map(|id| (id, String::new())).collect();
                (revision, What::Reserved { picks, key, until })
            }
            Ok(Reserving::Repeated(answer)) => {
                let (revision, ids) = heard(&answer);
                (revision, What::ReservedBefore { key, ids })
            }
            Ok(Reserving::KeyTaken) => self.world.fail("the key is of another question"),
            Err(_) => return,
        };
        self.note(&snapshot, begun, revision, what);
    }

    /// Notes the end of a call.
    fn note(&self, snapshot: &Snapshot, called: u64, revision: i64, what: What) {
        let event = self.event(snapshot, called, revision, what);
        self.world.ledger().history.push(event);
    }

    fn event(&self, snapshot: &Snapshot, called: u64, revision: i64, what: What) -> Event {
        Event {
            called,
            answered: self.world.ledger().tick(),
            at: self.world.now(),
            retried: false,
            epoch: snapshot.epoch().to_owned(),
            revision,
            what,
        }
    }

    /// Confirms, renews or releases a reservation of any client.
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
        let begun = self.world.ledger().tick();
        let used = |known: bool, until| What::Used {
            id: id.clone(),
            known,
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
                    let used = used(confirmed.unknown.is_empty(), None);
                    self.note(&snapshot, begun, confirmed.revision, used);
                }
            }
            1 => {
                let ttl = Duration::from_millis(dice.below(30_000) as u64);
                let ttl = dice.happens(700).then_some(ttl);
                let until = ttl.map(|ttl| self.world.now() + ttl);
                let renewed = snapshot.renew(vec![id.clone()], ttl);
                self.told("renew", &renewed);
                if let Ok(renewed) = renewed {
                    let used = used(renewed.unknown.is_empty(), until);
                    self.note(&snapshot, begun, renewed.revision, used);
                }
            }
            _ => self.release(&snapshot, id, begun),
        }
    }

    fn release(&self, snapshot: &Snapshot, id: String, begun: u64) {
        // The server may crash before it answers, so the release is first noted as unanswered.
        let unanswered = What::ReleaseUnanswered { id: id.clone() };
        let unanswered = self.event(snapshot, begun, 0, unanswered);
        let place = {
            let history = &mut self.world.ledger().history;
            history.push(unanswered);
            history.len() - 1
        };
        let released = snapshot.release(vec![id.clone()]);
        self.told("release", &released);
        let Ok(released) = released else { return };
        let known = released.unknown.is_empty();
        if known {
            let who = format!("release {id}");
            self.world
                .acknowledge(&who, snapshot.epoch(), released.revision);
        }
        let what = What::Released { id, known };
        let answered = self.event(snapshot, begun, released.revision, what);
        self.world.ledger().history[place] = answered;
    }
}

/// A node with room for one more reservation.
fn pick(snapshot: &Snapshot) -> Option<Box<str>> {
    let counts = reserved(snapshot);
    let room = |node: &String| counts.get(node).is_none_or(|count| *count < ROOM);
    let found = (0..NODES).map(|node| format!("n{node}")).find(room);
    found.map(Into::into)
}
