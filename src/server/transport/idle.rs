//! Closes connections without calls when the server stops. HTTP/2 asks a client to
//! close its connection, and waits for the answer: a client that does not answer, or has
//! not even sent its preface, would delay the stop for as long as it likes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use slab::Slab;
use tokio::time::{MissedTickBehavior, interval};
use tracing::info;

use super::turns::CallTurns;

/// The time between two checks of the connections.
const PERIOD: Duration = Duration::from_millis(100);

/// The number of checks in a row that find a connection without a call before it is closed. They
/// take a second. By then a client that reads knows that the server stops, and a call that it sent
/// before has arrived.
const LOOKS: u32 = 10;

/// The open connections.
#[derive(Default)]
pub struct ConnectionSet(Mutex<Slab<CallsWatch>>);

/// A connection that may be without calls.
struct CallsWatch {
    calls: Arc<CallTurns>,
    /// The number of calls that had arrived at the last check.
    arrived: usize,
    /// The number of checks in a row that found no call.
    looks: u32,
}

impl ConnectionSet {
    /// Adds a connection, until the returned place is dropped.
    pub fn add(self: &Arc<Self>, calls: Arc<CallTurns>) -> ConnectionPlace {
        let key = self.0.lock().insert(CallsWatch {
            calls,
            arrived: 0,
            looks: 0,
        });
        ConnectionPlace {
            all: Arc::clone(self),
            key,
        }
    }

    /// Closes connections that have no calls, for as long as it is polled.
    pub async fn close_idle(&self) -> Infallible {
        let mut looks = interval(PERIOD);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let mut all = self.0.lock();
            let closed = all
                .iter_mut()
                .map(|(_, watched)| watched.look())
                .filter(|closed| *closed)
                .count();
            if closed > 0 {
                info!(connections = closed, "closing connections without calls");
            }
        }
    }
}

impl CallsWatch {
    /// Closes the connection if it has been without calls for long enough.
    fn look(&mut self) -> bool {
        let arrived = self.calls.arrived();
        let had_calls = std::mem::replace(&mut self.arrived, arrived) != arrived;
        self.looks = match had_calls || self.calls.is_busy() {
            true => 0,
            false => self.looks.saturating_add(1),
        };
        let is_over = self.looks == LOOKS;
        if is_over {
            self.calls.connection.raise();
        }
        is_over
    }
}

/// The place of an open connection.
pub struct ConnectionPlace {
    all: Arc<ConnectionSet>,
    key: usize,
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.all.0.lock().remove(self.key);
    }
}
