//! What clients were told, and whether one server could have told them so: the
//! history is linearizable.
//!
//! Answers name the revision that they are of. So the order in which calls took
//! effect is known, and what is left to check is that it agrees with the order in
//! which clients saw calls end and begin, and that a single server which does them
//! in that order gives the same answers.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// A call that was answered.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// When it was first sent, and when it was answered.
    pub(crate) called: Duration,
    pub(crate) answered: Duration,
    /// True if it was sent more than once. An earlier try may have been applied.
    pub(crate) repeated: bool,
    /// The revision that the answer tells.
    pub(crate) revision: i64,
    pub(crate) what: What,
}

/// A call and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// These were reserved: ids, each with its node.
    Reserved(Vec<(String, String)>),
    /// A reservation was confirmed, if it was known.
    Confirmed { id: String, known: bool },
    /// A reservation was given up, if it was known.
    Released { id: String, known: bool },
    /// The pod of a confirmed reservation arrived on its node.
    Bound { id: String, pod: String },
    /// Such a pod was deleted.
    Deleted { pod: String },
    /// Something that holds no room changed.
    Fed,
    /// It was read.
    Read,
}

impl Event {
    /// Returns whether it is the only one that can have its revision.
    fn is_alone(&self) -> bool {
        match &self.what {
            What::Reserved(picks) => !picks.is_empty(),
            What::Released { known, .. } => *known,
            What::Bound { .. } | What::Fed => !self.repeated,
            What::Deleted { .. } | What::Confirmed { .. } | What::Read => false,
        }
    }
}

/// The bounds that hard constraints set.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// The zone of each node.
    pub(crate) zones: BTreeMap<String, String>,
    /// The number of pods that fit on a node.
    pub(crate) room: i64,
    pub(crate) max_skew: i64,
}

/// Returns what of a history could not have happened at a single server.
pub(crate) fn faults(history: &[Event], rules: &Rules) -> Vec<String> {
    let mut faults = Vec::new();
    revisions_are_told_once(history, &mut faults);
    let floors = time_is_kept(history, &mut faults);
    let lives = lives(history, &floors, &mut faults);
    answers_are_of_their_revision(history, &lives, &mut faults);
    constraints_are_kept(history, &lives, rules, &mut faults);
    faults
}

fn revisions_are_told_once(history: &[Event], faults: &mut Vec<String>) {
    let mut told: HashMap<i64, &Event> = HashMap::new();
    for event in history.iter().filter(|event| event.is_alone()) {
        if let Some(other) = told.insert(event.revision, event) {
            faults.push(format!("one revision for two: {other:?} and {event:?}"));
        }
    }
}

/// Returns what was answered before a call began is no later than it. Returns for each
/// event the last revision that was told before it was called.
fn time_is_kept(history: &[Event], faults: &mut Vec<String>) -> Vec<i64> {
    let mut ended: Vec<&Event> = history.iter().collect();
    ended.sort_by_key(|event| event.answered);
    let mut begun: Vec<usize> = (0..history.len()).collect();
    begun.sort_by_key(|&index| history[index].called);
    let (mut ended, mut floor) = (ended.into_iter().peekable(), 0);
    let mut floors = vec![0; history.len()];
    for index in begun {
        let event = &history[index];
        while let Some(before) = ended.next_if(|before| before.answered < event.called) {
            floor = floor.max(before.revision);
        }
        floors[index] = floor;
        if event.revision < floor || (event.is_alone() && event.revision == floor) {
            faults.push(format!("{floor} was told before: {event:?}"));
        }
    }
    floors
}

/// The life of a reservation.
#[derive(Debug)]
struct Life<'a> {
    node: &'a str,
    made: i64,
    /// After which revision it may have ended, and with which it had.
    ended: Option<(i64, i64)>,
    /// The same of the place that it held: its pod may have taken it over.
    vacated: Option<(i64, i64)>,
}

/// The narrower of what two events tell of one end.
fn narrowed(known: Option<(i64, i64)>, told: (i64, i64)) -> Option<(i64, i64)> {
    let (after, by) = known.unwrap_or(told);
    Some((after.min(told.0), by.min(told.1)))
}

fn lives<'a>(
    history: &'a [Event],
    floors: &[i64],
    faults: &mut Vec<String>,
) -> HashMap<&'a str, Life<'a>> {
    let mut lives = made(history, faults);
    let mut by_pod = HashMap::new();
    for (event, floor) in history.iter().zip(floors) {
        // What was done by a try that was not answered was done in between.
        let within = match event.repeated {
            true => (*floor, event.revision),
            false => (event.revision - 1, event.revision),
        };
        let (id, ended, is_bound) = match &event.what {
            What::Released { id, known: true } => (id, (event.revision - 1, event.revision), false),
            What::Released { id, known: false } if event.repeated => (id, within, false),
            What::Bound { id, pod } => {
                by_pod.insert(&**pod, &**id);
                (id, within, true)
            }
            _ => continue,
        };
        let Some(life) = lives.get_mut(&**id) else {
            faults.push(format!("nobody reserved {id}: {event:?}"));
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
            let after = if event.repeated {
                *floor
            } else {
                event.revision - 1
            };
            life.vacated = Some((after, event.revision));
        }
    }
    lives
}

fn made<'a>(history: &'a [Event], faults: &mut Vec<String>) -> HashMap<&'a str, Life<'a>> {
    let mut lives = HashMap::new();
    for event in history {
        let What::Reserved(picks) = &event.what else {
            continue;
        };
        for (id, node) in picks {
            let life = Life {
                node,
                made: event.revision,
                ended: None,
                vacated: None,
            };
            if lives.insert(&**id, life).is_some() {
                faults.push(format!("{id} was made twice"));
            }
        }
    }
    lives
}

/// A reservation is known from its revision on, and until it ends.
fn answers_are_of_their_revision(
    history: &[Event],
    lives: &HashMap<&str, Life<'_>>,
    faults: &mut Vec<String>,
) {
    for event in history {
        let (id, known, is_end) = match &event.what {
            What::Confirmed { id, known } => (id, *known, false),
            What::Released { id, known } => (id, *known, true),
            _ => continue,
        };
        let Some(life) = lives.get(&**id) else {
            continue;
        };
        // The revision of an end is the first one without it.
        let at = event.revision - i64::from(is_end && known);
        let had_ended = life.ended.is_some_and(|(_, by)| by <= at);
        let may_have_ended = life.ended.is_some_and(|(after, _)| after < at);
        if known && (at < life.made || had_ended) {
            faults.push(format!("{id} is not there then: {event:?}, {life:?}"));
        }
        if !known && !may_have_ended {
            faults.push(format!(
                "{id} was acknowledged and is lost: {event:?}, {life:?}"
            ));
        }
    }
}

/// After each reservation there is room on its node, and the skew of its zone is
/// allowed. What may have ended is left out where it would be in the way.
fn constraints_are_kept(
    history: &[Event],
    lives: &HashMap<&str, Life<'_>>,
    rules: &Rules,
    faults: &mut Vec<String>,
) {
    /// When the number of those on a node changes, for sure and perhaps.
    #[derive(Default)]
    struct Change<'a> {
        least: Vec<(&'a str, i64)>,
        most: Vec<(&'a str, i64)>,
    }
    let mut changes: BTreeMap<i64, Change<'_>> = BTreeMap::new();
    for life in lives.values() {
        let made = changes.entry(life.made).or_default();
        made.least.push((life.node, 1));
        made.most.push((life.node, 1));
        if let Some((after, by)) = life.vacated {
            // It counts until the revision before.
            let first = changes.entry((after + 1).max(life.made)).or_default();
            first.least.push((life.node, -1));
            changes.entry(by).or_default().most.push((life.node, -1));
        }
    }
    let picked: BTreeMap<i64, &Event> = history
        .iter()
        .filter(|event| matches!(&event.what, What::Reserved(picks) if !picks.is_empty()))
        .map(|event| (event.revision, event))
        .collect();
    let (mut least, mut most) = (BTreeMap::new(), BTreeMap::new());
    for (revision, change) in changes {
        add(&mut least, change.least);
        add(&mut most, change.most);
        let Some(event) = picked.get(&revision) else {
            continue;
        };
        let What::Reserved(picks) = &event.what else {
            continue;
        };
        let zone = |counts: &BTreeMap<&str, i64>, zone: &str| -> i64 {
            let of_zone = counts
                .iter()
                .filter(|(node, _)| rules.zones[**node] == zone);
            of_zone.map(|(_, count)| count).sum()
        };
        let emptiest = rules.zones.values().map(|name| zone(&most, name)).min();
        for (_, node) in picks {
            if least[&**node] > rules.room {
                faults.push(format!("no room on {node}: {event:?}"));
            }
            let skew = zone(&least, &rules.zones[node]) - emptiest.unwrap_or(0);
            if skew > rules.max_skew {
                faults.push(format!("skew {skew}: {event:?}"));
            }
        }
    }
}

fn add<'a>(counts: &mut BTreeMap<&'a str, i64>, changes: Vec<(&'a str, i64)>) {
    for (node, change) in changes {
        *counts.entry(node).or_default() += change;
    }
}
