//! How pods are held on nodes that others chose for them.

use std::time::SystemTime;

use super::capacity::check_room;
use super::error::Error;
use super::journal::Entry;
use super::named::Snapshot;
use super::turn::WriteTurn;
use crate::limits::{Limit, Limits};
use crate::snapshot::counters;
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::reservation::{Claim, Hold, Reservation, Serial};

/// A pod that goes to a node.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// What it counts as, for whom it is held, and how long.
    pub hold: Hold,
    /// The node.
    pub node: Box<str>,
    /// The pod.
    pub claim: Claim,
}

/// What was held for pods.
#[derive(Debug)]
pub struct Assigned {
    /// The revision that holds it.
    pub revision: i64,
    /// The ids, in the order of the pods; empty for a pod that is on a node already.
    pub ids: Vec<String>,
    /// When the first of them ends by itself. `None` when nothing is held.
    pub until: Option<SystemTime>,
}

impl Snapshot {
    /// Holds pods on nodes, until they arrive on some node. What was held for one of
    /// these pods before ends in the same step. A pod that is on a node already
    /// counts by itself, and nothing is held for it.
    ///
    /// # Errors
    /// [`Error::OverLimit`], [`Error::NotStored`], [`Error::Contended`], and
    /// [`Error::NotFound`] when the snapshot was deleted meanwhile. Then nothing is changed.
    pub fn assign(&self, pods: &[Assignment], limits: &Limits) -> Result<Assigned, Error> {
        self.in_turn(|turn| self.assign_in_turn(turn, pods, limits))
    }

    fn assign_in_turn(
        &self,
        turn: &mut WriteTurn<'_>,
        pods: &[Assignment],
        limits: &Limits,
    ) -> Result<Assigned, Error> {
        let now = self.now();
        let book = self.book();
        let claims = (0..).zip(pods);
        let claims = claims.map(|(i, pod)| (i, &*pod.hold.namespace, &pod.claim));
        let arrived = turn.live.arrived(claims);
        let former =
            |pod: &Assignment| book.claimed(&pod.hold.namespace, &pod.claim.name, &pod.claim.uid);
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
            claim: Some(pod.claim.clone()),
        };
        let held: Vec<_> = (book.last + 1..).zip(coming.map(reservation)).collect();
        let left = book.len() - ended.len();
        limits.check(Limit::Reservations, left + held.len())?;
        let changes = held.iter().map(|(serial, held)| held.pod(*serial));
        let batch = Batch::trusted(changes.chain(book.deletions(&ended)));
        drop(book);
        let mut ids = held.iter().map(|(serial, _)| self.id(*serial));
        let id = |i| match arrived.binary_search(&i) {
            Ok(_) => String::new(),
            Err(_) => ids.next().unwrap_or_default(),
        };
        let ids = (0..pods.len() as Serial).map(id).collect();
        let until = held.iter().map(|(_, held)| held.expires).min();
        let moves = !(held.is_empty() && ended.is_empty());
        if moves {
            self.exchange(turn, held, &ended, &batch, limits)?;
        }
        Ok(Assigned {
            revision: self.revision(),
            ids,
            until,
        })
    }

    /// Holds reservations in the place of others, which `batch` does to the state.
    fn exchange(
        &self,
        turn: &mut WriteTurn<'_>,
        held: Vec<(Serial, Reservation)>,
        ended: &[Serial],
        batch: &Batch,
        limits: &Limits,
    ) -> Result<(), Error> {
        let now = self.now();
        let _room = check_room(&turn.live, batch, limits)?;
        let _book_room = self.check_book(&held, &[])?;
        let before = turn.entry();
        let entry = Entry {
            revision: before.revision + 1,
            updated: now.wall,
            last_serial: held.last().map_or(before.last_serial, |(last, _)| *last),
            held: &held,
            ended,
            ..before
        };
        self.record_held(turn, entry)?;
        counters::add(&self.around.counters.reserved, held.len());
        self.put(held, Vec::new(), now);
        turn.apply_own(batch, before.revision + 1, now);
        self.forget(ended);
        Ok(())
    }
}
