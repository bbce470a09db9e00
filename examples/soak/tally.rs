//! A tally of calls and of errors.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tonic::{Code, Status};

/// The number of errors that are written out.
const EXPLAINED: usize = 20;

/// The counts of one server.
#[derive(Default)]
pub struct Tally(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    done: BTreeMap<&'static str, u64>,
    provoked: u64,
    unprovoked: u64,
    first: Vec<String>,
}

impl Tally {
    /// Counts a call. `expected` are the codes of errors that the call
    /// provokes; `away` says that the server was being restarted.
    pub fn note<T>(
        &self,
        what: &'static str,
        result: Result<T, Status>,
        expected: &[Code],
        away: bool,
    ) -> Option<T> {
        let mut counts = self.0.lock().expect("no holder panics");
        match result {
            Ok(done) => {
                *counts.done.entry(what).or_default() += 1;
                return Some(done);
            }
            Err(status) if away || expected.contains(&status.code()) => counts.provoked += 1,
            Err(status) => counts.wrong(format!("{what}: {status}")),
        }
        None
    }

    /// Counts something that must not happen.
    pub fn wrong(&self, what: String) {
        self.0.lock().expect("no holder panics").wrong(what);
    }

    /// The kinds of calls.
    pub fn names(&self) -> Vec<&'static str> {
        let counts = self.0.lock().expect("no holder panics");
        counts.done.keys().copied().collect()
    }

    /// Returns how many calls of a kind were answered.
    pub fn done(&self, what: &str) -> u64 {
        let counts = self.0.lock().expect("no holder panics");
        counts.done.get(what).copied().unwrap_or(0)
    }

    /// Errors that a call or a restart provoked.
    pub fn provoked(&self) -> u64 {
        self.0.lock().expect("no holder panics").provoked
    }

    /// Errors that nothing provoked.
    pub fn unprovoked(&self) -> u64 {
        self.0.lock().expect("no holder panics").unprovoked
    }

    /// Writes the first errors that nothing provoked to standard error.
    pub fn explain(&self) {
        for error in &self.0.lock().expect("no holder panics").first {
            eprintln!("not provoked: {error}");
        }
    }
}

impl Counts {
    fn wrong(&mut self, what: String) {
        self.unprovoked += 1;
        if self.first.len() < EXPLAINED {
            self.first.push(what);
        }
    }
}
