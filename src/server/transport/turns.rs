//! The turns of the connections of one thread. In a turn a connection is read for a while and
//! begins a few calls. Without turns, the bytes of many connections would all be received, and all
//! their calls begun, before any other client is served.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Context;

use tokio::sync::Semaphore;

use super::rotation::RotationPlace;
use super::send_timeout::CloseSignal;

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
    turns: Arc<CallTurns>,
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

    /// The signal that ends the call's connection.
    pub fn connection(&self) -> &Arc<CloseSignal> {
        &self.turns.connection
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

#[cfg(test)]
pub(super) mod tests {
    use std::future::poll_fn;
    use std::task::{Poll, Waker};

    use super::*;

    /// Waits until all other tasks had their turn, as a connection does. Tokio's own yield lets
    /// them have several.
    pub(in super::super) async fn next_turn() {
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
        let (connection, mut turn) = (Arc::clone(&turns), ReadingTurn::default());
        tokio::spawn(poll_fn(move |context| {
            if turn.next_piece(&connection, connections, context).is_some() {
                turn.note(None);
            }
            connection.connection.register(context);
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

    /// Returns the numbers of bytes that one of several connections reads in its turns, if there
    /// are always enough, and each call has `bytes_of_call` bytes.
    async fn read_in_turns(connections: usize, bytes_of_call: usize) -> Vec<usize> {
        let (calls, mut turn) = (Arc::<CallTurns>::default(), ReadingTurn::default());
        let context = Context::from_waker(Waker::noop());
        let (mut all, mut turns) = (0, Vec::new());
        while turns.len() < 16 {
            let before = all;
            while let Some(piece) = turn.next_piece(&calls, connections, &context) {
                // Reads only half as much, as if fewer bytes had arrived.
                let length = piece.div_ceil(2);
                turn.note(Some(length));
                all += length;
            }
            let arrived = before / bytes_of_call..all / bytes_of_call;
            let arrived: Vec<_> = arrived.map(|_| calls.arrive()).collect();
            for _ in 0..if arrived.len() > CALLS_OF_ALL { 20 } else { 1 } {
                next_turn().await;
                if arrived.len() > CALLS_OF_ALL {
                    let next = turn.next_piece(&calls, connections, &context);
                    assert_eq!(next, None, "they are to begin first");
                }
            }
            // In some turns the connection only waits.
            turns.extend(Some(all - before).filter(|read| *read > 0));
        }
        turns
    }

    #[tokio::test(flavor = "current_thread")]
    async fn of_many_connections_each_reads_few_calls_in_a_turn() {
        for (connections, bytes_of_call, least, most) in [
            (1, 32, BYTES, BYTES),
            (1, usize::MAX, BYTES, BYTES),
            (16, 32, 2_048, 2_048),
            (100, 32, 327, 327),
            (100, 1_000, 327, 1_308),
            (5_000, 32, 256, 256),
            // Large messages are not read in small pieces.
            (5_000, usize::MAX, BYTES, BYTES),
        ] {
            let read = read_in_turns(connections, bytes_of_call).await;
            let is_met = read[6..].iter().all(|bytes| (least..=most).contains(bytes));
            assert!(is_met, "{read:?} of {connections}, {bytes_of_call}");
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_connection_begins_few_calls_before_others_have_their_turn() {
        for (calls, connections, expected) in [
            (40, 1, MAX_CALLS),
            (300, 1, MAX_CALLS),
            (300, 16, 8),
            (300, 5_000, MIN_CALLS),
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
}
