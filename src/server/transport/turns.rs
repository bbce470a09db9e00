//! The turns in which a connection reads, and what its clients have read of its answers.
//!
//! The tasks of a thread run one after another. In its turn a connection reads some bytes, and the
//! calls that begin with them run before its next turn. Without turns, the bytes of a connection
//! would all be received, and all its calls begun, before any other client is served.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Context;

/// The most bytes of a connection that are read in a turn.
const BYTES: usize = 16 << 10;

/// The bytes that all connections together read in a turn each while calls arrive: a hundred calls
/// fit into a few KiB.
const BYTES_OF_ALL: usize = 8 << 10;

/// The least that a connection reads in a turn, however many connections there are.
const MIN_BYTES: usize = 256;

/// The calls of a connection.
#[derive(Debug, Default)]
pub struct CallTurns {
    /// The number of calls that have arrived so far.
    arrived: AtomicUsize,
    /// The number of answers of which the client can read more now.
    unread: AtomicUsize,
    /// Counts the times at which the client has read on in an answer.
    progress: AtomicUsize,
    turn: ReadingTurn,
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

impl CallTurns {
    /// Begins a turn of the connection, which is one of so many. Its tasks have had theirs since the
    /// last one.
    pub fn begin(&self, connections: usize) {
        let arrived = self.arrived.load(Ordering::Relaxed);
        let has_calls = self.turn.arrived.swap(arrived, Ordering::Relaxed) != arrived;
        let least = (BYTES_OF_ALL / connections.max(1)).clamp(MIN_BYTES, BYTES);
        // Large messages are not read in small pieces.
        let before = self.turn.most.load(Ordering::Relaxed);
        let bytes = if has_calls { 0 } else { 2 * before }.clamp(least, BYTES);
        self.turn.most.store(bytes, Ordering::Relaxed);
        self.turn.left.store(bytes, Ordering::Relaxed);
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
        OpenCall {
            turns: Arc::clone(self),
            is_unread: false,
        }
    }
}

/// A call of a connection, until it is over.
#[derive(Debug)]
pub struct OpenCall {
    turns: Arc<CallTurns>,
    is_unread: bool,
}

impl OpenCall {
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
    use std::task::Waker;

    use super::*;

    #[test]
    fn of_many_connections_each_reads_few_calls_in_a_turn() {
        let context = Context::from_waker(Waker::noop());
        for (connections, has_calls, expected) in [
            (1, true, 8 << 10),
            (16, true, 512),
            (5_000, true, MIN_BYTES),
            (5_000, false, BYTES),
        ] {
            let turns = Arc::new(CallTurns::default());
            for _ in 0..8 {
                let call = has_calls.then(|| turns.arrive());
                turns.begin(connections);
                drop(call);
            }
            let left = turns.bytes_left(&context);
            assert_eq!(left, Some(expected), "{connections} {has_calls}");
            turns.note_read(expected);
            assert_eq!(turns.bytes_left(&context), None);
        }
    }
}
