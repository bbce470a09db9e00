//! Actors of one thread. One runs at a time, on a stack of its own, until it lets others run. A
//! seed decides which one is next, so a run can be repeated.

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

    /// Returns true this often in a thousand times.
    pub fn happens(&self, in_a_thousand: usize) -> bool {
        self.below(1_000) < in_a_thousand
    }
}

/// The panic that ends an actor in the middle of what it does.
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
    /// Makes an actor that waits for its first step.
    pub fn begin(run: impl FnOnce() + Send + 'static) -> Self {
        let run = move || match catch_unwind(AssertUnwindSafe(run)) {
            Err(panic) if !panic.is::<Stopped>() => resume_unwind(panic),
            _ => {}
        };
        Self(Gn::new_opt(STACK_WORDS, run))
    }

    /// Runs the actor until it lets others run. Returns true if it has ended.
    ///
    /// # Panics
    /// When the actor panics.
    pub fn step(&mut self) -> bool {
        self.0.raw_send(Some(true));
        self.0.is_done()
    }

    /// Stops the actor where it is, as a crash does.
    pub fn stop(&mut self) {
        // The actor may let others run while it unwinds.
        while !self.0.is_done() {
            self.0.raw_send(Some(false));
        }
    }
}
