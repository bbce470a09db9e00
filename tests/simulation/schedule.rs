//! Actors of one thread, of which one runs at a time: each has a stack of its own, and
//! runs until it lets others run. Which one is next, a seed decides: so a run can be
//! repeated.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::thread;

use generator::{Generator, Gn};

/// The stack of an actor, in words of eight bytes.
const STACK_WORDS: usize = 1 << 18;

/// Random numbers of a seed.
#[derive(Clone)]
pub struct Dice(Arc<Mutex<fastrand::Rng>>);

impl Dice {
    pub fn of(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))))
    }

    /// A number below this.
    pub fn below(&self, end: usize) -> usize {
        self.0.lock().expect("nobody panics here").usize(..end)
    }

    /// Returns whether something happens that happens this often in a thousand times.
    pub fn happens(&self, in_a_thousand: usize) -> bool {
        self.below(1_000) < in_a_thousand
    }
}

/// Ends an actor that stops in the middle of what it does.
struct Stopped;

/// Lets other actors run. An actor that is stopped meanwhile ends here.
pub fn pass() {
    if thread::panicking() {
        return;
    }
    #[expect(deprecated, reason = "what all actors share cannot hold a scope")]
    let goes_on = generator::yield_::<bool, ()>(());
    if goes_on != Some(true) {
        resume_unwind(Box::new(Stopped));
    }
}

/// An actor, which runs when it is told to.
pub struct Actor(Generator<'static, bool, ()>);

impl Actor {
    /// Waits to be told to begin.
    pub fn begin(run: impl FnOnce() + Send + 'static) -> Self {
        let run = move || match catch_unwind(AssertUnwindSafe(run)) {
            Err(panic) if !panic.is::<Stopped>() => resume_unwind(panic),
            _ => {}
        };
        Self(Gn::new_opt(STACK_WORDS, run))
    }

    /// Runs it until it lets others run; whether it has ended.
    ///
    /// # Panics
    /// As it did.
    pub fn step(&mut self) -> bool {
        self.0.raw_send(Some(true));
        self.0.is_done()
    }

    /// Stops it where it is: it crashes.
    pub fn stop(&mut self) {
        // It may call others while it unwinds.
        while !self.0.is_done() {
            self.0.raw_send(Some(false));
        }
    }
}
