//! Reserves picks in a snapshot, holds pods on nodes that clients chose for them, and ends
//! reservations: by a pod that takes over, at the request of the owner, or when their time is over.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::commit::check_room;
use super::named::Snapshot;
use super::offer::Error;
use super::turn::WriteTurn;
use crate::account::Purpose;
use crate::limits::{Limit, Limits};
use crate::snapshot::clock::Now;
use crate::snapshot::counters;
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::reservation::{
    Claim, Hold, KeptAnswer, Numbered, Reservation, Retryable, Serial,
};

/// The reservations that were made.
#[derive(Debug)]
pub struct Reserved {
    /// The revision with the reservations.
    pub revision: i64,
    /// The ids, in the order of the picks.
    pub ids: Vec<String>,
    /// The time when they end by themselves.
    pub until: SystemTime,
}

/// A reservation, listed.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The reservation's id.
    pub id: String,
    /// The reservation's number, for paging.
    pub serial: Serial,
    /// The reservation itself.
    pub held: Reservation,
}

/// The result of confirming or releasing reservations.
#[derive(Debug)]
pub struct Ended {
    /// The revision afterwards.
    pub revision: i64,
    /// Ids that were not live, in order.
    pub unknown: Vec<String>,
}

/// The results of renewing reservations.
#[derive(Debug)]
pub struct Renewed {
    /// The revision.
    pub revision: i64,
    /// Ids that were not live, in order.
    pub unknown: Vec<String>,
    /// The time when the first renewed reservation ends by itself.
    pub until: Option<SystemTime>,
}

/// The result of reserving.
#[derive(Debug)]
pub enum Reserving<T> {
    /// The picks are reserved; this is the answer.
    Done(T),
    /// The request was answered before, with these bytes. Nothing more is reserved.
    Repeated(Arc<[u8]>),
    /// The request has the key of another one that was answered before. Nothing is reserved.
    KeyTaken,
}

/// The picks that are to be reserved, and the answer about them.
#[derive(Debug)]
pub struct DecidedPicks<T> {
    /// The revision on which the picks were decided.
    pub revision: i64,
    /// The picks: for each the index of its hold, and the node.
    pub picks: Vec<(usize, Box<str>)>,
    /// The answer.
    pub answer: T,
}

/// The present form of reservations with answers to keep, and reservations that end.
type HeldChanges = (Vec<(Serial, Numbered)>, Vec<Serial>);

impl Snapshot {
    /// Returns the earlier answer to a request; `None` when it is new, or the time of the answer is
    /// over.
    pub fn answered<T>(&self, request: &Retryable) -> Option<Reserving<T>> {
        let state = self.state();
        let (kept, ends) = state.reservations.answer(request)?;
        if ends <= self.now().steady {
            return None;
        }
        Some(match kept.request.question == request.question {
            true => Reserving::Repeated(Arc::clone(&kept.answer)),
            false => Reserving::KeyTaken,
        })
    }

    /// Reserves picks for `holds`, with no change between deciding and reserving: if the snapshot
    /// changed since `decided`, `again` decides once more. `tell` writes the reservations into the
    /// answer. If the request may be repeated, the answer is kept in the same entry as the
    /// reservations, so both are there or neither. Waits for other writers and for the journal.
    /// Where others append to the journal, too, the answer that nothing can be reserved is based on
    /// everything that was acknowledged before.
    ///
    /// # Errors
    /// Those of `again`, [`Error::OverLimit`], [`Error::NotStored`], [`Error::Contended`], and
    /// [`Error::NotFound`] when the snapshot was deleted meanwhile. Then nothing is reserved.
    pub fn reserve<T, E: From<Error>>(
        &self,
        (holds, request): (&[Hold], Option<Retryable>),
        limits: &Limits,
        decided: DecidedPicks<T>,
        mut again: impl FnMut() -> Result<DecidedPicks<T>, E>,
        mut tell: impl FnMut(&mut T, Reserved) -> Vec<u8>,
    ) -> Result<Reserving<T>, E> {
        let mut decided = Some(decided);
        let mut turn = WriteTurn::take(self);
        let held = turn.attempt(|turn| {
            if let Some(answered) = request.and_then(|request| self.answered(&request)) {
                return Ok(Ok(answered));
            }
            let is_current = |decided: &DecidedPicks<T>| decided.revision == self.revision();
            let decided = decided.take().filter(is_current);
            let DecidedPicks {
                picks, mut answer, ..
            } = match decided.map_or_else(&mut again, Ok) {
                Ok(decided) => decided,
                Err(error) => return Ok(Err(error)),
            };
            let tell = |reserved| tell(&mut answer, reserved);
            self.hold_in_turn(turn, (holds, request), picks, limits, tell)?;
            Ok(Ok(Reserving::Done(answer)))
        })?;
        held.unwrap_or_else(|| Err(Error::NotFound(self.name().to_owned()).into()))
    }

    /// Reserves picks, and keeps the answer that `tell` writes for a request that may be repeated,
    /// both by one entry if there is anything to record.
    fn hold_in_turn(
        &self,
        turn: &mut WriteTurn<'_>,
        (holds, request): (&[Hold], Option<Retryable>),
        picks: Vec<(usize, Box<str>)>,
        limits: &Limits,
        tell: impl FnOnce(Reserved) -> Vec<u8>,
    ) -> Result<(), Error> {
        let now = self.now();
        let live = Arc::clone(&turn.live);
        let reservations = &live.reservations;
        let answer_count = reservations.answer_count() + usize::from(request.is_some());
        limits.check(Limit::Reservations, reservations.len() + picks.len())?;
        limits.check(Limit::Reservations, answer_count)?;
        let held = reservations.draft(holds, picks, now);
        let ttl = holds.first().map_or(Duration::ZERO, |hold| hold.ttl);
        let last = held.last().map_or(reservations.last, |(last, _)| *last);
        let pods = Batch::trusted(held.iter().map(|(serial, held)| held.pod(*serial)));
        check_room(&live, &pods, limits)?;
        let moves = !held.is_empty();
        let reserved = Reserved {
            revision: live.revision + i64::from(moves),
            ids: held.iter().map(|(serial, _)| self.id(*serial)).collect(),
            until: now.wall + ttl,
        };
        let expires = reserved.until;
        let answer = tell(reserved);
        let kept = |request| {
            Numbered::Answer(KeptAnswer {
                request,
                answer: answer.into(),
                ttl,
                expires,
                left: ttl,
            })
        };
        let mut all = numbered(held);
        all.extend((last + 1..).zip(request.map(kept)));
        if !all.is_empty() {
            self.check_growth()?;
        }
        self.change_held(turn, now, moves, (all, Vec::new()))
    }

    /// Records which pods reservations became. Those whose pod is on a node already end.
    ///
    /// # Errors
    /// [`Error::OverLimit`], [`Error::NotStored`], [`Error::Contended`], and [`Error::NotFound`]
    /// when the snapshot was deleted meanwhile; then nothing was recorded.
    pub fn confirm(&self, claims: Vec<(String, Claim)>) -> Result<Ended, Error> {
        self.in_turn(|turn| {
            let now = self.now();
            let (mut confirmed, mut unknown) = (Vec::new(), Vec::new());
            let reservations = &turn.live.reservations;
            for (id, claim) in &claims {
                let serial = self.serial(id);
                let held = serial.and_then(|s| reservations.confirmed_as(s, claim.clone(), now));
                match serial.zip(held) {
                    Some(held) => confirmed.push(held),
                    None => unknown.push(id.clone()),
                }
            }
            let claims = confirmed.iter().filter_map(|(serial, held)| {
                let namespace = held.hold.namespace();
                Some((*serial, namespace, held.claim.as_ref()?))
            });
            let arrived = turn.live.arrived(claims);
            let kept = |(serial, _): &(Serial, Reservation)| arrived.binary_search(serial).is_err();
            confirmed.retain(kept);
            if !confirmed.is_empty() {
                self.check_growth()?;
            }
            let moves = !arrived.is_empty();
            self.change_held(turn, now, moves, (numbered(confirmed), arrived))?;
            Ok(Ended {
                revision: self.revision(),
                unknown,
            })
        })
    }

    /// Holds reservations for `ttl` from now on, or for as long again as before. None of them ends
    /// earlier than it would have. They count as before, so the revision stays.
    ///
    /// # Errors
    /// [`Error::OverLimit`] and [`Error::NotStored`]; then nothing was renewed.
    pub fn renew(&self, ids: Vec<String>, ttl: Option<Duration>) -> Result<Renewed, Error> {
        self.in_turn(|turn| {
            let (now, is_shared) = (self.now(), self.around.is_shared());
            let (mut longer, mut unknown, mut until) = (Vec::new(), Vec::new(), None);
            let reservations = &turn.live.reservations;
            for id in &ids {
                let serial = self.serial(id);
                let renewed =
                    serial.and_then(|serial| reservations.renewed(serial, ttl, (now, is_shared)));
                let Some((serial, (held, is_longer))) = serial.zip(renewed) else {
                    unknown.push(id.clone());
                    continue;
                };
                until = until.into_iter().chain([held.expires]).min();
                longer.extend(is_longer.then_some((serial, held)));
            }
            self.change_held(turn, now, false, (numbered(longer), Vec::new()))?;
            Ok(Renewed {
                revision: self.revision(),
                unknown,
                until,
            })
        })
    }

    /// Releases reservations.
    ///
    /// # Errors
    /// [`Error::NotStored`]. Then they still count.
    pub fn release(&self, ids: Vec<String>) -> Result<Ended, Error> {
        self.in_turn(|turn| {
            let now = self.now();
            let mut serials = Vec::new();
            let mut unknown = Vec::new();
            for id in &ids {
                let is_held = |serial: &Serial| turn.live.reservations.holds(*serial);
                match self.serial(id).filter(is_held) {
                    Some(serial) => serials.push(serial),
                    None => unknown.push(id.clone()),
                }
            }
            let moves = !serials.is_empty();
            self.change_held(turn, now, moves, (Vec::new(), serials))?;
            Ok(Ended {
                revision: self.revision(),
                unknown,
            })
        })
    }

    /// Up to `count` live reservations after a number, oldest first; those of one owner, unless
    /// `owner` is empty.
    pub fn reservations(&self, after: Serial, owner: &str, count: usize) -> Vec<Listed> {
        let state = self.state();
        let all = state.reservations.after(after);
        let asked = all.filter(|(_, held)| owner.is_empty() || *held.hold.owner == *owner);
        let listed = |(serial, held): (Serial, &Reservation)| Listed {
            id: self.id(serial),
            serial,
            held: held.clone(),
        };
        asked.take(count).map(listed).collect()
    }

    /// Records the present form of reservations, answers to keep, and reservations that end, by one
    /// entry if there is anything to record. It moves the revision if pods begin or cease to count.
    pub(super) fn change_held(
        &self,
        turn: &mut WriteTurn<'_>,
        now: Now,
        moves: bool,
        (held, ended): HeldChanges,
    ) -> Result<(), Error> {
        if held.is_empty() && ended.is_empty() {
            return Ok(());
        }
        let mut entry = turn.entry();
        if moves {
            entry.after.revision += 1;
            entry.after.updated = now.wall;
        }
        let known = entry.after.last_serial;
        let new = held.iter().filter(|(serial, _)| *serial > known);
        let made = new.filter(|(_, it)| it.reservation().is_some()).count();
        let serials = held.iter().map(|(serial, _)| *serial);
        entry.after.last_serial = serials.fold(known, Serial::max);
        entry.after.held = held;
        entry.ended = ended;
        turn.change(entry, now, None)?;
        counters::add(&self.around.counters.reserved, made);
        Ok(())
    }

    /// Checks that the table of reservations may grow.
    pub(super) fn check_growth(&self) -> Result<(), Error> {
        Ok(self.around.account.check(Purpose::Objects, 0)?)
    }
}

fn numbered(held: Vec<(Serial, Reservation)>) -> Vec<(Serial, Numbered)> {
    let numbered = |(serial, held)| (serial, Numbered::Held(held));
    held.into_iter().map(numbered).collect()
}

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
            self.change_held(turn, now, true, (numbered(held), ended))?;
            Ok(Assigned {
                revision: self.revision(),
                ids,
                until,
            })
        })
    }

    /// Ends all reservations whose time is over, in one entry. They count until the entry is recorded.
    /// This call waits for the journal, so that readers need not.
    ///
    /// # Errors
    /// [`Error::NotStored`]. Then they still count.
    pub fn end_expired(&self) -> Result<(), Error> {
        if self.until_next_end() != Some(Duration::ZERO) {
            return Ok(());
        }
        let ended = WriteTurn::take(self).attempt(|turn| {
            let now = self.now();
            let reservations = &turn.live.reservations;
            let ended = reservations.expired(now.steady);
            let held = ended.iter().filter(|serial| reservations.holds(**serial));
            let count = held.count();
            // The revision stays if only answers are forgotten, which no reader can see.
            self.change_held(turn, now, count > 0, (Vec::new(), ended))?;
            counters::add(&self.around.counters.expired, count);
            Ok(())
        });
        ended.map(drop)
    }

    /// Returns the time until the next reservation ends; zero when its time is already over. `None`
    /// when there are none.
    pub fn until_next_end(&self) -> Option<Duration> {
        let next = self.state().reservations.next_expiry()?;
        Some(next.since(self.now().steady))
    }

    /// Returns the id of a reservation. Ids are unique across restarts, because epochs are.
    pub(super) fn id(&self, serial: Serial) -> String {
        format!("{}-{serial}", self.id_prefix())
    }

    /// Returns the number of the reservation with an id, if it is one of this history.
    pub(super) fn serial(&self, id: &str) -> Option<Serial> {
        id.strip_prefix(self.id_prefix())?
            .strip_prefix('-')?
            .parse()
            .ok()
    }

    /// Returns the present id of the reservation that got `id`, in this epoch of the snapshot or an
    /// earlier one.
    pub fn current_id(&self, id: &str) -> String {
        let serial = id.rsplit('-').next().and_then(|serial| serial.parse().ok());
        serial.map_or_else(|| id.to_owned(), |serial| self.id(serial))
    }

    fn id_prefix(&self) -> &str {
        self.epoch().split('-').next().unwrap_or_default()
    }
}
