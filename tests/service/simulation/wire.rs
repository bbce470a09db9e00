//! Faults between a server and the log.

use std::collections::HashMap;
use std::future::poll_fn;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel::snapshot::Registry;
use event_listener::EventListener;
use support::fake_log::{Call, Fate, Faults, StaleLeader};

use crate::simulation::schedule;
use crate::simulation::world::{NAME, World};

/// The panic that ends a server in the middle of what it does.
pub struct Crash;

/// The connection of a server to the log.
pub struct Wire {
    pub number: usize,
    pub world: Arc<World>,
    /// The number of lost connections.
    pub losses: AtomicU64,
    /// The leader that is reached now, if it is one that was cut off.
    pub stale: Mutex<Option<StaleLeader>>,
    /// The registry that answers the clients of the server.
    pub registry: OnceLock<Weak<Registry>>,
    /// The latest revision of each epoch that the server has answered with.
    pub answered: Mutex<HashMap<String, i64>>,
}

impl Wire {
    pub fn is_calm(&self) -> bool {
        self.world.is_calm()
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

    fn of_next(&self) -> Fate {
        match self.world.dice.below(40) {
            0..=5 => Fate::NotYet,
            6 => Fate::Skipped,
            7 => Fate::Flipped,
            8 => Fate::Unreachable,
            _ => Fate::Done,
        }
    }
}

impl Faults for Wire {
    fn fate(&self, call: Call) -> Fate {
        self.pass();
        self.choose_leader();
        if self.is_calm() {
            return Fate::Done;
        }
        let dice = &self.world.dice;
        let fate = match call {
            Call::Append => self.of_append(),
            Call::Next => self.of_next(),
            Call::Read if dice.happens(40) => Fate::Unreachable,
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
