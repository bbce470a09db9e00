//! How a snapshot holds picks, and how what it holds ends: by a pod that
//! takes over, by its owner's word, or by time.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::change::Batch;
use super::committing::Step;
use super::error::{Error, check_limit};
use super::limits::Limits;
use super::named::{Snapshot, Turn};
use super::reservations::{Claim, Held, Hold, Serial};
use super::staged::check_room;
use super::state::State;
use super::tally;

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
    pub held: Held,
}

/// What became of reservations.
#[derive(Debug)]
pub struct Ended {
    /// The revision afterwards.
    pub revision: i64,
    /// Ids that were not live, in order.
    pub unknown: Vec<String>,
}

/// Stands for "nothing expires".
pub(super) const NEVER: i64 = i64::MAX;

impl Snapshot {
    /// Decides where picks go and holds them, with nothing else happening in
    /// between. `decide` says at which revision it decided, for which nodes,
    /// and its answer; it is asked again, with `true`, when something happened,
    /// and has to read by [`Self::read_in_turn`] then.
    ///
    /// # Errors
    /// Those of `decide`, [`Error::OverLimit`], [`Error::NotStored`], and
    /// [`Error::NotFound`] when the snapshot was deleted meanwhile. Nothing is
    /// held then.
    pub fn reserve<T, E: From<Error>>(
        &self,
        hold: &Hold,
        limits: &Limits,
        mut decide: impl FnMut(bool) -> Result<(i64, Vec<Box<str>>, T), E>,
    ) -> Result<(Reserved, T), E> {
        let (decided_at, mut nodes, mut answer) = decide(false)?;
        let Some(mut turn) = self.take_turn() else {
            return Err(Error::NotFound(self.name().to_owned()).into());
        };
        let now = (self.clock)();
        self.expire_in_turn(&mut turn, now);
        if self.revision() != decided_at {
            (_, nodes, answer) = decide(true)?;
        }
        let count = self.book.lock().len() + nodes.len();
        let limit = limits.max_reservations;
        check_limit("reservations", "max-reservations", limit, count)?;

        let live = self.live();
        let held = self.book.lock().draft(hold, nodes, now);
        let pods = held.iter().map(|(serial, held)| held.pod(*serial));
        let pods = Batch::trusted(pods);
        check_room(&live, &pods, limits)?;
        let ids = held.iter().map(|(serial, _)| self.id(*serial)).collect();
        if let Some((last, _)) = held.last() {
            let step = Step {
                revision: live.revision() + 1,
                at: now,
                last_serial: *last,
                held: &held,
                ..self.standstill(&live)
            };
            self.record(&mut turn, &live, &[step])?;
        }
        tally::add(&self.tally.reserved, held.len());
        self.put(held);
        self.apply_in_turn(&live, &pods, now);
        let reserved = Reserved {
            revision: live.revision(),
            ids,
            until: now + hold.ttl,
        };
        Ok((reserved, answer))
    }

    /// Notes which pods reservations became. Those whose pod is on a node
    /// already end.
    ///
    /// # Errors
    /// [`Error::NotStored`]; nothing was noted then.
    pub fn confirm(&self, claims: Vec<(String, Claim)>) -> Result<Ended, Error> {
        let mut turn = self.turn.lock();
        let now = (self.clock)();
        self.expire_in_turn(&mut turn, now);
        let live = self.live();
        let (mut confirmed, mut unknown) = (Vec::new(), Vec::new());
        let book = self.book.lock();
        for (id, claim) in claims {
            let serial = self.serial(&id);
            let held = serial.and_then(|serial| book.confirmed_as(serial, claim, now));
            match serial.zip(held) {
                Some(held) => confirmed.push(held),
                None => unknown.push(id),
            }
        }
        drop(book);
        let claims = confirmed.iter().filter_map(|(serial, held)| {
            let namespace = &*held.hold.namespace;
            Some((*serial, namespace, held.claim.as_ref()?))
        });
        let arrived = live.arrived(claims);
        let kept = |(serial, _): &(Serial, Held)| arrived.binary_search(serial).is_err();
        confirmed.retain(kept);
        self.end_in_turn(&mut turn, &live, confirmed, &arrived, now)?;
        Ok(Ended {
            revision: self.revision(),
            unknown,
        })
    }

    /// Gives reservations up.
    ///
    /// # Errors
    /// [`Error::NotStored`]; they are held still.
    pub fn release(&self, ids: Vec<String>) -> Result<Ended, Error> {
        let mut turn = self.turn.lock();
        let now = (self.clock)();
        self.expire_in_turn(&mut turn, now);
        let mut serials = Vec::new();
        let mut unknown = Vec::new();
        let live = self.book.lock().serials();
        for id in ids {
            match self.serial(&id).filter(|s| live.binary_search(s).is_ok()) {
                Some(serial) => serials.push(serial),
                None => unknown.push(id),
            }
        }
        self.end_in_turn(&mut turn, &self.live(), Vec::new(), &serials, now)?;
        Ok(Ended {
            revision: self.revision(),
            unknown,
        })
    }

    /// Up to `count` live reservations after one, oldest first; of one owner
    /// unless that is empty.
    pub fn reservations(&self, after: Serial, owner: &str, count: usize) -> Vec<Listed> {
        self.expire();
        let book = self.book.lock();
        let all = book.after(after);
        let asked = all.filter(|(_, held)| owner.is_empty() || *held.hold.owner == *owner);
        let listed = |(serial, held): (Serial, &Held)| Listed {
            id: self.id(serial),
            serial,
            held: held.clone(),
        };
        asked.take(count).map(listed).collect()
    }

    /// Ends the reservations whose time is over. Costs one look at a number
    /// when there is none.
    pub fn expire(&self) {
        if !self.is_expiry_due() {
            return;
        }
        // Whoever decides must not wait for a journal: another look comes with
        // the next decision.
        let turn = match &self.journal {
            None => Some(self.turn.lock()),
            Some(_) => self.turn.try_lock(),
        };
        if let Some(mut turn) = turn {
            self.expire_in_turn(&mut turn, (self.clock)());
        }
    }

    /// Whether the time of a reservation is over that was not ended yet.
    pub(super) fn is_expiry_due(&self) -> bool {
        let due = self.next_expiry.load(Ordering::Acquire);
        due != NEVER && micros((self.clock)()) >= due
    }

    /// As [`Self::expire`], for whoever has the turn. The journal knows when
    /// reservations end, so it need not be told at once.
    pub(super) fn expire_in_turn(&self, turn: &mut Turn, now: SystemTime) {
        let expired = self.book.lock().expired(now);
        tally::add(&self.tally.expired, expired.len());
        self.apply_ends(&self.live(), &expired, now);
        if self.journal.is_some() {
            turn.owed.extend(expired);
        }
    }

    /// Ends reservations, and notes how others are from now on, once the
    /// journal knows.
    fn end_in_turn(
        &self,
        turn: &mut Turn,
        live: &State,
        held: Vec<(Serial, Held)>,
        ended: &[Serial],
        now: SystemTime,
    ) -> Result<(), Error> {
        if held.is_empty() && ended.is_empty() {
            return Ok(());
        }
        let before = self.standstill(live);
        let moves = !ended.is_empty();
        let step = Step {
            revision: live.revision() + i64::from(moves),
            at: if moves { now } else { before.at },
            held: &held,
            ended,
            ..before
        };
        self.record(turn, live, &[step])?;
        self.put(held);
        self.apply_ends(live, ended, now);
        Ok(())
    }

    fn apply_ends(&self, live: &State, ended: &[Serial], now: SystemTime) {
        let deletions = Batch::trusted(self.book.lock().deletions(ended));
        self.apply_in_turn(live, &deletions, now);
        self.forget(ended);
    }

    /// Notes reservations as they are from now on.
    fn put(&self, held: Vec<(Serial, Held)>) {
        let mut book = self.book.lock();
        for (serial, held) in held {
            book.put(serial, held);
        }
        drop(book);
        self.note_expiry();
    }

    /// Takes reservations that the state holds no more out of the book.
    pub(super) fn forget(&self, serials: &[Serial]) {
        if serials.is_empty() {
            return;
        }
        let mut book = self.book.lock();
        for serial in serials {
            book.remove(*serial);
        }
        drop(book);
        self.note_expiry();
    }

    fn apply_in_turn(&self, live: &State, batch: &Batch, now: SystemTime) {
        if !batch.is_empty() {
            let revision = live.revision() + 1;
            let applied = live.apply(batch, None, revision);
            *self.updated.lock() = now;
            self.moved_on(revision, applied, false);
        }
    }

    pub(super) fn note_expiry(&self) {
        let next = self.book.lock().next_expiry();
        self.next_expiry
            .store(next.map_or(NEVER, micros), Ordering::Release);
    }

    /// Ids are unique across restarts: an epoch is.
    fn id(&self, serial: Serial) -> String {
        format!("{}-{serial}", self.id_prefix())
    }

    fn serial(&self, id: &str) -> Option<Serial> {
        id.strip_prefix(self.id_prefix())?
            .strip_prefix('-')?
            .parse()
            .ok()
    }

    fn id_prefix(&self) -> &str {
        self.epoch().split('-').next().unwrap_or_default()
    }
}

/// Microseconds since 1970, before which there is nothing.
pub(super) fn micros(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_micros()).unwrap_or(NEVER - 1)
}
