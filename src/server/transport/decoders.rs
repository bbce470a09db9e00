//! Where large messages are received and decoded and feeds run: on separate
//! threads, so that health checks and small calls never wait for a decoder, nor
//! for memory that is used for the first time.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::api::slots::CallerKey;
use crate::api::{self, Background};
use crate::limits::processors;
use crate::tasks;

/// Requests above this size are received and decoded here. 32 KiB are decoded and validated
/// in some 100 µs, which a call may wait for another.
pub const LARGE: usize = api::LARGE_REQUEST;

/// By how much the priority of the threads that decode is lower. Little: what they
/// run may hold what a call waits for.
const NICENESS: i32 = 4;

/// By how much that of the threads that receive is lower. They hold nothing, and use
/// memory for the first time, which takes more time than all else: as much as a
/// client can send, for as long as it likes.
const RECEIVING_NICENESS: i32 = 10;

/// The threads. They stop when this is dropped.
pub struct Decoders {
    receiving: Background,
    threads: Background,
    turns: Arc<Turns>,
}

impl Decoders {
    /// Starts them. Half as many as there are processors receive, and as many decode
    /// at once, which leaves the other processors to the serving threads. One more
    /// thread runs feeds meanwhile.
    ///
    /// # Errors
    /// When the threads cannot be started.
    pub fn start() -> io::Result<Self> {
        let at_once = (processors() / 2).max(1);
        Ok(Self {
            receiving: Background::for_tasks("receive", at_once, RECEIVING_NICENESS)?,
            threads: Background::for_tasks("decode", at_once + 1, NICENESS)?,
            turns: Arc::new(Turns::new(at_once)),
        })
    }

    /// Returns where feeds run.
    pub fn runtime(&self) -> Handle {
        self.threads.handle().clone()
    }

    /// A handle for calls.
    pub fn handle(&self) -> DecodersHandle {
        DecodersHandle {
            receiving: self.receiving.handle().clone(),
            decoding: self.runtime(),
            turns: Arc::clone(&self.turns),
        }
    }
}

/// A handle to the threads.
#[derive(Clone)]
pub struct DecodersHandle {
    receiving: Handle,
    decoding: Handle,
    turns: Arc<Turns>,
}

impl DecodersHandle {
    /// Runs the work of a caller. What it does before it first waits is done in
    /// the caller's turn; callers take turns. It ends with this future.
    ///
    /// # Errors
    /// When it panicked.
    pub async fn run<F>(&self, who: CallerKey, work: F) -> Result<F::Output, api::Error>
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        let turns = Arc::clone(&self.turns);
        let run = async move {
            let mut work = pin!(work);
            let turn = turns.take(who).await;
            let begun = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
            drop(turn);
            match begun {
                Poll::Ready(done) => done,
                Poll::Pending => work.await,
            }
        };
        joined(&self.decoding, run).await
    }

    /// Runs what receives a request, and waits for the client again and again. It ends
    /// with this future.
    ///
    /// # Errors
    /// When it panicked.
    pub async fn receive<F>(&self, work: F) -> Result<F::Output, api::Error>
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        joined(&self.receiving, work).await
    }
}

/// Returns what `work` comes to on the threads of a runtime. It ends with this future.
async fn joined<F>(on: &Handle, work: F) -> Result<F::Output, api::Error>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    let done = tasks::spawn_on(on, work).owned().await;
    done.map_err(|_| api::Error::Internal)
}

/// Turns for decoding. Waiting callers take turns one after another, however
/// much each of them sends.
struct Turns(Mutex<Queue>);

struct Queue {
    free: usize,
    /// Never with an empty line.
    waiting: VecDeque<(CallerKey, VecDeque<oneshot::Sender<DecoderTurn>>)>,
}

impl Turns {
    fn new(free: usize) -> Self {
        Self(Mutex::new(Queue {
            free,
            waiting: VecDeque::new(),
        }))
    }

    async fn take(self: &Arc<Self>, who: CallerKey) -> DecoderTurn {
        let (sender, receiver) = oneshot::channel();
        {
            let mut queue = self.0.lock();
            if queue.free > 0 {
                queue.free -= 1;
                return DecoderTurn(Arc::clone(self));
            }
            match queue.waiting.iter_mut().find(|(other, _)| *other == who) {
                Some((_, line)) => line.push_back(sender),
                None => queue.waiting.push_back((who, VecDeque::from([sender]))),
            }
        }
        receiver.await.expect("whoever waits is given a turn")
    }

    /// The next in line; none when a turn is free now.
    fn next(&self) -> Option<oneshot::Sender<DecoderTurn>> {
        let mut queue = self.0.lock();
        while let Some((who, mut line)) = queue.waiting.pop_front() {
            let next = line.pop_front().expect("lines are not empty");
            if !line.is_empty() {
                queue.waiting.push_back((who, line));
            }
            if !next.is_closed() {
                return Some(next);
            }
        }
        queue.free += 1;
        None
    }
}

/// A turn. When it is dropped, the next caller has it.
struct DecoderTurn(Arc<Turns>);

impl Drop for DecoderTurn {
    fn drop(&mut self) {
        if let Some(next) = self.0.next() {
            // A waiter that is gone drops it, and the next one gets it.
            let _ = next.send(DecoderTurn(Arc::clone(&self.0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[tokio::test]
    async fn callers_take_turns() {
        let turns = Arc::new(Turns::new(1));
        let who = |last| CallerKey::new(None, Some(IpAddr::from([10, 0, 0, last])));
        let first = turns.take(who(1)).await;
        let done = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        let mut given_up = Vec::new();
        for (caller, number) in [(1, 0), (1, 1), (1, 2), (2, 3), (1, 4), (3, 5)] {
            let (turns, done) = (Arc::clone(&turns), Arc::clone(&done));
            let task = tokio::spawn(async move {
                let _turn = turns.take(who(caller)).await;
                done.lock().push(number);
            });
            // In line before the next one comes.
            tokio::task::yield_now().await;
            match number {
                1 => given_up.push(task),
                _ => tasks.push(task),
            }
        }
        for task in given_up {
            task.abort();
            assert!(task.await.is_err());
        }
        drop(first);
        for task in tasks {
            task.await.expect("a turn for each");
        }
        assert_eq!(*done.lock(), [0, 3, 5, 2, 4]);
        assert_eq!(turns.0.lock().free, 1);
    }
}
