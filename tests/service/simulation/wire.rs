//! Faults between a server and the log.

use std::collections::HashMap;
use std::future::poll_fn;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel::replica::Replica;
use evenkeel::snapshot::Registry;
use event_listener::EventListener;
use prost::bytes::Bytes;
use support::fake_log::{Call, Fate, Faults, NextCall, StaleLeader};

use crate::simulation::schedule;
use crate::simulation::world::{NAME, World};

/// The panic that ends a server in the middle of what it does.
pub struct Crash;

/// The connection of a server to the log.
pub struct Wire {
    pub number: usize,
    pub world: Arc<World>,
    /// True if messages may be forged now. A server that reads a forged message and appends before
    /// it reads another one is not noticed in time.
    pub may_forge: AtomicBool,
    /// Above 0 from a forged message on, until the server knows that it was forged.
    pub forged: AtomicU8,
    /// The follower that read the forged message.
    pub forged_for: AtomicU64,
    /// The number of snapshots that the server had read anew when it read the forged message.
    pub read_anew: AtomicU64,
    /// The number of lost connections.
    pub losses: AtomicU64,
    /// The leader that is reached now, if it is one that was cut off.
    pub stale: Mutex<Option<StaleLeader>>,
    /// The registry that answers the clients of the server.
    pub registry: OnceLock<Weak<Registry>>,
    /// The replica that reads the log for the registry.
    pub replica: OnceLock<Weak<Replica>>,
    /// The latest revision of each epoch that the server has answered with.
    pub answered: Mutex<HashMap<String, i64>>,
}

impl Wire {
    pub fn is_calm(&self) -> bool {
        self.world.is_calm()
    }

    /// Returns whether the last message that was read may be forged.
    pub fn is_forged(&self) -> bool {
        self.forged.load(Ordering::Relaxed) > 0
    }

    /// Returns the number of times that the server has read a snapshot anew.
    fn bootstraps(&self) -> u64 {
        let replica = self.replica.get().and_then(Weak::upgrade);
        replica.map_or(0, |it| it.counts().bootstraps.load(Ordering::Relaxed))
    }

    /// Checks, as a client does, that the server never answers with less than before.
    fn look(&self) {
        let registry = self.registry.get().and_then(Weak::upgrade);
        let Some(snapshot) = registry.and_then(|registry| registry.get(NAME).ok()) else {
            return;
        };
        let revision = snapshot.revision();
        if revision == 0 || !snapshot.is_synced() {
            return;
        }
        let mut answered = self.answered.lock().expect("nobody panics here");
        let before = answered.entry(snapshot.epoch().to_owned()).or_default();
        if revision < *before {
            let (number, before) = (self.number, *before);
            drop(answered);
            self.world.fail(&format!(
                "server {number} answers with revision {revision} after {before}"
            ));
        }
        *before = revision;
    }

    /// Chooses the leader that the next call reaches: the present one, or now and then one that was
    /// cut off.
    fn choose_leader(&self) {
        let leader = match self.is_calm() {
            true => None,
            false => self.world.stale_leader(),
        };
        let mut stale = self.stale.lock().expect("nobody panics here");
        let flips = self.world.dice.happens(80);
        *stale = leader.filter(|_| stale.is_some() != flips);
    }

    /// Lets others run, and time pass.
    pub fn pass(&self) {
        if std::thread::panicking() {
            return;
        }
        self.look();
        let dice = &self.world.dice;
        let most = self.world.pace.load(Ordering::Relaxed);
        self.world
            .pass_time(Duration::from_micros(dice.below(most) as u64));
        schedule::pass();
        if self.is_calm() {
            return;
        }
        if dice.happens(100) && self.world.log.late() > 0 {
            self.world.log.arrive(dice.below(self.world.log.late()));
        }
        if dice.happens(4) {
            resume_unwind(Box::new(Crash));
        }
    }

    fn of_append(&self) -> Fate {
        match self.world.dice.below(40) {
            0 | 1 => Fate::AnswerLost,
            2 => Fate::Lost,
            3 | 4 => Fate::Late,
            5 => Fate::Twice,
            6 => Fate::Unreachable,
            7 => Fate::Full,
            8 | 9 => Fate::Unchecked,
            _ => Fate::Done,
        }
    }

    /// Returns whether a follower is the one that read the forged message. Other followers read the
    /// same log again, without the forged message.
    fn goes_on_from_forged(&self, asker: NextCall) -> bool {
        asker.follower == self.forged_for.load(Ordering::Relaxed)
    }

    fn of_next(&self, asker: NextCall) -> Fate {
        let may_forge = self.may_forge.load(Ordering::Relaxed);
        let forged = self.is_forged();
        match self.world.dice.below(40) {
            0..=5 => Fate::NotYet,
            6 => Fate::Skipped,
            7 => Fate::Flipped,
            8 => Fate::Unreachable,
            9 | 10 if may_forge && !forged => {
                self.forged.store(2, Ordering::Relaxed);
                self.read_anew.store(self.bootstraps(), Ordering::Relaxed);
                self.forged_for.store(asker.follower, Ordering::Relaxed);
                Fate::Forged
            }
            _ if forged && !self.goes_on_from_forged(asker) => {
                // The former state answers until the one that is read anew takes over.
                if self.bootstraps() > self.read_anew.load(Ordering::Relaxed) {
                    self.forged.store(0, Ordering::Relaxed);
                }
                Fate::Done
            }
            _ if forged && !self.world.has_record_after(asker.after) => Fate::Done,
            _ => {
                // This message shows whether the one before was forged. The server looks that up,
                // and is sure when it reads another one.
                let before = self.forged.load(Ordering::Relaxed);
                self.forged
                    .store(before.saturating_sub(1), Ordering::Relaxed);
                Fate::Done
            }
        }
    }
}

impl Wire {
    fn fate_for(&self, call: Call, asker: NextCall) -> Fate {
        self.pass();
        self.choose_leader();
        if self.is_calm() {
            return Fate::Done;
        }
        let dice = &self.world.dice;
        let fate = match call {
            Call::Append => self.of_append(),
            Call::Next => self.of_next(asker),
            Call::Read if !self.is_forged() && dice.happens(40) => Fate::Unreachable,
            Call::Write if dice.happens(30) => Fate::AnswerLost,
            Call::Write if dice.happens(30) => Fate::Lost,
            Call::Read | Call::Write => Fate::Done,
        };
        if fate == Fate::Unreachable {
            self.losses.fetch_add(1, Ordering::Relaxed);
        }
        if fate != Fate::Done {
            self.world
                .tell(|| format!("    {}: {call:?} is {fate:?}", self.number));
        }
        fate
    }
}

impl Faults for Wire {
    fn fate(&self, call: Call) -> Fate {
        self.fate_for(call, NextCall::default())
    }

    fn fate_of_append(&self, message: &Bytes) -> Fate {
        let fate = self.fate_for(Call::Append, NextCall::default());
        match self.is_forged() && !self.world.is_continued_by(message) {
            // No other server would accept a record after a forged one.
            true => Fate::Full,
            false => fate,
        }
    }

    fn fate_of_next(&self, asker: NextCall) -> Fate {
        self.fate_for(Call::Next, asker)
    }

    fn stale_leader(&self) -> Option<StaleLeader> {
        self.stale.lock().expect("nobody panics here").clone()
    }

    fn connection(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    fn over(&self, call: Call) {
        if call == Call::Append || self.world.dice.happens(200) {
            self.pass();
        }
    }

    fn wait<'a>(
        &'a self,
        mut changed: EventListener,
        within: Duration,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async move {
            let until = self.world.now() + within;
            self.pass();
            // In a calm world the server waits for as long as it is asked to.
            while self.is_calm() && self.world.now() < until {
                let is_over =
                    |cx: &mut Context<'_>| Poll::Ready(Pin::new(&mut changed).poll(cx).is_ready());
                if poll_fn(is_over).await {
                    return;
                }
                self.pass();
            }
        })
    }
}
