//! How a snapshot holds picks, and how what it holds ends: by a pod that
//! takes over, by its owner's word, or by time.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::capacity::check_room;
use super::error::Error;
use super::journal::{Entry, JournalError};
use super::named::Snapshot;
use super::turn::WriteTurn;
use crate::account::{Charge, Part};
use crate::limits::{Limit, Limits};
use crate::snapshot::clock::Now;
use crate::snapshot::counters;
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::reservation::{
    Claim, Hold, KeptAnswer, Reservation, Retryable, Serial,
};

/// What was reserved.
#[derive(Debug)]
pub struct Reserved {
    /// The revision that holds it.
    pub revision: i64,
    /// The ids, in the order of the picks.
    pub ids: Vec<String>,
    /// When they end by themselves.
    pub until: SystemTime,
}

/// A reservation, listed.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Its id.
    pub id: String,
    /// Its number, for paging.
    pub serial: Serial,
    /// The rest.
    pub held: Reservation,
}

/// The results for reservations.
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
    /// When the first of the others ends by itself.
    pub until: Option<SystemTime>,
}

/// What came of reserving.
#[derive(Debug)]
pub enum Reserving<T> {
    /// The picks are held; this is the answer.
    Done(T),
    /// The request was answered before, with these bytes. Nothing more is held.
    Repeated(Arc<[u8]>),
    /// The request has the key of another one that was answered before. Nothing
    /// is held.
    KeyTaken,
}

/// What is to be held, and the answer that says so.
#[derive(Debug)]
pub struct DecidedPicks<T> {
    /// The revision that it was decided on.
    pub revision: i64,
    /// The nodes of the picks.
    pub nodes: Vec<Box<str>>,
    /// The answer.
    pub answer: T,
}

impl Snapshot {
    /// Returns what was answered to a request before; `None` when it is new.
    pub fn answered<T>(&self, request: &Retryable) -> Option<Reserving<T>> {
        let book = self.book();
        let kept = book.answer(request, self.now())?;
        Some(match kept.request.question == request.question {
            true => Reserving::Repeated(Arc::clone(&kept.answer)),
            false => Reserving::KeyTaken,
        })
    }

    /// Reserves picks, with no change between deciding and reserving: if the
    /// snapshot changed since `decided`, `again` decides once more. `tell` writes
    /// what was reserved into the answer. Of a request that may come again, the
    /// bytes of the answer that `tell` gives are kept in the same entry as the
    /// reservations, so both are there or neither. Waits for other writers and
    /// for the journal. Where others append to the journal too, that nothing can be
    /// held is said only of all that was acknowledged before.
    ///
    /// # Errors
    /// Those of `again`, [`Error::OverLimit`], [`Error::NotStored`],
    /// [`Error::Contended`], and
    /// [`Error::NotFound`] when the snapshot was deleted meanwhile. Then
    /// nothing is reserved.
    pub fn reserve<T, E: From<Error>>(
        &self,
        (hold, request): (&Hold, Option<Retryable>),
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
                nodes, mut answer, ..
            } = match decided.map_or_else(&mut again, Ok) {
                Ok(decided) => decided,
                Err(error) => return Ok(Err(error)),
            };
            let tell = |reserved| tell(&mut answer, reserved);
            self.hold_in_turn(turn, (hold, request), nodes, limits, tell)?;
            Ok(Ok(Reserving::Done(answer)))
        })?;
        held.unwrap_or_else(|| Err(Error::NotFound(self.name().to_owned()).into()))
    }

    /// Holds picks, and keeps the answer that `tell` makes of that for a request
    /// that may come again, both by one entry if there is anything to record.
    fn hold_in_turn(
        &self,
        turn: &mut WriteTurn<'_>,
        (hold, request): (&Hold, Option<Retryable>),
        nodes: Vec<Box<str>>,
        limits: &Limits,
        tell: impl FnOnce(Reserved) -> Vec<u8>,
    ) -> Result<(), Error> {
        let now = self.now();
        let live = Arc::clone(&turn.live);
        let book = self.book();
        let answer_count = book.answer_count() + usize::from(request.is_some());
        limits.check(Limit::Reservations, book.len() + nodes.len())?;
        limits.check(Limit::Reservations, answer_count)?;
        let held = book.draft(hold, nodes, now);
        let last = held.last().map_or(book.last, |(last, _)| *last);
        drop(book);
        let pods = Batch::trusted(held.iter().map(|(serial, held)| held.pod(*serial)));
        let _room = check_room(&live, &pods, limits)?;
        let moves = !held.is_empty();
        let reserved = Reserved {
            revision: live.revision() + i64::from(moves),
            ids: held.iter().map(|(serial, _)| self.id(*serial)).collect(),
            until: now.wall + hold.ttl,
        };
        let (revision, expires) = (reserved.revision, reserved.until);
        let answer = tell(reserved);
        let kept = |request| KeptAnswer {
            request,
            answer: answer.into(),
            ttl: hold.ttl,
            expires,
        };
        let answers: Vec<_> = (last + 1..).zip(request.map(kept)).collect();
        let _book_room = self.check_book(&held, &answers)?;
        if !moves && answers.is_empty() {
            return Ok(());
        }
        let before = turn.entry();
        let entry = Entry {
            revision,
            updated: if moves { now.wall } else { before.updated },
            last_serial: last + answers.len() as Serial,
            held: &held,
            answers: &answers,
            ..before
        };
        self.record_held(turn, entry)?;
        counters::add(&self.around.counters.reserved, held.len());
        self.put(held, answers, now);
        if moves {
            turn.apply_own(&pods, revision, now);
        }
        Ok(())
    }

    /// Records the entry of reservations. Where it stays unknown whether it is recorded,
    /// and nobody asks again, they are released if it is.
    pub(super) fn record_held(
        &self,
        turn: &mut WriteTurn<'_>,
        entry: Entry<'_>,
    ) -> Result<(), Error> {
        let recorded = turn.record(vec![entry]);
        // With an id the same request asks again what became of it.
        if let Err(Error::NotStored(JournalError::UnknownFate(doubt))) = &recorded
            && entry.answers.is_empty()
        {
            let serials = entry.held.iter().map(|(serial, _)| *serial).collect();
            let number = turn.position.sequence + 1;
            self.unclaimed.lock().doubt(number, doubt.mark, serials);
        }
        recorded
    }

    /// Notes which pods reservations became. Those whose pod is on a node
    /// already end.
    ///
    /// # Errors
    /// [`Error::OverLimit`], [`Error::NotStored`], [`Error::Contended`], and
    /// [`Error::NotFound`] when the snapshot was deleted meanwhile; nothing was noted then.
    pub fn confirm(&self, claims: Vec<(String, Claim)>) -> Result<Ended, Error> {
        self.in_turn(|turn| {
            let now = self.now();
            let (mut confirmed, mut unknown) = (Vec::new(), Vec::new());
            let book = self.book();
            for (id, claim) in &claims {
                let serial = self.serial(id);
                let held = serial.and_then(|s| book.confirmed_as(s, claim.clone(), now));
                match serial.zip(held) {
                    Some(held) => confirmed.push(held),
                    None => unknown.push(id.clone()),
                }
            }
            drop(book);
            let claims = confirmed.iter().filter_map(|(serial, held)| {
                let namespace = &*held.hold.namespace;
                Some((*serial, namespace, held.claim.as_ref()?))
            });
            let arrived = turn.live.arrived(claims);
            let kept = |(serial, _): &(Serial, Reservation)| arrived.binary_search(serial).is_err();
            confirmed.retain(kept);
            let _room = self.check_book(&confirmed, &[])?;
            self.end_in_turn(turn, confirmed, &arrived, now)?;
            Ok(Ended {
                revision: self.revision(),
                unknown,
            })
        })
    }

    /// Holds reservations for `ttl` from now on, or for as long again as they were
    /// to be held. None of them ends earlier than it would have. They count as
    /// before, so the revision stays.
    ///
    /// # Errors
    /// [`Error::OverLimit`] and [`Error::NotStored`]; nothing was renewed then.
    pub fn renew(&self, ids: Vec<String>, ttl: Option<Duration>) -> Result<Renewed, Error> {
        self.in_turn(|turn| {
            let now = self.now();
            let (mut longer, mut unknown, mut until) = (Vec::new(), Vec::new(), None);
            let book = self.book();
            for id in &ids {
                let serial = self.serial(id);
                let renewed = serial.and_then(|serial| book.renewed(serial, ttl, now));
                let Some((serial, (held, is_longer))) = serial.zip(renewed) else {
                    unknown.push(id.clone());
                    continue;
                };
                until = until.into_iter().chain([held.expires]).min();
                longer.extend(is_longer.then_some((serial, held)));
            }
            drop(book);
            let _room = self.check_book(&longer, &[])?;
            self.end_in_turn(turn, longer, &[], now)?;
            Ok(Renewed {
                revision: self.revision(),
                unknown,
                until,
            })
        })
    }

    /// Gives reservations up.
    ///
    /// # Errors
    /// [`Error::NotStored`]. Then they still count.
    pub fn release(&self, ids: Vec<String>) -> Result<Ended, Error> {
        self.in_turn(|turn| {
            let now = self.now();
            let mut serials = Vec::new();
            let mut unknown = Vec::new();
            let live = self.book().serials();
            for id in &ids {
                match self.serial(id).filter(|s| live.binary_search(s).is_ok()) {
                    Some(serial) => serials.push(serial),
                    None => unknown.push(id.clone()),
                }
            }
            self.end_in_turn(turn, Vec::new(), &serials, now)?;
            Ok(Ended {
                revision: self.revision(),
                unknown,
            })
        })
    }

    /// Up to `count` live reservations after one, oldest first; of one owner
    /// unless that is empty.
    pub fn reservations(&self, after: Serial, owner: &str, count: usize) -> Vec<Listed> {
        let book = self.book();
        let all = book.after(after);
        let asked = all.filter(|(_, held)| owner.is_empty() || *held.hold.owner == *owner);
        let listed = |(serial, held): (Serial, &Reservation)| Listed {
            id: self.id(serial),
            serial,
            held: held.clone(),
        };
        asked.take(count).map(listed).collect()
    }

    /// Ends reservations, and notes how others are from now on, once the
    /// journal knows.
    fn end_in_turn(
        &self,
        turn: &mut WriteTurn<'_>,
        held: Vec<(Serial, Reservation)>,
        ended: &[Serial],
        now: Now,
    ) -> Result<(), Error> {
        if held.is_empty() && ended.is_empty() {
            return Ok(());
        }
        let before = turn.entry();
        let moves = !ended.is_empty();
        let revision = before.revision + i64::from(moves);
        turn.record(vec![Entry {
            revision,
            updated: if moves { now.wall } else { before.updated },
            held: &held,
            ended,
            ..before
        }])?;
        self.put(held, Vec::new(), now);
        if moves {
            turn.apply_ends(ended, revision, now);
        }
        Ok(())
    }

    /// Checks that the book may grow; room in memory for that, to be held until
    /// it has.
    pub(super) fn check_book(
        &self,
        held: &[(Serial, Reservation)],
        answers: &[(Serial, KeptAnswer)],
    ) -> Result<Charge, Error> {
        let each = held.iter().map(|(_, held)| held.memory_bytes());
        let shared = held.first().map_or(0, |(_, held)| held.hold.memory_bytes());
        let kept = answers.iter().map(|(_, answer)| answer.memory_bytes());
        let bytes = each.sum::<usize>() + shared + kept.sum::<usize>();
        let account = self.held_bytes.account();
        Ok(account.charge(Part::Objects, bytes)?)
    }

    /// The id of a reservation. Ids are unique across restarts: an epoch is.
    pub(super) fn id(&self, serial: Serial) -> String {
        format!("{}-{serial}", self.id_prefix())
    }

    /// The number of the reservation with an id, if it is one of this history.
    pub(super) fn serial(&self, id: &str) -> Option<Serial> {
        id.strip_prefix(self.id_prefix())?
            .strip_prefix('-')?
            .parse()
            .ok()
    }

    /// The id that a reservation has now which got this one, in this epoch of the
    /// snapshot or an earlier one.
    pub fn current_id(&self, id: &str) -> String {
        let serial = id.rsplit('-').next().and_then(|serial| serial.parse().ok());
        serial.map_or_else(|| id.to_owned(), |serial| self.id(serial))
    }

    fn id_prefix(&self) -> &str {
        self.epoch().split('-').next().unwrap_or_default()
    }
}
