//! The table of reservations: picks that are held for their owners, and the answers about them.
//!
//! A reservation counts because the state has a pod for it, under a name that no client can give.
//! The table, which is a part of the state, knows its owner and its end. A clone shares all that does
//! not change.

use std::time::Duration;

use rpds::{HashTrieMapSync, RedBlackTreeMapSync, RedBlackTreeSetSync};

use crate::proto::v1::change::Object;
use crate::snapshot::clock::{Moment, Now};
use crate::snapshot::objects::change::{Batch, Form};
use crate::snapshot::objects::reservation::{
    Claim, Hold, KeptAnswer, Numbered, PodIdentity, Reservation, Retryable, Serial,
};

/// The live reservations of a snapshot, and the answers that are kept for retries.
#[derive(Debug, Clone, Default)]
pub struct ReservationTable {
    /// Both, each with the moment when it ends by itself.
    all: RedBlackTreeMapSync<Serial, (Numbered, Moment)>,
    /// The number of answers.
    answers: usize,
    /// The last answer for each key.
    answered: HashTrieMapSync<[u8; 32], Serial>,
    by_expiry: RedBlackTreeSetSync<(Moment, Serial)>,
    /// Confirmed reservations, by namespace and the identity of their pod.
    claims: HashTrieMapSync<(Box<str>, PodIdentity), Vec<Serial>>,
    /// The number of the last reservation ever made.
    pub last: Serial,
}

impl ReservationTable {
    /// New reservations that hold picks from `now` on, to be put in. Each pick has the index of its
    /// hold.
    pub fn draft(
        &self,
        holds: &[Hold],
        picks: Vec<(usize, Box<str>)>,
        now: Now,
    ) -> Vec<(Serial, Reservation)> {
        let held = |(hold, node): (usize, Box<str>)| {
            let hold: &Hold = &holds[hold];
            Reservation {
                hold: hold.clone(),
                node,
                expires: now.wall + hold.ttl,
                left: hold.ttl,
                claim: None,
                decided: Box::default(),
            }
        };
        (self.last + 1..).zip(picks.into_iter().map(held)).collect()
    }

    /// Records the present form of reservations from `now` on, and keeps answers. Those whose time
    /// is over stay until an entry ends them.
    pub fn put_all(&mut self, all: &[(Serial, Numbered)], now: Moment) {
        for (serial, numbered) in all {
            self.put(*serial, numbered.clone(), now);
        }
    }

    fn put(&mut self, serial: Serial, numbered: Numbered, now: Moment) {
        self.remove(serial);
        self.last = self.last.max(serial);
        let ends = now.after(numbered.left());
        self.by_expiry.insert_mut((ends, serial));
        match &numbered {
            Numbered::Held(held) => {
                if let Some(key) = claim_key(held) {
                    let mut serials = self.claims.get(&key).cloned().unwrap_or_default();
                    serials.push(serial);
                    self.claims.insert_mut(key, serials);
                }
            }
            Numbered::Answer(answer) => {
                self.answers += 1;
                self.answered.insert_mut(answer.request.key, serial);
            }
        }
        self.all.insert_mut(serial, (numbered, ends));
    }

    /// Ends reservations, and forgets answers.
    pub fn remove_all(&mut self, serials: &[Serial]) {
        serials.iter().for_each(|serial| self.remove(*serial));
    }

    /// The answer that is kept under the key of a request, and the moment when its time is over.
    pub fn answer(&self, request: &Retryable) -> Option<(&KeptAnswer, Moment)> {
        match self.all.get(self.answered.get(&request.key)?)? {
            (Numbered::Answer(answer), ends) => Some((answer, *ends)),
            (Numbered::Held(_), _) => None,
        }
    }

    /// Returns the number of answers.
    pub fn answer_count(&self) -> usize {
        self.answers
    }

    /// Returns whether a reservation is live.
    pub fn holds(&self, serial: Serial) -> bool {
        self.get(serial).is_some()
    }

    fn get(&self, serial: Serial) -> Option<&Reservation> {
        self.all.get(&serial)?.0.reservation()
    }

    /// The pods of reservations.
    pub fn pods(&self, serials: &[Serial]) -> Vec<Object> {
        let held = |serial: &Serial| Some(self.get(*serial)?.pod(*serial));
        serials.iter().filter_map(held).collect()
    }

    /// The deletions of the pods of reservations.
    pub fn deletions(&self, serials: &[Serial]) -> Vec<Object> {
        let deletion = |serial: &Serial| Some(self.get(*serial)?.deletion(*serial));
        serials.iter().filter_map(deletion).collect()
    }

    /// Ends a reservation, or forgets an answer.
    fn remove(&mut self, serial: Serial) {
        let Some((numbered, ends)) = self.all.get(&serial) else {
            return;
        };
        self.by_expiry.remove_mut(&(*ends, serial));
        match numbered {
            Numbered::Answer(answer) => {
                self.answers -= 1;
                let key = answer.request.key;
                if self.answered.get(&key) == Some(&serial) {
                    self.answered.remove_mut(&key);
                }
            }
            Numbered::Held(held) => {
                if let Some(key) = claim_key(held)
                    && let Some(serials) = self.claims.get(&key)
                {
                    let mut serials = serials.clone();
                    serials.retain(|other| *other != serial);
                    if serials.is_empty() {
                        self.claims.remove_mut(&key);
                    } else {
                        self.claims.insert_mut(key, serials);
                    }
                }
            }
        }
        self.all.remove_mut(&serial);
    }

    /// A reservation with the pod that it became and a new time, to be put in. `None` when it is
    /// not live.
    pub fn confirmed_as(&self, serial: Serial, claim: Claim, now: Now) -> Option<Reservation> {
        let mut held = self.get(serial)?.clone();
        held.claim = Some(claim);
        held.expires = now.wall + held.hold.ttl;
        held.left = held.hold.ttl;
        Some(held)
    }

    /// A reservation that is held for `ttl` from now on, or for as long as before; unchanged if
    /// that would end it earlier. The flag tells whether the reservation is to be put in: it has
    /// changed, or `others` measure its time as well, and may have measured more of it. `None` when
    /// the reservation is not live.
    pub fn renewed(
        &self,
        serial: Serial,
        ttl: Option<Duration>,
        (now, others): (Now, bool),
    ) -> Option<(Reservation, bool)> {
        let (numbered, ends) = self.all.get(&serial)?;
        let mut held = numbered.reservation()?.clone();
        let ttl = ttl.unwrap_or(held.hold.ttl);
        let is_put = others || now.steady.after(ttl) > *ends;
        if is_put {
            held.left = ttl.max(ends.since(now.steady));
            held.hold.ttl = held.left;
            held.expires = now.wall + held.left;
        }
        Some((held, is_put))
    }

    /// The reservations that the pods of a batch take over: those of pods that it puts on a node.
    pub fn taken_over(&self, batch: &Batch) -> Vec<Serial> {
        if self.claims.is_empty() {
            return Vec::new();
        }
        let mut taken = Vec::new();
        for change in batch.changes() {
            let id = change.id;
            if let Form::Pod(pod) = change.form
                && !pod.node_name().is_empty()
            {
                taken.extend(self.claimed(id.namespace, id.name, &pod.life.uid()));
            }
        }
        taken.sort_unstable();
        taken.dedup();
        taken
    }

    /// The reservations that were confirmed for a pod.
    pub fn claimed(&self, namespace: &str, name: &str, uid: &str) -> Vec<Serial> {
        let known = [PodIdentity::Name(name.into()), PodIdentity::Uid(uid.into())];
        let lists = known.map(|known| self.claims.get(&(namespace.into(), known)));
        let all = lists.into_iter().flatten().flatten().copied();
        let meant = |serial: &Serial| {
            let claim = self.get(*serial).and_then(|held| held.claim.as_ref());
            claim.is_some_and(|claim| claim.is_of(name, uid))
        };
        all.filter(meant).collect()
    }

    /// The confirmed reservations.
    pub fn confirmed(&self) -> impl Iterator<Item = (Serial, &str, &Claim)> {
        let claim = |serial: &Serial| {
            let held = self.get(*serial)?;
            Some((*serial, held.hold.namespace(), held.claim.as_ref()?))
        };
        self.claims.values().flatten().filter_map(claim)
    }

    /// The reservations and answers whose time is over, ascending.
    pub fn expired(&self, now: Moment) -> Vec<Serial> {
        let due = self.by_expiry.iter().take_while(|(at, _)| *at <= now);
        let mut due: Vec<_> = due.map(|(_, serial)| *serial).collect();
        due.sort_unstable();
        due
    }

    /// Returns the moment when the next reservation or answer ends.
    pub fn next_expiry(&self) -> Option<Moment> {
        self.by_expiry.first().map(|(at, _)| *at)
    }

    /// The reservations after a number, oldest first.
    pub fn after(&self, serial: Serial) -> impl Iterator<Item = (Serial, &Reservation)> {
        let later = self.all.range(serial.saturating_add(1)..);
        later.filter_map(|(serial, (numbered, _))| Some((*serial, numbered.reservation()?)))
    }

    /// All reservations and answers, oldest first, with the time that is left now.
    pub fn entries(&self, now: Moment) -> Vec<(Serial, Numbered)> {
        let entry = |(serial, (numbered, ends)): (&Serial, &(Numbered, Moment))| {
            let mut numbered = numbered.clone();
            numbered.set_left(ends.since(now));
            (*serial, numbered)
        };
        self.all.iter().map(entry).collect()
    }

    /// The numbers of all reservations and answers, ascending.
    pub fn serials(&self) -> Vec<Serial> {
        self.all.keys().copied().collect()
    }

    /// Returns the number of reservations.
    pub fn len(&self) -> usize {
        self.all.size() - self.answers
    }
}

/// Returns the key under which a confirmed reservation is found.
fn claim_key(held: &Reservation) -> Option<(Box<str>, PodIdentity)> {
    let claim = held.claim.as_ref()?;
    Some((Box::from(held.hold.namespace()), claim.known()))
}
