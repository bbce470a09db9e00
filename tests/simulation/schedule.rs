//! Threads of which one runs at a time. Which one is next, a seed decides: so
//! a run can be repeated.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

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

    /// Whether something happens that happens this often in a thousand times.
    pub fn happens(&self, in_a_thousand: usize) -> bool {
        self.below(1_000) < in_a_thousand
    }
}

/// Ends an actor that stops in the middle of what it does.
struct Stopped;

/// What an actor knows of its thread.
#[derive(Clone)]
pub struct Turns {
    resume: Arc<Mutex<Receiver<bool>>>,
    paused: SyncSender<bool>,
}

impl Turns {
    /// Lets others run.
    pub fn pass(&self) {
        if thread::panicking() {
            return;
        }
        let _ = self.paused.send(false);
        self.wait();
    }

    fn wait(&self) {
        let resume = self.resume.lock().expect("one thread waits");
        if resume.recv() != Ok(true) {
            drop(resume);
            resume_unwind(Box::new(Stopped));
        }
    }
}

/// A thread that runs when it is told to.
pub struct Actor {
    resume: SyncSender<bool>,
    paused: Receiver<bool>,
    thread: Option<JoinHandle<thread::Result<()>>>,
}

impl Actor {
    /// Waits to be told to begin.
    pub fn begin(run: impl FnOnce(&Turns) + Send + 'static) -> Self {
        let (resume, resumed) = sync_channel(1);
        let (pause, paused) = sync_channel(1);
        let turns = Turns {
            resume: Arc::new(Mutex::new(resumed)),
            paused: pause,
        };
        let thread = thread::spawn(move || {
            let ran = catch_unwind(AssertUnwindSafe(|| {
                turns.wait();
                run(&turns);
            }));
            let _ = turns.paused.send(true);
            ran
        });
        Self {
            resume,
            paused,
            thread: Some(thread),
        }
    }

    /// Runs it up to its next call to somebody else; whether it has ended.
    ///
    /// # Panics
    /// As it did.
    pub fn step(&mut self) -> bool {
        if self.thread.is_none() {
            return true;
        }
        let _ = self.resume.send(true);
        let is_over = self.paused.recv().unwrap_or(true);
        if is_over {
            self.join();
        }
        is_over
    }

    fn join(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        match thread.join() {
            Ok(Err(panic)) if !panic.is::<Stopped>() => resume_unwind(panic),
            _ => {}
        }
    }

    /// Stops it where it is: it crashes.
    pub fn stop(&mut self) {
        let _ = self.resume.send(false);
        // It may call others while it unwinds.
        while let Ok(false) = self.paused.recv() {
            let _ = self.resume.send(false);
        }
        self.join();
    }
}
