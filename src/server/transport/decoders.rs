//! Threads that receive and decode large messages and run feeds. They are separate, so that health
//! checks and small calls never wait for a decoder, nor for memory that is used for the first time.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;

use tokio::runtime::Handle;

use crate::api::slots::{CallerKey, FairLimiter};
use crate::api::{self, Background};
use crate::limits::processors;
use crate::tasks;

/// The amount by which the priority of the decoding threads is lower. It is small, because they may
/// hold locks that calls wait for.
const NICENESS: i32 = 4;

/// The amount by which the priority of the receiving threads is lower. They hold no locks. They use
/// memory for the first time, which takes more time than all else, and clients can make them do so
/// without end.
const RECEIVING_NICENESS: i32 = 10;

/// The threads. They stop when this is dropped.
pub struct Decoders {
    receiving: Background,
    threads: Background,
    at_once: FairLimiter,
}

impl Decoders {
    /// Starts the threads. Half as many as there are processors receive, and as many decode at
    /// once, which leaves the other processors to the serving threads. One more thread runs feeds
    /// meanwhile.
    ///
    /// # Errors
    /// When the threads cannot be started.
    pub fn start() -> io::Result<Self> {
        let at_once = (processors() / 2).max(1);
        Ok(Self {
            receiving: Background::for_tasks("receive", at_once, RECEIVING_NICENESS)?,
            threads: Background::for_tasks("decode", at_once + 1, NICENESS)?,
            at_once: FairLimiter::new(at_once),
        })
    }

    /// Returns the runtime of feeds.
    pub fn runtime(&self) -> Handle {
        self.threads.handle().clone()
    }

    /// A handle for calls.
    pub fn handle(&self) -> DecodersHandle {
        DecodersHandle {
            receiving: self.receiving.handle().clone(),
            decoding: self.runtime(),
            at_once: self.at_once.clone(),
        }
    }
}

/// A handle to the threads.
#[derive(Clone)]
pub struct DecodersHandle {
    receiving: Handle,
    decoding: Handle,
    at_once: FairLimiter,
}

impl DecodersHandle {
    /// Runs the work of a caller. The part of the work before its first wait runs in the caller's
    /// turn; callers take turns. The work ends with this future.
    ///
    /// # Errors
    /// When it panicked.
    pub async fn run<F>(&self, who: CallerKey, work: F) -> Result<F::Output, api::Error>
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        let at_once = self.at_once.clone();
        let run = async move {
            let mut work = pin!(work);
            let place = at_once.take(&who).await;
            let begun = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
            drop(place);
            match begun {
                Poll::Ready(done) => done,
                Poll::Pending => work.await,
            }
        };
        joined(&self.decoding, run).await
    }

    /// Runs the receiving of a request, which waits for the client again and again. It ends with
    /// this future.
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

/// Returns the result of `work` on the threads of a runtime. The work ends with this future.
async fn joined<F>(on: &Handle, work: F) -> Result<F::Output, api::Error>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    let done = tasks::spawn_on(on, work).owned().await;
    done.map_err(|_| api::Error::Internal)
}
