//! The threads that serve connections.
//!
//! Each has its own runtime, and a connection stays on one of them: its calls are read, decided and
//! answered without waking another thread. For a small call that takes half the time of a shared
//! pool of threads.

use std::io;
use std::sync::Arc;
use std::thread;

use tokio::runtime::{self, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::calls::Offered;
use super::connections::{Accepted, AcceptedConnection, ConnectionCounts, Handshake, Listener};
use crate::server::error::Error;
use crate::server::telemetry::counts::Threads;
use crate::tasks::{self, Task};

/// The number of accepted connections that wait for a busy thread before accepting pauses.
const MAX_WAITING_CONNECTIONS: usize = 64;

/// The number of task turns before a thread checks again which connections have bytes to read. A
/// client that asks while other tasks keep the thread busy is not noticed earlier.
const TURNS_BETWEEN_LOOKS: u32 = 16;

/// The serving threads, and the task that gives them connections.
pub struct Workers {
    connections: Arc<ConnectionCounts>,
    stop: CancellationToken,
    accepting: Task<()>,
    ended: Vec<oneshot::Receiver<Result<(), Error>>>,
}

impl Workers {
    /// Starts a thread for each router, on which it serves its share of the
    /// listener's connections.
    pub fn start(
        routers: Vec<Offered>,
        listener: Listener,
        handshake: &Handshake,
        threads: &Arc<Threads>,
    ) -> Result<Self, Error> {
        let stop = CancellationToken::new();
        let mut ended = Vec::with_capacity(routers.len());
        let mut hands = Vec::with_capacity(routers.len());
        for (index, router) in routers.into_iter().enumerate() {
            let (hand, connections) = mpsc::channel(MAX_WAITING_CONNECTIONS);
            let (done, end) = oneshot::channel();
            let stopped = stop.clone();
            let threads = Arc::clone(threads);
            let handshake = handshake.clone();
            thread::Builder::new()
                .name(format!("serve-{index}"))
                .spawn(move || {
                    // Sending fails only if the receiver is gone, and with it the server.
                    let serve = |runtime: Runtime| {
                        threads.add(index, runtime.metrics());
                        serve(&runtime, router, connections, handshake, stopped)
                    };
                    let _ = done.send(runtime().and_then(serve));
                })
                .map_err(Error::Runtime)?;
            hands.push(hand);
            ended.push(end);
        }
        let connections = Arc::clone(&listener.counts);
        let accepting = tasks::spawn(accept(listener, hands, stop.clone()));
        Ok(Self {
            connections,
            stop,
            accepting,
            ended,
        })
    }

    /// Accepts no more connections and waits until all are closed. Each closes when its calls have
    /// ended, and soon after even if its client does not answer.
    pub async fn stop(self) -> Result<(), Error> {
        self.stop.cancel();
        self.accepting.await.map_err(Error::serve)?;
        let ended = async {
            for end in self.ended {
                end.await.map_err(Error::serve)??;
            }
            Ok(())
        };
        tokio::select! {
            ended = ended => ended,
            never = self.connections.all.close_idle() => match never {},
        }
    }
}

/// Gives connections to the threads in turn, skipping threads that are behind.
async fn accept(
    mut listener: Listener,
    hands: Vec<mpsc::Sender<Accepted>>,
    stop: CancellationToken,
) {
    let mut turns = hands.iter().cycle();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        let mut next = turns.by_ref().take(hands.len());
        match next.find_map(|hand| hand.try_reserve().ok()) {
            Some(place) => place.send(accepted),
            None => {
                let next = turns.next().expect("there are threads");
                if next.send(accepted).await.is_err() {
                    // The thread has ended, and reports its error itself.
                    return;
                }
            }
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

/// Serves connections until `stop`, then until they have ended.
fn serve(
    runtime: &Runtime,
    router: Offered,
    accepted: mpsc::Receiver<Accepted>,
    handshake: Handshake,
    stop: CancellationToken,
) -> Result<(), Error> {
    let (begun, connections) = mpsc::channel(MAX_WAITING_CONNECTIONS);
    tasks::spawn_on(runtime.handle(), begin(accepted, handshake, begun));
    let incoming = ReceiverStream::new(connections).map(Ok::<_, io::Error>);
    runtime
        .block_on(router.serve_with_incoming_shutdown(incoming, stop.cancelled_owned()))
        .map_err(Error::serve)
}

/// Handshakes accepted connections independently: a slow one delays no other.
async fn begin(
    mut accepted: mpsc::Receiver<Accepted>,
    handshake: Handshake,
    begun: mpsc::Sender<AcceptedConnection>,
) {
    while let Some(accepted) = accepted.recv().await {
        let (handshake, begun) = (handshake.clone(), begun.clone());
        tasks::spawn(async move {
            match accepted.adopt(&handshake).await {
                // Sending fails once the server stops, because it takes no more connections.
                Ok(connection) => drop(begun.send(connection).await),
                Err(error) => debug!(%error, "a connection did not begin"),
            }
        });
    }
}
