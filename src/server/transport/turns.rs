//! The calls of a connection, and the turns in which it reads and begins them.
//!
//! The tasks of a thread run one after another. In its turn a connection reads some bytes and begins
//! a few calls. Without turns, the bytes of a connection would all be received, and all its calls
//! begun, before any other client is served.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Context;

use futures::task::AtomicWaker;
use tokio::sync::Semaphore;

/// The most bytes of a connection that are read in a turn.
const BYTES: usize = 16 << 10;

/// The bytes that all connections together read in a turn each while calls arrive: hundreds of
/// calls fit into a few KiB.
const BYTES_OF_ALL: usize = 32 << 10;

/// The least that a connection reads in a turn, however many connections there are.
const MIN_BYTES: usize = 256;

/// The number of calls that all connections together begin in a turn each.
const CALLS_OF_ALL: usize = 128;

/// The most calls that a connection begins in a turn. More answers than that are not written
/// together anyway.
const MAX_CALLS: usize = 64;

/// The calls of a connection.
#[derive(Debug)]
pub struct CallTurns {
    /// The number of calls that have arrived so far.
    arrived: AtomicUsize,
    /// The number of these calls that have not begun, or were given up.
    waiting: AtomicUsize,
    /// The number of answers of which the client can read more now.
    unread: AtomicUsize,
    /// Counts the times at which the client has read on in an answer.
    progress: AtomicUsize,
    /// The number of calls that may still begin in this turn.
    left: Semaphore,
    turn: ReadingTurn,
    /// Wakes the connection, so that it has another turn.
    connection: AtomicWaker,
}

/// The part of a turn in which a connection reads.
#[derive(Debug, Default)]
struct ReadingTurn {
    /// The bytes that may be read in this turn.
    most: AtomicUsize,
    /// The bytes of these that were not read yet.
    left: AtomicUsize,
    /// The number of calls that had arrived before this turn.
    arrived: AtomicUsize,
}

impl Default for CallTurns {
    /// The calls of a new connection: none.
    fn default() -> Self {
        Self {
            arrived: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            unread: AtomicUsize::new(0),
            progress: AtomicUsize::new(0),
            left: Semaphore::new(0),
            turn: ReadingTurn::default(),
            connection: AtomicWaker::new(),
        }
    }
}

impl CallTurns {
    /// Begins a turn of the connection, which is one of so many. Its tasks have had theirs since the
    /// last one. Nothing is read while more calls have arrived than a turn begins.
    pub fn begin(&self, connections: usize, context: &Context<'_>) {
        self.connection.register(context.waker());
        let most = (CALLS_OF_ALL / connections.max(1)).clamp(1, MAX_CALLS);
        let missing = most.saturating_sub(self.left.available_permits());
        self.left.add_permits(missing);
        // Some permits went to waiting calls, and more calls may wait.
        if self.left.available_permits() < most {
            context.waker().wake_by_ref();
        }
        let arrived = self.arrived.load(Ordering::Relaxed);
        let has_calls = self.turn.arrived.swap(arrived, Ordering::Relaxed) != arrived;
        let least = (BYTES_OF_ALL / connections.max(1)).clamp(MIN_BYTES, BYTES);
        let before = self.turn.most.load(Ordering::Relaxed);
        let bytes = if has_calls { 0 } else { 2 * before }.clamp(least, BYTES);
        self.turn.most.store(bytes, Ordering::Relaxed);
        let is_full = self.waiting.load(Ordering::Relaxed) > most;
        let left = if is_full { 0 } else { bytes };
        self.turn.left.store(left, Ordering::Relaxed);
    }

    /// Returns the number of bytes that may be read now; `None` when the turn is over. Then the
    /// connection is woken for its next one.
    pub fn bytes_left(&self, context: &Context<'_>) -> Option<usize> {
        match self.turn.left.load(Ordering::Relaxed) {
            0 => {
                context.waker().wake_by_ref();
                None
            }
            left => Some(left),
        }
    }

    /// Records the number of bytes that were read.
    pub fn note_read(&self, bytes: usize) {
        self.turn.left.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Records that a call has arrived.
    pub fn arrive(self: &Arc<Self>) -> OpenCall {
        self.arrived.fetch_add(1, Ordering::Relaxed);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        OpenCall {
            turns: Arc::clone(self),
            has_begun: false,
            is_unread: false,
        }
    }
}

/// A call of a connection, until it is over.
#[derive(Debug)]
pub struct OpenCall {
    turns: Arc<CallTurns>,
    has_begun: bool,
    is_unread: bool,
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

    /// Records whether the client can read more of the answer now. It has read what was there
    /// before.
    pub fn note_unread(&mut self, is_unread: bool) {
        let unread = &self.turns.unread;
        match (std::mem::replace(&mut self.is_unread, is_unread), is_unread) {
            (false, true) => drop(unread.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(unread.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
        self.turns.progress.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.note_unread(false);
        let Self { turns, .. } = self;
        turns
            .waiting
            .fetch_sub(usize::from(!self.has_begun), Ordering::Relaxed);
    }
}

/// The number of looks in a row that find a connection without progress before it is closed.
pub const LOOKS: u32 = 10;

/// Looks at a connection now and then, to find out whether it has to be closed.
#[derive(Debug, Default)]
pub struct ConnectionProgress {
    progress: usize,
    looks: u32,
}

impl ConnectionProgress {
    /// Returns whether the client has not read on in any of its answers for all the last looks.
    pub fn is_unread(&mut self, calls: &CallTurns) -> bool {
        let progress = calls.progress.load(Ordering::Relaxed);
        let has_read = std::mem::replace(&mut self.progress, progress) != progress;
        let is_still = !has_read && calls.unread.load(Ordering::Relaxed) > 0;
        self.looks = if is_still { self.looks + 1 } else { 0 };
        self.looks >= LOOKS
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::{Poll, Waker};

    use super::*;

    /// Waits until all other tasks had their turn, as a connection does. Tokio's own yield lets
    /// them have several.
    async fn next_turn() {
        let mut is_over = false;
        poll_fn(move |context| match std::mem::replace(&mut is_over, true) {
            true => Poll::Ready(()),
            false => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await;
    }

    /// Lets calls arrive on one of several connections, and gives up every third call. Returns the
    /// largest number of calls between two turns of other tasks, and the number of all.
    async fn begun(calls: usize, connections: usize) -> (usize, usize) {
        let turns = Arc::new(CallTurns::default());
        let count = Arc::new(AtomicUsize::new(0));
        let connection = Arc::clone(&turns);
        tokio::spawn(poll_fn(move |context| {
            connection.begin(connections, context);
            Poll::<()>::Pending
        }));
        next_turn().await;
        let calls: Vec<_> = (0..calls)
            .map(|_| {
                let (mut call, count) = (turns.arrive(), Arc::clone(&count));
                tokio::spawn(async move {
                    call.begin().await;
                    count.fetch_add(1, Ordering::Relaxed);
                })
            })
            .collect();
        // This task stands for another connection.
        let other = tokio::spawn(async move {
            let (mut most, mut before, mut idle) = (0, 0, 0);
            while idle < 20 {
                next_turn().await;
                let now = count.load(Ordering::Relaxed);
                most = most.max(now - before);
                idle = if now == before { idle + 1 } else { 0 };
                if before == 0 {
                    calls.iter().step_by(3).for_each(|call| call.abort());
                }
                before = now;
            }
            (most, before)
        });
        other.await.expect("it does not panic")
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_connection_begins_few_calls_before_others_have_their_turn() {
        for (calls, connections, expected) in [
            (40, 1, MAX_CALLS),
            (300, 1, MAX_CALLS),
            (300, 16, 8),
            (300, 5_000, 1),
        ] {
            let (most, all) = begun(calls, connections).await;
            // The turn of a call that is given up goes to the next call, a little later.
            assert!(most <= 2 * expected, "{most} of {calls}, {connections}");
            let begun_first = calls.min(expected);
            let given_up = (calls - begun_first) / 3;
            let wanted = calls - given_up;
            assert!(all.abs_diff(wanted) <= 1, "{all}, not {wanted}");
        }
    }

    #[test]
    fn of_many_connections_each_reads_few_calls_in_a_turn() {
        let context = Context::from_waker(Waker::noop());
        for (connections, has_calls, expected) in [
            (1, true, BYTES),
            (16, true, 2_048),
            (5_000, true, MIN_BYTES),
            // Large messages are not read in small pieces.
            (5_000, false, BYTES),
        ] {
            let turns = Arc::new(CallTurns::default());
            for _ in 0..8 {
                let call = has_calls.then(|| turns.arrive());
                turns.begin(connections, &context);
                drop(call);
            }
            let left = turns.bytes_left(&context);
            assert_eq!(left, Some(expected), "{connections} {has_calls}");
            turns.note_read(expected);
            assert_eq!(turns.bytes_left(&context), None);
        }
        let turns = Arc::new(CallTurns::default());
        let _waiting: Vec<_> = (0..=MAX_CALLS).map(|_| turns.arrive()).collect();
        turns.begin(1, &context);
        assert_eq!(turns.bytes_left(&context), None, "they are to begin first");
    }
}
