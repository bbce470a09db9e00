//! A checker of what clients were told of reservations by several servers at the same time. The
//! history is linearizable if one server alone could have told them the same.
//!
//! Each answer names its revision, so the order in which calls took effect is known. What is left
//! to check is that this order agrees with the order in which clients saw calls end and begin, and
//! that a single server gives the same answers if it does the calls in this order.

mod constraints;

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::SystemTime;

pub use self::constraints::Rules;

/// A call that was answered, or a release that was not.
#[derive(Debug, Clone)]
pub struct Event {
    /// The moments at which the call was first sent and was answered, in the order of all that
    /// clients do.
    pub called: u64,
    pub answered: u64,
    /// The time of the answer, by the clock by which reservations expire.
    pub at: SystemTime,
    /// True if it was sent more than once. An earlier try may have been applied.
    pub retried: bool,
    /// The epoch of the revision. A log that lost records begins another.
    pub epoch: String,
    /// The revision that the answer tells.
    pub revision: i64,
    pub what: What,
}

/// A call and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// Reservations were made.
    Reserved {
        /// Ids, each with its node, which only [`Rules`] read.
        picks: Vec<(String, String)>,
        /// The key by which the request can be repeated.
        key: Option<u8>,
        /// The time until which the reservations and the answer are held at least.
        until: SystemTime,
    },
    /// The answer to an earlier request with this key was given again.
    ReservedBefore { key: u8, ids: Vec<String> },
    /// A reservation was confirmed or renewed, if it was known, and is held at least until this
    /// time.
    Used {
        id: String,
        known: bool,
        until: Option<SystemTime>,
    },
    /// A reservation was given up, if it was known.
    Released { id: String, known: bool },
    /// A call to give up a reservation was not answered. It may have been applied, or may be later.
    ReleaseUnanswered { id: String },
    /// The pod of a confirmed reservation arrived on its node.
    Bound { id: String, pod: String },
    /// Such a pod was deleted.
    Deleted { pod: String },
    /// Something changed that takes no room.
    Fed,
    /// The state was read.
    Read,
}

impl Event {
    /// Returns whether no other call can have the same revision.
    fn is_alone(&self) -> bool {
        match &self.what {
            What::Reserved { picks, .. } => !picks.is_empty(),
            What::Released { known, .. } => *known,
            What::Bound { .. } | What::Fed => !self.retried,
            _ => false,
        }
    }

    /// Returns whether the revision is that of the state when the call was answered.
    fn is_of_its_time(&self) -> bool {
        !matches!(
            self.what,
            What::ReservedBefore { .. } | What::ReleaseUnanswered { .. }
        )
    }
}

/// Returns the parts of a history that could not have happened at a single server.
pub fn faults(history: &[Event], rules: Option<&Rules>) -> Vec<String> {
    let mut faults = Vec::new();
    let ids = ids(history, &mut faults);
    requests_are_applied_once(history, &mut faults);
    releases_are_final(history, &mut faults);
    let mut epochs: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
    for event in history {
        epochs.entry(&event.epoch).or_default().push(event);
    }
    for events in epochs.values() {
        revisions_are_told_once(events, &mut faults);
        let floors = time_is_kept(events, &mut faults);
        let lives = lives(events, &floors, &ids, &mut faults);
        answers_are_of_their_revision(events, &lives, &mut faults);
        if let Some(rules) = rules {
            constraints::are_kept(events, &lives, rules, &mut faults);
        }
    }
    faults
}

/// Returns the reservations that clients were told of. Checks that each was made once.
fn ids<'a>(history: &'a [Event], faults: &mut Vec<String>) -> HashSet<&'a str> {
    let mut makers: HashMap<&str, &Event> = HashMap::new();
    let mut told = HashSet::new();
    for event in history {
        match &event.what {
            What::Reserved { picks, .. } => {
                for (id, _) in picks {
                    if let Some(other) = makers.insert(id, event) {
                        faults.push(format!("{id} was made twice: {other:?} and {event:?}"));
                    }
                }
            }
            // The first answer to this request may have been lost.
            What::ReservedBefore { ids, .. } => told.extend(ids.iter().map(|id| &**id)),
            _ => {}
        }
    }
    told.extend(makers.into_keys());
    told
}

/// While the answer to a request is held, the same request again gets that answer, and reserves
/// nothing more.
fn requests_are_applied_once(history: &[Event], faults: &mut Vec<String>) {
    for one in history {
        let What::Reserved {
            key: Some(key),
            until,
            picks,
        } = &one.what
        else {
            continue;
        };
        let others = history.iter().filter(|other| {
            one.epoch == other.epoch && one.called != other.called && other.at < *until
        });
        for other in others {
            let is_over = one.answered < other.called;
            match &other.what {
                What::Reserved {
                    key: Some(again),
                    picks: others,
                    ..
                } if again == key => {
                    // A request that reserved nothing has the revision of the change before it.
                    let is_later = match other.revision.cmp(&one.revision) {
                        Ordering::Less => false,
                        Ordering::Equal => others.is_empty() && (!picks.is_empty() || is_over),
                        Ordering::Greater => true,
                    };
                    if is_later {
                        faults.push(format!("a request reserved twice: {one:?} and {other:?}"));
                    }
                }
                What::ReservedBefore { key: again, ids }
                    if again == key
                        && is_over
                        && !ids.iter().eq(picks.iter().map(|(id, _)| id)) =>
                {
                    faults.push(format!("a request got two answers: {one:?} and {other:?}"));
                }
                _ => {}
            }
        }
    }
}

/// A reservation that was given up is not known at a later revision, even in another epoch.
fn releases_are_final(history: &[Event], faults: &mut Vec<String>) {
    let mut ends: HashMap<&str, &Event> = HashMap::new();
    for event in history {
        if let What::Released { id, known: true } = &event.what {
            let first = ends.entry(id).or_insert(event);
            if event.revision < first.revision {
                *first = event;
            }
        }
    }
    for event in history {
        let (What::Used {
            id, known: true, ..
        }
        | What::Released { id, known: true }) = &event.what
        else {
            continue;
        };
        if let Some(end) = ends.get(&**id)
            && end.called != event.called
            && end.revision <= event.revision
        {
            faults.push(format!(
                "{id} was used when it was over: {end:?} and {event:?}"
            ));
        }
    }
}

fn revisions_are_told_once(history: &[&Event], faults: &mut Vec<String>) {
    let mut told: HashMap<i64, &Event> = HashMap::new();
    for event in history.iter().filter(|event| event.is_alone()) {
        if let Some(other) = told.insert(event.revision, event) {
            faults.push(format!("one revision for two: {other:?} and {event:?}"));
        }
    }
}

/// Checks that the revision of a call is not lower than what was answered before the call began.
/// Returns for each event the last revision that was told before it was called.
fn time_is_kept(history: &[&Event], faults: &mut Vec<String>) -> Vec<i64> {
    let ended = history.iter().filter(|event| event.is_of_its_time());
    let mut ended: Vec<&&Event> = ended.collect();
    ended.sort_by_key(|event| event.answered);
    let mut begun: Vec<usize> = (0..history.len()).collect();
    begun.sort_by_key(|&index| history[index].called);
    let (mut ended, mut floor) = (ended.into_iter().peekable(), 0);
    let mut floors = vec![0; history.len()];
    for index in begun {
        let event = history[index];
        while let Some(before) = ended.next_if(|before| before.answered < event.called) {
            floor = floor.max(before.revision);
        }
        floors[index] = floor;
        let is_late = event.revision < floor || (event.is_alone() && event.revision == floor);
        if is_late && event.is_of_its_time() {
            faults.push(format!("{floor} was told before: {event:?}"));
        }
    }
    floors
}

/// The life of a reservation in one epoch.
#[derive(Debug)]
struct Life<'a> {
    node: &'a str,
    made: i64,
    /// The time until which it is held at least, if nobody renews it.
    until: SystemTime,
    /// The times until which it was renewed, each with the moment of the answer.
    renewed: Vec<(u64, SystemTime)>,
    /// The revision after which it may have ended, and the revision by which it had.
    ended: Option<(i64, i64)>,
    /// The same for the place that it held, which its pod may have taken over.
    vacated: Option<(i64, i64)>,
}

impl Life<'_> {
    /// Returns whether it may have expired when `event` was answered.
    fn may_have_expired(&self, event: &Event) -> bool {
        let renewed = self.renewed.iter();
        let before = renewed.filter(|(answered, _)| *answered < event.called);
        before.map(|(_, until)| *until).fold(self.until, Ord::max) <= event.at
    }
}

/// Combines what two events tell of one end: the lower of each bound.
fn narrowed(known: Option<(i64, i64)>, told: (i64, i64)) -> Option<(i64, i64)> {
    let (after, by) = known.unwrap_or(told);
    Some((after.min(told.0), by.min(told.1)))
}

fn lives<'a>(
    history: &[&'a Event],
    floors: &[i64],
    ids: &HashSet<&str>,
    faults: &mut Vec<String>,
) -> HashMap<&'a str, Life<'a>> {
    let mut lives = made(history);
    let mut by_pod = HashMap::new();
    for (event, floor) in history.iter().zip(floors) {
        let before = event.revision - 1;
        // A try that was not answered was applied somewhere in between.
        let within = match event.retried {
            true => (*floor, event.revision),
            false => (before, event.revision),
        };
        let (id, ended, is_bound) = match &event.what {
            What::Released { id, known: true } => (id, (before, event.revision), false),
            What::Released { id, known: false } if event.retried => (id, within, false),
            What::ReleaseUnanswered { id } => (id, (*floor, i64::MAX), false),
            What::Bound { id, pod } => {
                by_pod.insert(&**pod, &**id);
                (id, within, true)
            }
            _ => continue,
        };
        let Some(life) = lives.get_mut(&**id) else {
            if !ids.contains(&**id) {
                faults.push(format!("nobody reserved {id}: {event:?}"));
            }
            continue;
        };
        let is_sure = matches!(event.what, What::Released { known: true, .. });
        if is_sure && life.ended.is_some_and(|(_, by)| by < event.revision) {
            faults.push(format!("{id} had ended before: {event:?}"));
        }
        life.ended = narrowed(life.ended, ended);
        if !is_bound {
            life.vacated = narrowed(life.vacated, ended);
        }
    }
    for (event, floor) in history.iter().zip(floors) {
        let What::Deleted { pod } = &event.what else {
            continue;
        };
        let life = by_pod.get(&**pod).and_then(|id| lives.get_mut(id));
        if let Some(life) = life {
            let after = if event.retried {
                *floor
            } else {
                event.revision - 1
            };
            life.vacated = Some((after, event.revision));
        }
    }
    lives
}

fn made<'a>(history: &[&'a Event]) -> HashMap<&'a str, Life<'a>> {
    let mut lives = HashMap::new();
    for event in history {
        let What::Reserved { picks, until, .. } = &event.what else {
            continue;
        };
        for (id, node) in picks {
            let life = Life {
                node,
                made: event.revision,
                until: *until,
                renewed: Vec::new(),
                ended: None,
                vacated: None,
            };
            lives.insert(&**id, life);
        }
    }
    for event in history {
        if let What::Used {
            id,
            known: true,
            until: Some(until),
        } = &event.what
            && let Some(life) = lives.get_mut(&**id)
        {
            life.renewed.push((event.answered, *until));
        }
    }
    lives
}

/// Checks that a reservation is known from its revision on, and until it ends.
fn answers_are_of_their_revision(
    history: &[&Event],
    lives: &HashMap<&str, Life<'_>>,
    faults: &mut Vec<String>,
) {
    for event in history {
        let (id, known, is_end) = match &event.what {
            What::Used { id, known, .. } => (id, *known, false),
            What::Released { id, known } => (id, *known, true),
            _ => continue,
        };
        let Some(life) = lives.get(&**id) else {
            continue;
        };
        // The revision of an end is the first one without the reservation.
        let at = event.revision - i64::from(is_end && known);
        let had_ended = life.ended.is_some_and(|(_, by)| by <= at);
        let may_have_ended = life.ended.is_some_and(|(after, _)| after < at);
        if known && (at < life.made || had_ended) {
            faults.push(format!("{id} is not there then: {event:?}, {life:?}"));
        }
        let is_made = life.made <= event.revision;
        if !known && is_made && !may_have_ended && !life.may_have_expired(event) {
            faults.push(format!(
                "{id} was acknowledged and is lost: {event:?}, {life:?}"
            ));
        }
    }
}
