//! A server with its clients, which make one call after another.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use evenkeel::limits::Limits;
use evenkeel::replica::{Replica, Waiting};
use evenkeel::snapshot::{Registry, Snapshot, Unobserved};

use crate::simulation::clocks::Clocks;
use crate::simulation::schedule;
use crate::simulation::wire::{Crash, Wire};
use crate::simulation::world::{NAME, World, pods};

/// The number of calls that the clients of a server make.
const WISHES: usize = 14;

/// A server, until it crashes.
pub struct Server {
    pub number: usize,
    pub world: Arc<World>,
    pub wire: Arc<Wire>,
    pub registry: Arc<Registry>,
    pub replica: Arc<Replica>,
    pub clocks: Arc<Clocks>,
}

/// Runs a server, and another one in its place whenever it crashes, until the end.
pub fn run(number: usize, world: &Arc<World>) {
    let mut wishes = WISHES;
    let mut is_finished = false;
    loop {
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let server = Server::start(number, world);
            while wishes > 0 {
                wishes -= 1;
                server.fulfil();
            }
            if !is_finished {
                is_finished = true;
                world.finished.fetch_add(1, Ordering::Relaxed);
            }
            while !world.is_calm() {
                schedule::pass();
            }
            server.end();
        }));
        match ran {
            Ok(()) => return,
            Err(panic) if panic.is::<Crash>() => {
                world.tell(|| format!("{number} crashed"));
            }
            Err(panic) => resume_unwind(panic),
        }
    }
}

impl Server {
    pub fn start(number: usize, world: &Arc<World>) -> Self {
        let wire = Arc::new(Wire {
            number,
            world: Arc::clone(world),
            losses: AtomicU64::new(0),
            stale: Mutex::default(),
            registry: OnceLock::new(),
            answered: Mutex::default(),
        });
        let clocks = Arc::new(Clocks::new(world));
        let clock = {
            let clocks = Arc::clone(&clocks);
            move || clocks.now()
        };
        let pausing = Arc::clone(&wire);
        let waiting = Waiting::at_once(move |_| pausing.pass());
        let log = Arc::new(world.log.seen_with(Arc::clone(&wire) as _));
        let replica = Replica::new(log, format!("s{number}"), waiting, clock.clone());
        let replica = Arc::new(replica);
        let registry = Registry::with_clock(Limits::default(), Arc::new(Unobserved), clock);
        let registry = Arc::new(registry.with_journal(Arc::clone(&replica) as _));
        replica.serve(&registry);
        wire.registry.get_or_init(|| Arc::downgrade(&registry));
        Self {
            number,
            world: Arc::clone(world),
            wire,
            registry,
            replica,
            clocks,
        }
    }

    /// The snapshot, if the server answers from it.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        let found = self.registry.get(NAME).ok();
        found.filter(|snapshot| snapshot.revision() > 0 && snapshot.is_synced())
    }

    /// Makes one call, and checks what the server answers with afterwards.
    fn fulfil(&self) {
        self.wire.pass();
        let dice = &self.world.dice;
        match dice.below(100) {
            0..=24 => self.follow(),
            25..=44 => self.put(),
            45..=64 => self.reserve(),
            65..=74 => self.settle(),
            75..=79 => self.end_expired(),
            // A run has either replaces or deletes, because a replace at a revision could replace a
            // snapshot that was made anew.
            80..=85 if self.world.seed % 2 == 1 => self.replace(),
            86..=91 => self.keep(),
            92..=93 if self.world.seed.is_multiple_of(2) => self.delete(),
            94..=97 => self.jump(),
            98 => resume_unwind(Box::new(Crash)),
            _ => self.put(),
        }
        self.look();
    }

    fn look(&self) {
        if let Ok(snapshot) = self.registry.get(NAME) {
            self.world.look(self.number, &snapshot);
        }
    }

    /// Notes the result of a call.
    pub fn told<T: std::fmt::Debug>(&self, what: &str, result: &T) {
        self.world
            .tell(|| format!("{} {what}: {result:?}", self.number));
    }

    fn follow(&self) {
        let all = self.world.dice.happens(300);
        let before = self.world.ledger().acknowledged.len();
        let followed = self.replica.follow(NAME, all);
        self.told("follow", &followed);
        // A server can read all that was acknowledged before, also when it has just started.
        if all && followed.is_ok() {
            self.check_has(before);
        }
    }

    /// Checks that the server has the pods that were acknowledged first, this many of them.
    fn check_has(&self, before: usize) {
        let Some(snapshot) = self.snapshot() else {
            return;
        };
        let (epoch, pods) = (snapshot.epoch().to_owned(), pods(&snapshot));
        let ledger = self.world.ledger();
        let acknowledged = &ledger.acknowledged[..before];
        let lost = acknowledged.iter().find(|(pod, of, _)| {
            let may_be_over = ledger
                .deleted
                .iter()
                .any(|(deleted, had)| *deleted != epoch && (deleted == of || had.contains(pod)));
            !may_be_over && !pods.contains(pod)
        });
        let lost = lost.cloned();
        drop(ledger);
        if let Some((pod, of, revision)) = lost {
            self.world.fail(&format!(
                "server {} has lost {pod} of revision {revision} of {of}",
                self.number
            ));
        }
    }

    /// Follows to the end, and compares. One more record on the way shows a server that it has read
    /// something else.
    fn end(&self) {
        self.clocks.set(0);
        for _ in 0..3 {
            let mut followed = self.replica.follow(NAME, true);
            for _ in 0..10 {
                if followed.is_ok() {
                    break;
                }
                followed = self.replica.follow(NAME, true);
            }
            if let Err(error) = followed {
                self.world
                    .fail(&format!("server {} does not heal: {error}", self.number));
            }
            if self.number == 0 {
                self.put();
                self.world.has_put_last.store(true, Ordering::Relaxed);
            }
            for _ in 0..20 {
                self.wire.pass();
            }
        }
        // By then a snapshot that was deleted last is there again.
        while !self.world.has_put_last.load(Ordering::Relaxed) {
            schedule::pass();
        }
        // From here on the server has to see what was acknowledged before.
        let before = self.world.ledger().acknowledged.len();
        if let Err(error) = self.replica.follow(NAME, true) {
            self.world
                .fail(&format!("server {} does not follow: {error}", self.number));
        }
        let Some(snapshot) = self.snapshot() else {
            self.world
                .fail(&format!("server {} has nothing", self.number));
        };
        self.world.look(self.number, &snapshot);
        self.check_has(before);
        let pods = pods(&snapshot);
        let ledger = self.world.ledger();
        let undead = ledger
            .refused
            .iter()
            .find(|pod| pods.contains(*pod))
            .cloned();
        drop(ledger);
        if let Some(pod) = undead {
            self.world.fail(&format!(
                "server {} has {pod}, which was refused",
                self.number
            ));
        }
    }
}
