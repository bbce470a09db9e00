//! The book of reservations: picks that are held for their owners, and the answers
//! that said so.
//!
//! A reservation counts because the state holds a pod for it, under a name that
//! no client can give. The book knows its owner and when it ends. Both change
//! only with the turn of the snapshot, so they agree.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use crate::account::heap;
use crate::proto::v1::change::Object;
use crate::snapshot::clock::{Moment, Now};
use crate::snapshot::objects::change::{Batch, Form};
use crate::snapshot::objects::reservation::{
    Claim, Hold, KeptAnswer, PodIdentity, Reservation, Retryable, Serial,
};

/// The live reservations of a snapshot.
#[derive(Debug, Clone, Default)]
pub struct Reservations {
    /// Each with when it ends by itself.
    held: BTreeMap<Serial, (Reservation, Moment)>,
    /// The answers that are kept for retries, by numbers of the same kind.
    answers: BTreeMap<Serial, (KeptAnswer, Moment)>,
    /// The last of them for each key.
    answered: HashMap<[u8; 32], Serial>,
    by_expiry: BTreeSet<(Moment, Serial)>,
    /// Confirmed ones, by namespace and what their pod is known by.
    claims: HashMap<(Box<str>, PodIdentity), Vec<Serial>>,
    /// The number of the last one ever made.
    pub(super) last: Serial,
    /// How many picks share a hold, by where its owner is.
    sharing: HashMap<usize, usize>,
    /// What holds, nodes and claims take.
    heap_bytes: usize,
}

impl Reservations {
    /// Reservations that hold picks from `now` on, to be put in.
    pub fn draft(&self, hold: &Hold, nodes: Vec<Box<str>>, now: Now) -> Vec<(Serial, Reservation)> {
        let held = |node| Reservation {
            hold: hold.clone(),
            node,
            expires: now.wall + hold.ttl,
            claim: None,
        };
        (self.last + 1..).zip(nodes.into_iter().map(held)).collect()
    }

    /// Notes reservations as they are from `now` on, and keeps answers. Those whose time
    /// is over are in it until their end is an entry.
    pub fn put_all(
        &mut self,
        held: Vec<(Serial, Reservation)>,
        answers: Vec<(Serial, KeptAnswer)>,
        now: Now,
    ) {
        for (serial, held) in held {
            self.put(serial, held, now);
        }
        for (serial, answer) in answers {
            self.keep(serial, answer, now);
        }
    }

    fn put(&mut self, serial: Serial, held: Reservation, now: Now) {
        self.remove(serial);
        self.last = self.last.max(serial);
        let ends = held.ends(now);
        self.by_expiry.insert((ends, serial));
        if let Some(key) = claim_key(&held) {
            self.claims.entry(key).or_default().push(serial);
        }
        self.heap_bytes += held.memory_bytes();
        let sharing = self.sharing.entry(held.hold.place()).or_default();
        *sharing += 1;
        if *sharing == 1 {
            self.heap_bytes += held.hold.memory_bytes();
        }
        self.held.insert(serial, (held, ends));
    }

    fn keep(&mut self, serial: Serial, answer: KeptAnswer, now: Now) {
        self.remove(serial);
        self.last = self.last.max(serial);
        let ends = answer.ends(now);
        self.by_expiry.insert((ends, serial));
        self.answered.insert(answer.request.key, serial);
        self.heap_bytes += answer.memory_bytes();
        self.answers.insert(serial, (answer, ends));
    }

    /// The answer that is kept under the key of a request, unless its time is
    /// over.
    pub fn answer(&self, request: &Retryable, now: Now) -> Option<&KeptAnswer> {
        let serial = self.answered.get(&request.key)?;
        let (answer, ends) = self.answers.get(serial)?;
        (*ends > now.steady).then_some(answer)
    }

    /// All answers.
    pub fn answers(&self) -> Vec<(Serial, KeptAnswer)> {
        let all = self.answers.iter();
        all.map(|(serial, (answer, _))| (*serial, answer.clone()))
            .collect()
    }

    /// Returns how many answers there are.
    pub fn answer_count(&self) -> usize {
        self.answers.len()
    }

    /// Returns whether a reservation is live.
    pub fn holds(&self, serial: Serial) -> bool {
        self.held.contains_key(&serial)
    }

    fn get(&self, serial: Serial) -> Option<&Reservation> {
        self.held.get(&serial).map(|(held, _)| held)
    }

    /// The pods of reservations.
    pub fn pods(&self, serials: &[Serial]) -> Vec<Object> {
        let held = |serial: &Serial| Some(self.get(*serial)?.pod(*serial));
        serials.iter().filter_map(held).collect()
    }

    /// The deletions of those pods.
    pub fn deletions(&self, serials: &[Serial]) -> Vec<Object> {
        let deletion = |serial: &Serial| Some(self.get(*serial)?.deletion(*serial));
        serials.iter().filter_map(deletion).collect()
    }

    /// Ends a reservation, or forgets an answer.
    pub fn remove(&mut self, serial: Serial) {
        if let Some((answer, ends)) = self.answers.remove(&serial) {
            self.by_expiry.remove(&(ends, serial));
            self.heap_bytes -= answer.memory_bytes();
            let key = answer.request.key;
            if self.answered.get(&key) == Some(&serial) {
                self.answered.remove(&key);
            }
        }
        let Some((held, ends)) = self.held.remove(&serial) else {
            return;
        };
        self.by_expiry.remove(&(ends, serial));
        self.heap_bytes -= held.memory_bytes();
        let place = held.hold.place();
        if let Some(sharing) = self.sharing.get_mut(&place) {
            *sharing -= 1;
            if *sharing == 0 {
                self.sharing.remove(&place);
                self.heap_bytes -= held.hold.memory_bytes();
            }
        }
        if let Some(key) = claim_key(&held)
            && let Some(serials) = self.claims.get_mut(&key)
        {
            serials.retain(|other| *other != serial);
            if serials.is_empty() {
                self.claims.remove(&key);
            }
        }
    }

    /// A reservation with the pod that it became and a new time, to be put in.
    /// `None` when it is not live.
    pub fn confirmed_as(&self, serial: Serial, claim: Claim, now: Now) -> Option<Reservation> {
        let mut held = self.get(serial)?.clone();
        held.claim = Some(claim);
        held.expires = now.wall + held.hold.ttl;
        Some(held)
    }

    /// A reservation that is held for `ttl` from now on, or for as long as it was
    /// to be held before; as it is where that would end earlier. The flag says
    /// whether it has changed and is to be put in. `None` when it is not live.
    pub fn renewed(
        &self,
        serial: Serial,
        ttl: Option<Duration>,
        now: Now,
    ) -> Option<(Reservation, bool)> {
        let (held, ends) = self.held.get(&serial)?;
        let mut held = held.clone();
        let ttl = ttl.unwrap_or(held.hold.ttl);
        let is_longer = now.steady.after(ttl) > *ends;
        if is_longer {
            held.hold.ttl = ttl;
            held.expires = now.wall + ttl;
        }
        Some((held, is_longer))
    }

    /// The reservations that pods of a batch take over: those that it puts on a
    /// node.
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
                taken.extend(self.claimed(id.namespace, id.name, &pod.uid()));
            }
        }
        taken.sort_unstable();
        taken.dedup();
        taken
    }

    /// The reservations that were confirmed for a pod.
    pub(super) fn claimed(&self, namespace: &str, name: &str, uid: &str) -> Vec<Serial> {
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
            Some((*serial, &*held.hold.namespace, held.claim.as_ref()?))
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

    /// Returns when the time of the next one is over.
    pub fn next_expiry(&self) -> Option<Moment> {
        self.by_expiry.first().map(|(at, _)| *at)
    }

    /// The reservations after one, oldest first.
    pub fn after(&self, serial: Serial) -> impl Iterator<Item = (Serial, &Reservation)> {
        let later = self.held.range(serial.saturating_add(1)..);
        later.map(|(serial, (held, _))| (*serial, held))
    }

    /// All reservations, oldest first.
    pub fn entries(&self) -> Vec<(Serial, Reservation)> {
        let all = self.held.iter();
        all.map(|(serial, (held, _))| (*serial, held.clone()))
            .collect()
    }

    /// The numbers of all reservations, ascending.
    pub fn serials(&self) -> Vec<Serial> {
        self.held.keys().copied().collect()
    }

    /// Returns what they take in memory: an estimate, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.heap_bytes + heap::table::<usize, usize>(self.sharing.len())
    }

    /// Returns how many reservations there are.
    pub fn len(&self) -> usize {
        self.held.len()
    }
}

/// Returns where a confirmed reservation is found.
fn claim_key(held: &Reservation) -> Option<(Box<str>, PodIdentity)> {
    let claim = held.claim.as_ref()?;
    Some((Box::from(&*held.hold.namespace), claim.known()))
}
