//! The threads that serve connections.
//!
//! Each has its own runtime, and a connection stays on one of them: its calls are read, decided and
//! answered without waking another thread. For a small call that takes half the time of a shared
//! pool of threads.

use std::sync::Arc;
use std::thread;

use tokio::runtime::{self, Runtime};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::calls::ThreadCalls;
use super::connections::{Accepted, ConnectionTerms, Listener};
use crate::server::Error;
use crate::server::telemetry::counts::PortCounts;
use crate::tasks;

/// The number of task turns before a thread checks again which connections have bytes to read. A
/// client that asks while other tasks keep the thread busy is not noticed earlier.
const TURNS_BETWEEN_LOOKS: u32 = 16;

/// The serving threads, and the task that gives them connections.
pub struct Workers {
    stop: CancellationToken,
    open: TaskTracker,
}

impl Workers {
    /// Starts `count` threads, on each of which `calls` serves its share of the listener's
    /// connections.
    ///
    /// # Errors
    /// When threads cannot be started.
    pub fn start(
        count: usize,
        calls: &ThreadCalls,
        listener: Listener,
        terms: ConnectionTerms,
        counts: &PortCounts,
    ) -> Result<Self, Error> {
        let (stop, open) = (CancellationToken::new(), TaskTracker::new());
        let terms = Arc::new(terms);
        let mut hands = Vec::with_capacity(count);
        for index in 0..count {
            let (hand, accepted) = mpsc::unbounded_channel();
            let runtime = runtime()?;
            counts.threads.lock().push(runtime.metrics());
            let (calls, terms) = (Arc::new(calls.clone()), Arc::clone(&terms));
            let (stop, is_open) = (stop.clone(), open.token());
            thread::Builder::new()
                .name(format!("serve-{index}"))
                .spawn(move || {
                    let _is_open = is_open;
                    runtime.block_on(serve(calls, terms, accepted, stop));
                })
                .map_err(Error::Runtime)?;
            hands.push(hand);
        }
        tasks::spawn(open.track_future(accept(listener, hands, stop.clone())));
        Ok(Self { stop, open })
    }

    /// Accepts no more connections and waits until all are closed. Each closes when its calls have
    /// ended, and soon after even if its client does not answer.
    pub async fn stop(self) {
        self.stop.cancel();
        self.open.close();
        self.open.wait().await;
    }
}

/// Gives connections to the threads in turn.
async fn accept(
    mut listener: Listener,
    hands: Vec<mpsc::UnboundedSender<Accepted>>,
    stop: CancellationToken,
) {
    for hand in hands.iter().cycle() {
        tokio::select! {
            // A thread ends only if it panics. Its connections are closed then.
            accepted = listener.accept() => drop(hand.send(accepted)),
            () = stop.cancelled() => return,
        }
    }
}

fn runtime() -> Result<Runtime, Error> {
    runtime::Builder::new_current_thread()
        .event_interval(TURNS_BETWEEN_LOOKS)
        .enable_all()
        .build()
        .map_err(Error::Runtime)
}

/// Serves connections independently, until no more can come and all have ended.
async fn serve(
    calls: Arc<ThreadCalls>,
    terms: Arc<ConnectionTerms>,
    mut accepted: mpsc::UnboundedReceiver<Accepted>,
    stop: CancellationToken,
) {
    let open = TaskTracker::new();
    while let Some(accepted) = accepted.recv().await {
        open.spawn(accepted.serve(Arc::clone(&terms), Arc::clone(&calls), stop.clone()));
    }
    open.close();
    open.wait().await;
}
