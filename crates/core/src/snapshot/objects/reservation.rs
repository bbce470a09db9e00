//! A reservation: a pick that is held for its owner. It counts because the state has a pod for it,
//! under a name that no client can give. The answer to the request that made it is kept as long, so
//! that a repeated request gets the same answer and nothing is reserved twice.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::matching::names;
use crate::proto::v1;
use crate::proto::v1::change::Object;

/// The first character of the names of reservations' pods. No valid name has it.
const MARK: char = '~';

/// The owner of reserved picks, the time for which they are held, and the pod that they count as.
#[derive(Debug, Clone)]
pub struct Hold {
    /// The owner.
    pub owner: Arc<str>,
    /// The time for which the picks are held.
    pub ttl: Duration,
    /// The pod by which a pick counts, without a name and a node.
    pub template: Arc<v1::Pod>,
}

/// A pick that is held.
#[derive(Debug, Clone)]
pub struct Reservation {
    /// The owner, and the pod that the pick counts as.
    pub hold: Hold,
    /// The node.
    pub node: Box<str>,
    /// The time when it expires, as reported: by the wall clock of the server that made, confirmed
    /// or renewed it.
    pub expires: SystemTime,
    /// The time that is left at the moment when it is put into a table.
    pub left: Duration,
    /// The pod that it was confirmed for.
    pub claim: Option<Claim>,
    /// The uid of the pod, if a client has decided for it: then the pod counts only here, even
    /// while it is nominated. Empty for others.
    pub decided: Box<str>,
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

/// The key by which the pod of a confirmed reservation is found.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PodIdentity {
    /// The pod's name.
    Name(Box<str>),
    /// The pod's uid.
    Uid(Box<str>),
}

fn pod_name(serial: Serial) -> String {
    format!("{MARK}{serial}")
}

/// Returns the number of the reservation that a pod of this name stands for; `None` for a real pod.
pub fn serial_of(pod_name: &str) -> Option<Serial> {
    pod_name.strip_prefix(MARK)?.parse().ok()
}

/// Returns whether a pod's name is that of a reservation.
pub fn is_reservation(pod_name: &str) -> bool {
    pod_name.starts_with(MARK)
}

impl Claim {
    /// Returns whether the claim is for a pod. A claim without a uid is compared by name.
    pub fn is_of(&self, name: &str, uid: &str) -> bool {
        let same_name = self.name.is_empty() || *self.name == *name;
        let uid_unknown = uid.is_empty() && !self.name.is_empty();
        same_name && (self.uid.is_empty() || uid_unknown || *self.uid == *uid)
    }

    /// Returns the identity by which its pod is looked up.
    pub fn known(&self) -> PodIdentity {
        if self.name.is_empty() {
            PodIdentity::Uid(self.uid.clone())
        } else {
            PodIdentity::Name(self.name.clone())
        }
    }
}

impl Hold {
    /// The namespace that the picks count in.
    pub fn namespace(&self) -> &str {
        let metadata = self.template.metadata.as_ref();
        names::namespace_or_default(metadata.map_or("", |metadata| &metadata.namespace))
    }

    /// The pod by which a pick on a node counts.
    pub fn pod(&self, serial: Serial, node: &str, uid: &str) -> Object {
        let mut pod = v1::Pod::clone(&self.template);
        let metadata = pod.metadata.get_or_insert_default();
        metadata.name = pod_name(serial);
        metadata.uid = uid.to_owned();
        pod.spec.get_or_insert_default().node_name = node.to_owned();
        Object::Pod(pod)
    }
}

impl Reservation {
    /// The deletion of the pod by which it counts.
    pub fn deletion(&self, serial: Serial) -> Object {
        Object::Delete(v1::ObjectReference {
            kind: "Pod".to_owned(),
            namespace: self.hold.namespace().to_owned(),
            name: pod_name(serial),
            uid: self.decided.to_string(),
        })
    }

    /// The pod by which it counts.
    pub fn pod(&self, serial: Serial) -> Object {
        self.hold.pod(serial, &self.node, &self.decided)
    }
}

/// A request that its caller may send again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retryable {
    /// Hash of the caller and of the id that the caller gave the request: those of two callers
    /// never collide.
    pub key: [u8; 32],
    /// Hash of the request's content.
    pub question: [u8; 32],
}

/// An answer, kept for as long as its reservations were to be held.
#[derive(Debug, Clone)]
pub struct KeptAnswer {
    /// The request.
    pub request: Retryable,
    /// The answer, as bytes that the caller knows how to read.
    pub answer: Arc<[u8]>,
    /// The time for which it is kept.
    pub ttl: Duration,
    /// The time when it is forgotten, by the wall clock at the moment of the answer.
    pub expires: SystemTime,
    /// The time that is left at the moment when it is put into a table.
    pub left: Duration,
}

/// A reservation or an answer, kept under a number of one series.
#[derive(Debug, Clone)]
pub enum Numbered {
    /// A reservation.
    Held(Reservation),
    /// An answer.
    Answer(KeptAnswer),
}

impl Numbered {
    /// The time that is left at the moment when it is put into a table.
    pub fn left(&self) -> Duration {
        match self {
            Self::Held(held) => held.left,
            Self::Answer(answer) => answer.left,
        }
    }

    /// Sets the time that is left.
    pub fn set_left(&mut self, left: Duration) {
        match self {
            Self::Held(held) => held.left = left,
            Self::Answer(answer) => answer.left = left,
        }
    }

    /// The reservation, if it is one.
    pub fn reservation(&self) -> Option<&Reservation> {
        match self {
            Self::Held(held) => Some(held),
            Self::Answer(_) => None,
        }
    }
}
