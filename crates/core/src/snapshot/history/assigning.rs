//! Holds pods on nodes that clients chose for them.

use std::time::SystemTime;

use super::capacity::check_room;
use super::error::Error;
use super::named::Snapshot;
use crate::limits::{Limit, Limits};
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::reservation::{Claim, Hold, Reservation, Serial};

/// A pod with the node that it goes to.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// The hold: the labels that the pod counts with, the owner, and the time.
    pub hold: Hold,
    /// The node.
    pub node: Box<str>,
    /// The pod.
    pub claim: Claim,
}

/// The reservations that were made for pods.
#[derive(Debug)]
pub struct Assigned {
    /// The revision with the reservations.
    pub revision: i64,
    /// The ids, in the order of the pods; empty for a pod that is on a node already.
    pub ids: Vec<String>,
    /// The time when the first of them ends by itself. `None` when there are none.
    pub until: Option<SystemTime>,
}

impl Snapshot {
    /// Holds pods on nodes, until they arrive on some node. Earlier reservations for one of these
    /// pods end in the same step. A pod that is on a node already counts by itself, and gets no
    /// reservation.
    ///
    /// # Errors
    /// [`Error::OverLimit`], [`Error::NotStored`], [`Error::Contended`], and [`Error::NotFound`]
    /// when the snapshot was deleted meanwhile. Then nothing is changed.
    pub fn assign(&self, pods: &[Assignment], limits: &Limits) -> Result<Assigned, Error> {
        self.in_turn(|turn| {
            let now = self.now();
            let reservations = &turn.live.reservations;
            let claims = (0..).zip(pods);
            let claims = claims.map(|(i, pod)| (i, pod.hold.namespace(), &pod.claim));
            let arrived = turn.live.arrived(claims);
            let former = |pod: &Assignment| {
                reservations.claimed(pod.hold.namespace(), &pod.claim.name, &pod.claim.uid)
            };
            let mut ended: Vec<Serial> = pods.iter().flat_map(former).collect();
            ended.sort_unstable();
            ended.dedup();
            let coming = (0..)
                .zip(pods)
                .filter(|(i, _)| arrived.binary_search(i).is_err());
            let reservation = |(_, pod): (Serial, &Assignment)| Reservation {
                hold: pod.hold.clone(),
                node: pod.node.clone(),
                expires: now.wall + pod.hold.ttl,
                left: pod.hold.ttl,
                claim: Some(pod.claim.clone()),
                decided: pod.claim.uid.clone(),
            };
            let held: Vec<_> = (reservations.last + 1..)
                .zip(coming.map(reservation))
                .collect();
            let left = reservations.len() - ended.len();
            limits.check(Limit::Reservations, left + held.len())?;
            let changes = held.iter().map(|(serial, held)| held.pod(*serial));
            let batch = Batch::trusted(changes.chain(reservations.deletions(&ended)));
            check_room(&turn.live, &batch, limits)?;
            if !held.is_empty() {
                self.check_growth()?;
            }
            let mut ids = held.iter().map(|(serial, _)| self.id(*serial));
            let id = |i| match arrived.binary_search(&i) {
                Ok(_) => String::new(),
                Err(_) => ids.next().unwrap_or_default(),
            };
            let ids = (0..pods.len() as Serial).map(id).collect();
            let until = held.iter().map(|(_, held)| held.expires).min();
            self.change_held(turn, now, true, (held, Vec::new(), ended))?;
            Ok(Assigned {
                revision: self.revision(),
                ids,
                until,
            })
        })
    }
}
