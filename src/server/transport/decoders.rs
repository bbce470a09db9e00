//! Threads that decode large messages and run feeds, so that health checks and small calls never wait
//! for a decoder.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::runtime::Handle;

use crate::api::slots::{CallerKey, FairLimiter};
use crate::api::{self, Background};
use crate::limits::processors;
use crate::tasks;

/// The amount by which the priority of these threads is lower. It is small, because feeds run there,
/// too.
const NICENESS: i32 = 4;

/// The threads. They stop when the last of these is dropped.
#[derive(Clone)]
pub struct Decoders {
    threads: Arc<Background>,
    at_once: FairLimiter,
}

impl Decoders {
    /// Starts the threads. Half as many as there are processors decode at once, which leaves the
    /// other processors to the serving threads. One more thread runs feeds meanwhile.
    ///
    /// # Errors
    /// When the threads cannot be started.
    pub fn start() -> io::Result<Self> {
        let at_once = (processors() / 2).max(1);
        let threads = Background::for_tasks("decode", at_once + 1, NICENESS)?;
        Ok(Self {
            threads: Arc::new(threads),
            at_once: FairLimiter::new(at_once),
        })
    }

    /// Returns the runtime of feeds.
    pub fn runtime(&self) -> Handle {
        self.threads.handle().clone()
    }

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
        let done = tasks::spawn_on(self.threads.handle(), run).owned().await;
        done.map_err(|_| api::Error::Internal)
    }
}
