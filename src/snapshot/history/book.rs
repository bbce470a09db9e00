//! The book of reservations: picks that are held for their owners.
//!
//! A reservation counts because the state holds a pod for it, under a name
//! that no client can give. This book knows whose it is and when it ends; it
//! is changed only by whoever has the snapshot's turn, so the two agree.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::account::heap;
use crate::proto::v1;
use crate::proto::v1::change::Object;
use crate::snapshot::clock::{Moment, Now};
use crate::snapshot::objects::change::Identity;

/// Starts the names of the pods that reservations count by. No valid name has
/// it.
const MARK: char = '~';

/// For whom and how long picks are held, and as what they count.
#[derive(Debug, Clone)]
pub struct Hold {
    /// Who holds them.
    pub owner: Arc<str>,
    /// For how long.
    pub ttl: Duration,
    /// Namespace that they count in.
    pub namespace: Arc<str>,
    /// Labels that they count with.
    pub labels: Arc<BTreeMap<String, String>>,
}

/// A pick that is held.
#[derive(Debug, Clone)]
pub struct Held {
    /// For whom, and as what.
    pub hold: Hold,
    /// The node.
    pub node: Box<str>,
    /// When it ends by itself, as it is told and stored: by the wall clock of
    /// the moment that it was made or confirmed.
    pub expires: SystemTime,
    /// The pod that it was confirmed for.
    pub claim: Option<Claim>,
}

/// The pod that a reservation became: its name, its uid or both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claim {
    /// Name; may be empty.
    pub name: Box<str>,
    /// Uid; may be empty.
    pub uid: Box<str>,
}

/// The number of a reservation; grows with each.
pub type Serial = u64;

/// The live reservations of a snapshot.
#[derive(Debug, Default)]
pub struct Book {
    /// Each with when it ends by itself.
    held: BTreeMap<Serial, (Held, Moment)>,
    by_expiry: BTreeSet<(Moment, Serial)>,
    /// Confirmed ones, by namespace and what their pod is known by.
    claims: HashMap<(Box<str>, Known), Vec<Serial>>,
    last: Serial,
    /// How many picks share a hold, by where its owner is.
    sharing: HashMap<usize, usize>,
    /// What holds, nodes and claims take.
    heap_bytes: usize,
}

/// What a confirmed reservation's pod is looked up by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Known {
    Name(Box<str>),
    Uid(Box<str>),
}

/// Whether a pod's name is that of a reservation.
pub fn is_reservation(pod_name: &str) -> bool {
    pod_name.starts_with(MARK)
}

impl Claim {
    /// Whether it is about a pod. One without a uid is known by its name.
    pub fn is_of(&self, name: &str, uid: &str) -> bool {
        let same_name = self.name.is_empty() || *self.name == *name;
        let uid_unknown = uid.is_empty() && !self.name.is_empty();
        same_name && (self.uid.is_empty() || uid_unknown || *self.uid == *uid)
    }

    fn known(&self) -> Known {
        if self.name.is_empty() {
            Known::Uid(self.uid.clone())
        } else {
            Known::Name(self.name.clone())
        }
    }
}

impl Hold {
    /// What it takes in memory, shared by all picks that are held so.
    pub fn memory_bytes(&self) -> usize {
        heap::shared(self.owner.len())
            + heap::shared(self.namespace.len())
            + heap::shared(size_of_val(&*self.labels))
            + heap::texts(&self.labels)
    }

    /// What tells it from others that are equal.
    fn place(&self) -> usize {
        Arc::as_ptr(&self.owner).cast::<u8>() as usize
    }
}

impl Held {
    /// What it takes in memory, without what it shares, where it is kept.
    pub fn memory_bytes(&self) -> usize {
        // It is in two trees, which are half full at worst.
        const PLACES: usize = 2 * (size_of::<Held>() + 64);
        let claim = self.claim.as_ref().map_or(0, |claim| {
            let (name, uid) = (heap::block(claim.name.len()), heap::block(claim.uid.len()));
            // It is found by one of them, in its namespace.
            let list = heap::list::<Serial>(4) + 2 * size_of::<(Box<str>, Known)>();
            2 * (name + uid) + heap::block(self.hold.namespace.len()) + list
        });
        PLACES + heap::block(self.node.len()) + claim
    }

    /// When it ends by itself, if it is so now. The time that is left is what
    /// the wall clock says, and never more than it was to be held for: somebody
    /// may have set that clock since.
    fn ends(&self, now: Now) -> Moment {
        let left = self.expires.duration_since(now.wall).unwrap_or_default();
        now.steady.after(left.min(self.hold.ttl))
    }

    /// The pod by which it counts.
    pub fn pod(&self, serial: Serial) -> Object {
        Object::Pod(v1::Pod {
            metadata: Some(v1::ObjectMeta {
                name: format!("{MARK}{serial}"),
                namespace: self.hold.namespace.to_string(),
                labels: (*self.hold.labels).clone(),
                ..Default::default()
            }),
            spec: Some(v1::PodSpec {
                node_name: self.node.to_string(),
                ..Default::default()
            }),
            status: None,
        })
    }
}

impl Book {
    /// A book as it was kept: reservations, and the number of the last one
    /// ever made. Those whose time is over are in it until their end is an
    /// entry.
    pub fn restored(held: Vec<(Serial, Held)>, last: Serial, now: Now) -> Self {
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
    pub fn draft(&self, hold: &Hold, nodes: Vec<Box<str>>, now: Now) -> Vec<(Serial, Held)> {
        let held = |node| Held {
            hold: hold.clone(),
            node,
            expires: now.wall + hold.ttl,
            claim: None,
        };
        (self.last + 1..).zip(nodes.into_iter().map(held)).collect()
    }

    /// Notes a reservation as it is from `now` on.
    pub fn put(&mut self, serial: Serial, held: Held, now: Now) {
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

    fn get(&self, serial: Serial) -> Option<&Held> {
        self.held.get(&serial).map(|(held, _)| held)
    }

    /// The pods by which reservations count.
    pub fn pods(&self, serials: &[Serial]) -> Vec<Object> {
        let held = |serial: &Serial| Some(self.get(*serial)?.pod(*serial));
        serials.iter().filter_map(held).collect()
    }

    /// The deletions of those pods.
    pub fn deletions(&self, serials: &[Serial]) -> Vec<Object> {
        let deletion = |serial: &Serial| {
            Some(Object::Delete(v1::ObjectReference {
                kind: "Pod".to_owned(),
                namespace: self.get(*serial)?.hold.namespace.to_string(),
                name: format!("{MARK}{serial}"),
                uid: String::new(),
            }))
        };
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

    /// A reservation with the pod that it became, and its time anew, to be put
    /// in; `None` when it is not live.
    pub fn confirmed_as(&self, serial: Serial, claim: Claim, now: Now) -> Option<Held> {
        let mut held = self.get(serial)?.clone();
        held.claim = Some(claim);
        held.expires = now.wall + held.hold.ttl;
        Some(held)
    }

    fn unclaim(&mut self, serial: Serial, held: &Held) {
        let Some(claim) = &held.claim else { return };
        let key = (Box::from(&*held.hold.namespace), claim.known());
        if let Some(serials) = self.claims.get_mut(&key) {
            serials.retain(|other| *other != serial);
            if serials.is_empty() {
                self.claims.remove(&key);
            }
        }
    }

    /// The reservations that pods take over which these changes put on a
    /// node.
    pub fn taken_over(&self, objects: &[Object]) -> Vec<Serial> {
        if self.claims.is_empty() {
            return Vec::new();
        }
        let mut taken = Vec::new();
        for object in objects {
            let Object::Pod(pod) = object else { continue };
            let on_node = pod.spec.as_ref().is_some_and(|s| !s.node_name.is_empty());
            if let Some(metadata) = pod.metadata.as_ref().filter(|_| on_node) {
                let namespace = Identity::of(object).namespace;
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
    pub fn after(&self, serial: Serial) -> impl Iterator<Item = (Serial, &Held)> {
        let later = self.held.range(serial.saturating_add(1)..);
        later.map(|(serial, (held, _))| (*serial, held))
    }

    /// All reservations, oldest first.
    pub fn entries(&self) -> Vec<(Serial, Held)> {
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
