//! Group commit: work that waits while other work is under way is done
//! together.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Callers that wait for a slow operation, such as a disk. One of them leads: it does the jobs of
/// all that wait, in the order in which they came.
#[derive(Debug)]
pub struct GroupCommit<J, O> {
    next: AtomicU64,
    waiting: Mutex<Vec<(u64, J)>>,
    done: Mutex<HashMap<u64, O>>,
    lead: Mutex<()>,
}

impl<J, O> Default for GroupCommit<J, O> {
    fn default() -> Self {
        Self {
            next: AtomicU64::new(0),
            waiting: Mutex::default(),
            done: Mutex::default(),
            lead: Mutex::default(),
        }
    }
}

impl<J, O> GroupCommit<J, O> {
    /// Does a job, by `lead` or by that of another caller, and returns its
    /// outcome. `lead` gets jobs and returns as many outcomes, in the same
    /// order.
    pub fn join(&self, job: J, lead: impl FnOnce(Vec<J>) -> Vec<O>) -> O {
        let ticket = {
            let mut waiting = self.waiting.lock();
            // The ticket is drawn under the lock, so that tickets are in the order of jobs.
            let ticket = self.next.fetch_add(1, Ordering::Relaxed);
            waiting.push((ticket, job));
            ticket
        };
        let _leading = self.lead.lock();
        if let Some(outcome) = self.done.lock().remove(&ticket) {
            return outcome;
        }
        let waiting = std::mem::take(&mut *self.waiting.lock());
        let (tickets, jobs): (Vec<u64>, Vec<J>) = waiting.into_iter().unzip();
        let mut outcomes = tickets.into_iter().zip(lead(jobs));
        // The leader's own job is mostly the first: others come while the leader waits.
        let mut own = None;
        let mut done = self.done.lock();
        for (other, outcome) in &mut outcomes {
            if other == ticket {
                own = Some(outcome);
            } else {
                done.insert(other, outcome);
            }
        }
        own.expect("who leads finds its own job among those that wait")
    }
}
