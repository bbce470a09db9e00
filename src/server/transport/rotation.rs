//! The order in which the connections of a thread read. After a few have read, all other waiting
//! tasks of the thread run. So bytes that arrive on many connections at once do not come between
//! the parts of another client's call: that call waits for the others only once, to be read.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Waker};

use crate::tasks;

/// The number of connections that read between two turns of all tasks.
const AT_ONCE: usize = 8;

thread_local! {
    static ROTATION: RefCell<Rotation> = RefCell::default();
}

/// The connections of a thread that want to read.
#[derive(Default)]
struct Rotation {
    /// The number of connections that have read since all tasks had their turn.
    begun: usize,
    waiting: VecDeque<(Arc<AtomicU8>, Waker)>,
    /// Wakes the task that lets the next connections read, if that task waits.
    rotating: Option<Waker>,
    has_task: bool,
}

/// The place of a connection among those of its thread.
#[derive(Debug, Default)]
pub struct RotationPlace(Arc<AtomicU8>);

const NOWHERE: u8 = 0;
const WAITS: u8 = 1;
const ADMITTED: u8 = 2;

impl RotationPlace {
    /// Returns whether the connection may read now. If not, it is woken when it may.
    pub fn admits(&self, context: &Context<'_>) -> bool {
        match self.0.load(Ordering::Relaxed) {
            ADMITTED => {
                self.0.store(NOWHERE, Ordering::Relaxed);
                true
            }
            WAITS => false,
            _ => ROTATION.with_borrow_mut(|rotation| rotation.admit(&self.0, context)),
        }
    }
}

impl Rotation {
    fn admit(&mut self, place: &Arc<AtomicU8>, context: &Context<'_>) -> bool {
        if self.begun < AT_ONCE {
            self.begun += 1;
            return true;
        }
        if !self.has_task {
            self.has_task = true;
            tasks::spawn(rotate());
        }
        place.store(WAITS, Ordering::Relaxed);
        self.waiting
            .push_back((Arc::clone(place), context.waker().clone()));
        if let Some(task) = self.rotating.take() {
            task.wake();
        }
        false
    }

    /// Lets the next connections read, after all tasks had their turn.
    fn turn(&mut self, context: &Context<'_>) {
        self.begun = self.waiting.len().min(AT_ONCE);
        for (place, waker) in self.waiting.drain(..self.begun) {
            place.store(ADMITTED, Ordering::Relaxed);
            waker.wake();
        }
        match self.begun {
            0 => self.rotating = Some(context.waker().clone()),
            // The next turn comes after all tasks that wait for the thread now.
            _ => context.waker().wake_by_ref(),
        }
    }
}

/// The task that lets connections read. It ends with its runtime; another runtime on the thread has
/// its own.
struct RotationTask;

impl Drop for RotationTask {
    fn drop(&mut self) {
        // If the thread ends as well, its rotation is gone already.
        let _ = ROTATION.try_with(RefCell::take);
    }
}

async fn rotate() {
    let _task = RotationTask;
    poll_fn(|context| {
        ROTATION.with_borrow_mut(|rotation| rotation.turn(context));
        Poll::<()>::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::super::turns::tests::next_turn;
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn few_connections_read_at_a_time_and_all_as_often() {
        let reads: Vec<_> = (0..50).map(|_| Arc::new(AtomicUsize::new(0))).collect();
        for count in &reads {
            let (count, place) = (Arc::clone(count), RotationPlace::default());
            tokio::spawn(poll_fn(move |context| {
                if place.admits(context) {
                    count.fetch_add(1, Ordering::Relaxed);
                    context.waker().wake_by_ref();
                }
                Poll::<()>::Pending
            }));
        }
        let observe = tokio::spawn(async move {
            let all = || reads.iter().map(|count| count.load(Ordering::Relaxed));
            let mut before = 0;
            for _ in 0..500 {
                next_turn().await;
                let now = all().sum();
                assert!(now - before <= AT_ONCE, "{now} after {before}");
                before = now;
            }
            assert!(before > 500, "{before}");
            let apart = all().max().zip(all().min());
            assert!(
                apart.is_some_and(|(most, least)| most - least <= 2),
                "{apart:?}"
            );
        });
        observe.await.expect("it does not panic");
    }
}
