//! What clients saw of reservations, one after another or at the same time: whether it
//! is what one server alone would have answered, in some order.
//!
//! Each answer names the revision that it is of, which is its place in that order. So
//! nothing has to be searched for: the order is given, and it is checked that it is the
//! one of real time, and that each answer is right where it stands.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::time::SystemTime;

/// A call of a client, and the answer.
#[derive(Debug, Clone)]
pub struct Op {
    /// When it asked, and when it was answered, in the order of all that clients do.
    pub begun: u64,
    pub ended: u64,
    /// The time of the caller when it was answered.
    pub at: SystemTime,
    /// The history that the answer is of, and the revision.
    pub epoch: String,
    pub revision: i64,
    pub did: Did,
}

/// The act that a call asked for.
#[derive(Debug, Clone)]
pub enum Did {
    /// Reservations were made, of a request with this key if it can come again.
    Reserved {
        key: Option<u8>,
        ids: Vec<String>,
        /// Until when they are held at least, by the caller's clock.
        until: SystemTime,
    },
    /// The answer of an earlier request with this key.
    Repeated { key: u8, ids: Vec<String> },
    /// One was released; or it was not there.
    Released { id: String, was_held: bool },
    /// One was confirmed or renewed, and is held until then at least; or it was not there.
    Used {
        id: String,
        was_held: bool,
        until: Option<SystemTime>,
    },
}

/// The calls of clients.
#[derive(Default)]
pub struct History {
    ops: Vec<Op>,
    ticks: u64,
    /// The number of attempts to release each reservation.
    given_up: HashMap<String, usize>,
}

impl History {
    /// The next moment.
    pub fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    pub fn note(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// Notes that somebody tries to release one. Whether it was done may stay unknown.
    pub fn give_up(&mut self, id: &str) {
        *self.given_up.entry(id.to_owned()).or_default() += 1;
    }

    /// Returns whether it is that of one server.
    ///
    /// # Errors
    /// What one server would never have answered.
    pub fn check(&self) -> Result<(), String> {
        let made = self.check_ids()?;
        for one in &self.ops {
            for other in &self.ops {
                check_order(one, other)?;
                check_keys(one, other)?;
            }
        }
        for op in &self.ops {
            self.check_use(op, &made)?;
        }
        Ok(())
    }

    /// Each reservation is made once; who made it.
    fn check_ids(&self) -> Result<HashMap<&str, &Op>, String> {
        let mut made: HashMap<&str, &Op> = HashMap::new();
        for op in &self.ops {
            let Did::Reserved { ids, .. } = &op.did else {
                continue;
            };
            for id in ids {
                if let Some(other) = made.insert(id, op) {
                    return Err(format!("{id} was made twice: {other:?} {op:?}"));
                }
            }
        }
        Ok(made)
    }

    /// Until when a reservation was to be held at least that was made until then, by what was
    /// answered before something else was asked.
    fn held_until(&self, id: &str, made_until: SystemTime, before: &Op) -> SystemTime {
        let renewed = self.ops.iter().filter(|op| op.ended < before.begun);
        let renewed = renewed.filter_map(|op| match &op.did {
            Did::Used {
                id: of,
                was_held: true,
                until,
            } if of == id => *until,
            _ => None,
        });
        renewed.chain([made_until]).max().unwrap_or(made_until)
    }

    /// Returns what is held can be used, and what is over cannot.
    fn check_use(&self, op: &Op, made: &HashMap<&str, &Op>) -> Result<(), String> {
        let (Did::Released { id, was_held } | Did::Used { id, was_held, .. }) = &op.did else {
            return Ok(());
        };
        if *was_held {
            let released = self.ops.iter().find(|other| {
                let is_release = matches!(
                    &other.did,
                    Did::Released { id: of, was_held: true } if of == id
                );
                is_release && other.begun != op.begun && other.revision <= op.revision
            });
            return match released {
                Some(other) => Err(format!("{id} was used when it was over: {other:?} {op:?}")),
                None => Ok(()),
            };
        }
        let Some(making) = made.get(&**id).filter(|making| making.epoch == op.epoch) else {
            return Ok(());
        };
        let Did::Reserved { until, .. } = &making.did else {
            return Ok(());
        };
        let own = usize::from(matches!(op.did, Did::Released { .. }));
        let may_be_released = self.given_up.get(id).is_some_and(|tries| *tries > own);
        let was_made = making.revision <= op.revision;
        let is_over = op.at >= self.held_until(id, *until, op);
        if was_made && !may_be_released && !is_over {
            return Err(format!(
                "{id} was not found while it was held: {making:?} {op:?}"
            ));
        }
        Ok(())
    }
}

/// Returns what was answered before another one was asked for comes before it.
fn check_order(one: &Op, other: &Op) -> Result<(), String> {
    // A repeated answer is that of another time.
    let is_repeated = |op: &Op| matches!(op.did, Did::Repeated { .. });
    if one.epoch != other.epoch
        || one.ended >= other.begun
        || is_repeated(one)
        || is_repeated(other)
    {
        return Ok(());
    }
    let changes = match &other.did {
        Did::Reserved { ids, .. } => !ids.is_empty(),
        Did::Released { was_held, .. } => *was_held,
        Did::Repeated { .. } | Did::Used { .. } => false,
    };
    match one.revision < other.revision || (!changes && one.revision == other.revision) {
        true => Ok(()),
        false => Err(format!(
            "an answer is older than one before it: {one:?} {other:?}"
        )),
    }
}

/// A request that comes again gets the same answer, and reserves nothing more.
fn check_keys(one: &Op, other: &Op) -> Result<(), String> {
    let Did::Reserved {
        key: Some(key),
        ids,
        until,
    } = &one.did
    else {
        return Ok(());
    };
    if one.epoch != other.epoch || one.begun == other.begun || other.at >= *until {
        return Ok(());
    }
    match &other.did {
        Did::Reserved {
            key: again,
            ids: others,
            ..
        } if *again == Some(*key) => {
            // What held nothing has the revision of what came before it.
            let is_later = match other.revision.cmp(&one.revision) {
                Ordering::Less => false,
                Ordering::Equal => {
                    others.is_empty() && (!ids.is_empty() || one.ended < other.begun)
                }
                Ordering::Greater => true,
            };
            match is_later {
                true => Err(format!("a request reserved twice: {one:?} {other:?}")),
                false => Ok(()),
            }
        }
        Did::Repeated {
            key: again,
            ids: told,
        } if again == key && told != ids && one.ended < other.begun => {
            Err(format!("a request got two answers: {one:?} {other:?}"))
        }
        _ => Ok(()),
    }
}
