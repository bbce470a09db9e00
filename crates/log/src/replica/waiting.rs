//! Waits for calls to the log.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::backoff::Backoff;
use crate::visible;
use crate::{Error, Wait};
use evenkeel_core::snapshot::JournalError;

/// The number of attempts at a call whose error may be temporary, and the pauses before them: some
/// seconds in all, as long as an election of the broker takes.
const TRIES: u32 = 10;
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(1_280);

/// Returns the error for callers that want to change a snapshot, while something cannot be reached.
pub fn unreachable(why: impl ToString) -> JournalError {
    JournalError::Unreachable(why.to_string())
}

/// Converts the errors of calls that change nothing of a snapshot. For a record that got no answer,
/// its sender finds out whether it landed.
impl From<Error> for JournalError {
    fn from(error: Error) -> Self {
        match error {
            Error::Full(why) => Self::LogFull(visible::brief(&why).into_owned()),
            error => unreachable(error),
        }
    }
}

/// Waits for calls to the log, on threads that may wait.
#[derive(Clone)]
pub struct Waiting {
    runtime: Option<Handle>,
    pause: Arc<dyn Fn(Duration) + Send + Sync>,
}

impl Waiting {
    /// Waits on this runtime.
    pub fn on(runtime: Handle) -> Self {
        Self::pausing(runtime, std::thread::sleep)
    }

    /// Waits on this runtime, and lets time pass in another way.
    pub fn pausing(runtime: Handle, pause: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        Self {
            runtime: Some(runtime),
            pause: Arc::new(pause),
        }
    }

    /// Waits for a log that answers at once, and lets time pass in another way.
    pub fn at_once(pause: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        Self {
            runtime: None,
            pause: Arc::new(pause),
        }
    }

    /// Waits for a call.
    pub fn until<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        match &self.runtime {
            Some(runtime) => runtime.block_on(call),
            None => call.now_or_never().expect("this log answers at once"),
        }
    }

    /// Waits for a call that changes nothing, for this long at most.
    pub fn within<T>(
        &self,
        span: Duration,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.until(async {
            match self.runtime {
                Some(_) => timeout(span, call).await.unwrap_or_else(|elapsed| {
                    let why = format!("no answer within {span:?}: {elapsed}");
                    Err(Error::Unreachable(why))
                }),
                None => call.await,
            }
        })
    }

    /// Lets time pass.
    pub fn pause(&self, span: Duration) {
        (self.pause)(span);
    }

    /// Waits for a call that may be repeated, and repeats it while that may help.
    pub fn insist<'a, T>(&self, mut call: impl FnMut() -> Wait<'a, T>) -> Result<T, Error> {
        let mut pauses = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        for _ in 0..TRIES {
            match self.until(call()) {
                Err(Error::Unreachable(_) | Error::UnknownFate(_) | Error::NotFound(_)) => {
                    self.pause(pauses.after_failure());
                }
                done => return done,
            }
        }
        self.until(call())
    }
}
