//! A reservation: a pick that is held for its owner. It counts because the state
//! holds a pod for it, under a name that no client can give. The answer that made it
//! is kept as long, so that the same request gets it again and nothing is reserved
//! twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::account::heap;
use crate::matching::{PodTerm, Requests};
use crate::proto::v1;
use crate::proto::v1::change::Object;
use crate::snapshot::clock::{Moment, Now};

/// Starts the names of the pods that reservations count by. No valid name has
/// it.
const MARK: char = '~';

/// The owner of reserved picks, how long they are held, and the labels that they count with.
#[derive(Debug, Clone)]
pub struct Hold {
    /// The owner.
    pub owner: Arc<str>,
    /// For how long.
    pub ttl: Duration,
    /// Namespace that they count in.
    pub namespace: Arc<str>,
    /// Labels that they count with.
    pub labels: Arc<BTreeMap<String, String>>,
    /// What each requests of its node.
    pub requests: Arc<Requests>,
    /// The terms by which each keeps other pods away.
    pub keeps_away: Arc<[PodTerm]>,
}

/// A pick that is held.
#[derive(Debug, Clone)]
pub struct Reservation {
    /// The owner, and the labels that the pick counts with.
    pub hold: Hold,
    /// The node.
    pub node: Box<str>,
    /// When it expires, as reported and stored: by the wall clock at the moment
    /// when it was made or confirmed.
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

/// What a confirmed reservation's pod is looked up by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PodIdentity {
    /// Its name.
    Name(Box<str>),
    /// Its uid.
    Uid(Box<str>),
}

fn pod_name(serial: Serial) -> String {
    format!("{MARK}{serial}")
}

/// Returns whether a pod's name is that of a reservation.
pub fn is_reservation(pod_name: &str) -> bool {
    pod_name.starts_with(MARK)
}

/// Returns when the time of something is over that was to be kept for `ttl`. The time that
/// is left is what the wall clock says, and never more than that, because the
/// clock may have been set since.
pub fn time_left(expires: SystemTime, ttl: Duration, now: Now) -> Moment {
    let left = expires.duration_since(now.wall).unwrap_or_default();
    now.steady.after(left.min(ttl))
}

impl Claim {
    /// Returns whether it is about a pod. One without a uid is known by its name.
    pub fn is_of(&self, name: &str, uid: &str) -> bool {
        let same_name = self.name.is_empty() || *self.name == *name;
        let uid_unknown = uid.is_empty() && !self.name.is_empty();
        same_name && (self.uid.is_empty() || uid_unknown || *self.uid == *uid)
    }

    /// Returns what its pod is looked up by.
    pub fn known(&self) -> PodIdentity {
        if self.name.is_empty() {
            PodIdentity::Uid(self.uid.clone())
        } else {
            PodIdentity::Name(self.name.clone())
        }
    }
}

impl Hold {
    /// Returns what it takes in memory, shared by all picks that are held so.
    pub fn memory_bytes(&self) -> usize {
        heap::shared(self.owner.len())
            + heap::shared(self.namespace.len())
            + heap::shared(size_of_val(&*self.labels))
            + heap::texts(&self.labels)
            + heap::shared(size_of::<Requests>())
            + self.requests.heap_bytes()
            + PodTerm::list_bytes(&self.keeps_away)
    }

    /// The affinity of a pod that keeps others away.
    fn affinity(&self) -> Option<v1::Affinity> {
        let terms: Vec<_> = self.keeps_away.iter().map(PodTerm::to_wire).collect();
        (!terms.is_empty()).then(|| v1::Affinity {
            pod_anti_affinity: Some(v1::PodAffinity {
                required_during_scheduling_ignored_during_execution: terms,
            }),
            ..v1::Affinity::default()
        })
    }

    /// Distinguishes it from equal ones.
    pub fn place(&self) -> usize {
        Arc::as_ptr(&self.owner).cast::<u8>() as usize
    }
}

impl Reservation {
    /// Returns what it takes in memory, without what it shares, where it is kept.
    pub fn memory_bytes(&self) -> usize {
        // It is in two trees, which are half full at worst.
        const PLACES: usize = 2 * (size_of::<Reservation>() + 64);
        let claim = self.claim.as_ref().map_or(0, |claim| {
            let (name, uid) = (heap::block(claim.name.len()), heap::block(claim.uid.len()));
            // It is found by one of them, in its namespace.
            let list = heap::list::<Serial>(4) + 2 * size_of::<(Box<str>, PodIdentity)>();
            2 * (name + uid) + heap::block(self.hold.namespace.len()) + list
        });
        PLACES + heap::block(self.node.len()) + claim
    }

    /// When it ends by itself, if it is so now.
    pub fn ends(&self, now: Now) -> Moment {
        time_left(self.expires, self.hold.ttl, now)
    }

    /// The deletion of the pod by which it counts.
    pub fn deletion(&self, serial: Serial) -> Object {
        Object::Delete(v1::ObjectReference {
            kind: "Pod".to_owned(),
            namespace: self.hold.namespace.to_string(),
            name: pod_name(serial),
            uid: String::new(),
        })
    }

    /// The pod by which it counts.
    pub fn pod(&self, serial: Serial) -> Object {
        Object::Pod(v1::Pod {
            metadata: Some(v1::ObjectMeta {
                name: pod_name(serial),
                namespace: self.hold.namespace.to_string(),
                labels: (*self.hold.labels).clone(),
                ..Default::default()
            }),
            spec: Some(v1::PodSpec {
                node_name: self.node.to_string(),
                containers: self.hold.requests.to_wire().into_iter().collect(),
                affinity: self.hold.affinity(),
                ..Default::default()
            }),
            status: None,
        })
    }
}

/// A request that its caller may send again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retryable {
    /// Hash of its caller and of the id that the caller gave it: those of two
    /// callers never meet.
    pub key: [u8; 32],
    /// Hash of what it asks for.
    pub question: [u8; 32],
}

/// An answer, kept for as long as what it reserved was to be held.
#[derive(Debug, Clone)]
pub struct KeptAnswer {
    /// What was asked.
    pub request: Retryable,
    /// What was answered, as bytes that the caller knows how to read.
    pub answer: Arc<[u8]>,
    /// For how long.
    pub ttl: Duration,
    /// When it is forgotten, by the wall clock at the moment of the answer.
    pub expires: SystemTime,
}

impl KeptAnswer {
    /// Returns what it takes in memory where it is kept.
    pub fn memory_bytes(&self) -> usize {
        // It is in two trees, half full at worst, and found by its key.
        const PLACES: usize = 2 * (size_of::<KeptAnswer>() + 64) + 2 * size_of::<([u8; 32], u64)>();
        PLACES + heap::shared(self.answer.len())
    }

    /// When it is forgotten, if it is so now.
    pub fn ends(&self, now: Now) -> Moment {
        time_left(self.expires, self.ttl, now)
    }
}
