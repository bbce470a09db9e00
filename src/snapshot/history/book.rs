//! The book of reservations: picks that are held for their owners.
//!
//! A reservation counts because the state holds a pod for it, under a name that
//! no client can give. The book knows its owner and when it ends. Both change
//! only with the turn of the snapshot, so they agree.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::account::heap;
use crate::proto::v1::change::Object;
use crate::snapshot::clock::{Moment, Now};
use crate::snapshot::objects::change::{Batch, Form};
use crate::snapshot::objects::reservation::{Claim, Hold, Known, Reservation, Serial};

/// The live reservations of a snapshot.
#[derive(Debug, Clone, Default)]
pub struct Reservations {
    /// Each with when it ends by itself.
    held: BTreeMap<Serial, (Reservation, Moment)>,
    by_expiry: BTreeSet<(Moment, Serial)>,
    /// Confirmed ones, by namespace and what their pod is known by.
    claims: HashMap<(Box<str>, Known), Vec<Serial>>,
    last: Serial,
    /// How many picks share a hold, by where its owner is.
    sharing: HashMap<usize, usize>,
    /// What holds, nodes and claims take.
    heap_bytes: usize,
}

impl Reservations {
    /// A book as it was kept: reservations, and the number of the last one
    /// ever made. Those whose time is over are in it until their end is an
    /// entry.
    pub fn restored(held: Vec<(Serial, Reservation)>, last: Serial, now: Now) -> Self {
        let mut book = Self {
            last,
            ..Self::default()
        };
        for (serial, held) in held {
            book.put(serial, held, now);
        }
        book
    }

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

    /// Notes a reservation as it is from `now` on.
    pub fn put(&mut self, serial: Serial, held: Reservation, now: Now) {
        self.remove(serial);
        self.last = self.last.max(serial);
        let ends = held.ends(now);
        self.by_expiry.insert((ends, serial));
        if let Some(claim) = &held.claim {
            let key = (Box::from(&*held.hold.namespace), claim.known());
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

    /// Ends a reservation; whether it was live.
    pub fn remove(&mut self, serial: Serial) -> bool {
        let Some((held, ends)) = self.held.remove(&serial) else {
            return false;
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
        self.unclaim(serial, &held);
        true
    }

    /// A reservation with the pod that it became and a new time, to be put in.
    /// `None` when it is not live.
    pub fn confirmed_as(&self, serial: Serial, claim: Claim, now: Now) -> Option<Reservation> {
        let mut held = self.get(serial)?.clone();
        held.claim = Some(claim);
        held.expires = now.wall + held.hold.ttl;
        Some(held)
    }

    fn unclaim(&mut self, serial: Serial, held: &Reservation) {
        let Some(claim) = &held.claim else { return };
        let key = (Box::from(&*held.hold.namespace), claim.known());
        if let Some(serials) = self.claims.get_mut(&key) {
            serials.retain(|other| *other != serial);
            if serials.is_empty() {
                self.claims.remove(&key);
            }
        }
    }

    /// The reservations that pods of a batch take over: those that it puts on a
    /// node.
    pub fn taken_over(&self, batch: &Batch) -> Vec<Serial> {
        if self.claims.is_empty() {
            return Vec::new();
        }
        let mut taken = Vec::new();
        for change in batch.changes() {
            let Form::Pod(pod, _) = change.form else {
                continue;
            };
            let on_node = pod.spec.as_ref().is_some_and(|s| !s.node_name.is_empty());
            if let Some(metadata) = pod.metadata.as_ref().filter(|_| on_node) {
                let namespace = change.id.namespace;
                taken.extend(self.claimed(namespace, &metadata.name, &metadata.uid));
            }
        }
        taken.sort_unstable();
        taken.dedup();
        taken
    }

    /// The reservations that were confirmed for a pod.
    fn claimed(&self, namespace: &str, name: &str, uid: &str) -> Vec<Serial> {
        let known = [Known::Name(name.into()), Known::Uid(uid.into())];
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

    /// The reservations whose time is over, ascending.
    pub fn expired(&self, now: Moment) -> Vec<Serial> {
        let due = self.by_expiry.iter().take_while(|(at, _)| *at <= now);
        let mut due: Vec<_> = due.map(|(_, serial)| *serial).collect();
        due.sort_unstable();
        due
    }

    /// When the time of the next one is over.
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

    /// The number of the last one ever made.
    pub fn last(&self) -> Serial {
        self.last
    }

    /// All numbers, ascending.
    pub fn serials(&self) -> Vec<Serial> {
        self.held.keys().copied().collect()
    }

    /// What they take in memory: an estimate, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.heap_bytes + heap::table::<usize, usize>(self.sharing.len())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.held.len()
    }
}
