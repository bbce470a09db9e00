//! The turns of the connections of one thread. In a turn a connection is read for a while and
//! begins a few calls. Without turns, the bytes of many connections would all be received, and all
//! their calls begun, before any other client is served.
//!
//! A few connections read, then all other waiting tasks of the thread run. So bytes that arrive on
//! many connections at once do not come between the parts of another client's call: that call waits
//! for the others only once, to be read.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::tasks;

/// The bytes of a connection that are read in a turn.
const BYTES: usize = 16 << 10;

/// The bytes that all connections together read in a turn each while calls arrive: hundreds of
/// calls fit into a few KiB.
const BYTES_OF_ALL: usize = 32 << 10;

/// The least that a connection reads in a turn, however many connections there are.
const MIN_BYTES: usize = 256;

/// The number of calls that all connections together begin in a turn each.
const CALLS_OF_ALL: usize = 128;

/// The least number of calls that a connection begins in a turn, however many connections there
/// are.
const MIN_CALLS: usize = 1;

/// The most calls that a connection begins in a turn. More answers than that are not written
/// together anyway.
const MAX_CALLS: usize = 64;

/// The part of a turn that reading a connection has taken.
#[derive(Debug, Default)]
pub struct ReadingTurn {
    /// The bytes that were read in this turn, if it has begun.
    read: Option<usize>,
    /// The most that may be read in the turn. It grows from turn to turn while no calls arrive.
    most: usize,
    /// The number of calls that had arrived before this turn.
    arrived: usize,
    /// The place of the connection, which tells when its turn is.
    place: RotationPlace,
}

impl ReadingTurn {
    /// Returns the number of bytes that a connection may read now, with this many connections open;
    /// `None` when its turn is over. A turn begins calls that have arrived. The next turn begins
    /// after all other tasks that wait for this thread had theirs. The bytes are parsed after the
    /// turn. Nothing is read while more calls have arrived than a turn begins.
    pub fn next_piece(
        &mut self,
        calls: &CallTurns,
        connections: usize,
        context: &Context<'_>,
    ) -> Option<usize> {
        match self.read {
            Some(read) if read >= self.most => {
                self.read = None;
                context.waker().wake_by_ref();
                return None;
            }
            Some(_) => {}
            None => {
                if !self.place.admits(context) {
                    return None;
                }
                let most = (CALLS_OF_ALL / connections.max(1)).clamp(MIN_CALLS, MAX_CALLS);
                calls.begin(most, context);
                if calls.waiting.load(Ordering::Relaxed) > most {
                    context.waker().wake_by_ref();
                    return None;
                }
                let arrived = calls.arrived();
                let least = (BYTES_OF_ALL / connections.max(1)).clamp(MIN_BYTES, BYTES);
                let has_calls = std::mem::replace(&mut self.arrived, arrived) != arrived;
                let wanted = if has_calls { 0 } else { 2 * self.most };
                self.most = wanted.clamp(least, BYTES);
                self.read = Some(0);
            }
        }
        self.read.map(|read| self.most - read)
    }

    /// Records the number of bytes that were read; `None` if there were none, which ends the turn.
    pub fn note(&mut self, length: Option<usize>) {
        self.read = self.read.zip(length).map(|(read, more)| read + more);
    }
}

/// The calls of a connection.
#[derive(Debug)]
pub struct CallTurns {
    /// The number of calls that have arrived so far.
    arrived: AtomicUsize,
    /// The number of these calls that have not begun, or were given up.
    waiting: AtomicUsize,
    /// The number of these calls that are not over.
    open: AtomicUsize,
    /// True if the client has yet to read bytes that were written.
    is_blocked: AtomicBool,
    /// The number of calls that may still begin in this turn.
    left: Semaphore,
    /// Wakes the connection, and ends it.
    pub connection: Arc<CloseSignal>,
}

/// A call of a connection, until it is over.
#[derive(Debug)]
pub struct OpenCall {
    /// The calls of its connection.
    pub turns: Arc<CallTurns>,
    has_begun: bool,
}

impl Default for CallTurns {
    /// The calls of a new connection: none.
    fn default() -> Self {
        Self {
            arrived: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            is_blocked: AtomicBool::new(false),
            left: Semaphore::new(0),
            connection: Arc::default(),
        }
    }
}

impl CallTurns {
    /// Records that a call has arrived.
    pub fn arrive(self: &Arc<Self>) -> OpenCall {
        self.arrived.fetch_add(1, Ordering::Relaxed);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenCall {
            turns: Arc::clone(self),
            has_begun: false,
        }
    }

    /// Returns the number of calls that have arrived so far.
    pub fn arrived(&self) -> usize {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Returns whether a call is not over, or the client has yet to read written bytes.
    pub fn is_busy(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0 || self.is_blocked.load(Ordering::Relaxed)
    }

    /// Records whether the client has yet to read written bytes.
    pub fn note_blocked(&self, is_blocked: bool) {
        self.is_blocked.store(is_blocked, Ordering::Relaxed);
    }

    /// Lets `most` calls begin in this turn.
    fn begin(&self, most: usize, context: &Context<'_>) {
        self.left
            .add_permits(most.saturating_sub(self.left.available_permits()));
        // Some permits went to waiting calls, and more calls may wait.
        if self.left.available_permits() < most {
            context.waker().wake_by_ref();
        }
    }
}

impl OpenCall {
    /// Waits until the call may begin.
    pub async fn begin(&mut self) {
        let turns = &self.turns;
        let turn = match turns.left.try_acquire() {
            Ok(turn) => Ok(turn),
            Err(_) => {
                turns.connection.wake();
                turns.left.acquire().await
            }
        };
        turn.expect("it is never closed").forget();
        turns.waiting.fetch_sub(1, Ordering::Relaxed);
        self.has_begun = true;
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if !self.has_begun {
            self.turns.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        self.turns.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells a connection that it must end, or that it has to continue.
#[derive(Debug, Default)]
pub struct CloseSignal {
    is_raised: AtomicBool,
    reader: Mutex<Option<Waker>>,
}

impl CloseSignal {
    /// Returns whether the connection must end.
    pub fn is_raised(&self) -> bool {
        self.is_raised.load(Ordering::Acquire)
    }

    /// Makes the signal wake the connection's task from now on.
    pub fn register(&self, context: &Context<'_>) {
        let mut reader = self.reader.lock();
        match &mut *reader {
            Some(waker) => waker.clone_from(context.waker()),
            None => *reader = Some(context.waker().clone()),
        }
    }

    /// Wakes the connection's task.
    pub fn wake(&self) {
        if let Some(waker) = &*self.reader.lock() {
            waker.wake_by_ref();
        }
    }

    /// Ends the connection.
    pub fn raise(&self) {
        self.is_raised.store(true, Ordering::Release);
        self.wake();
    }
}

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
struct RotationPlace(Arc<AtomicU8>);

const NOWHERE: u8 = 0;
const WAITS: u8 = 1;
const ADMITTED: u8 = 2;

impl RotationPlace {
    /// Returns whether the connection may read now. If not, it is woken when it may.
    fn admits(&self, context: &Context<'_>) -> bool {
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
mod tests;
