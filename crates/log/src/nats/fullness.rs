//! Finds out whether nats-servers cannot be reached because their disks are full.
//!
//! A nats-server whose disk is full shuts down JetStream. It says so in its own log, and to new
//! connections. Clients that are connected already get no answers.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::access::Access;
use super::connection::Connection;
use crate::Error;

/// The time for which an answer of the servers stays valid: many callers may want it at once.
const COUNTS: Duration = Duration::from_secs(1);

/// The longest wait until a server says whether it keeps streams.
const ASKING: Duration = Duration::from_secs(1);

/// The knowledge of nats-servers that have ceased to keep streams.
pub(super) struct Fullness {
    access: Access,
    connection: Connection,
    /// The number of servers that keep a stream.
    replicas: usize,
    asked: Mutex<Option<(Instant, BTreeSet<String>)>>,
}

impl Fullness {
    pub(super) fn new(access: Access, connection: Connection, replicas: usize) -> Self {
        Self {
            access,
            connection,
            replicas: replicas.max(1),
            asked: Mutex::default(),
        }
    }

    /// Turns [`Error::Unreachable`] into [`Error::Full`] if most of the servers that keep a stream
    /// have shut down JetStream. A connection to one of these servers is given up.
    pub(super) async fn explain(&self, error: Error) -> Error {
        let Error::Unreachable(why) = error else {
            return error;
        };
        let off = self.without_streams().await;
        match 2 * off.len() > self.replicas {
            true => {
                let names: Vec<_> = off.into_iter().collect();
                let names = names.join(", ");
                Error::Full(format!(
                    "the nats-servers {names} have shut down JetStream, as they do when their disks are full"
                ))
            }
            false => {
                if off.contains(&self.connection.client.server_info().server_name) {
                    // This fails only if the client has ended.
                    let _ = self.connection.client.force_reconnect().await;
                }
                Error::Unreachable(why)
            }
        }
    }

    /// The names of the servers that have ceased to keep streams.
    async fn without_streams(&self) -> BTreeSet<String> {
        let mut asked = self.asked.lock().await;
        if let Some((at, off)) = &*asked
            && at.elapsed() < COUNTS
        {
            return off.clone();
        }
        let servers = self.connection.servers(&self.access);
        let ask = |server: String| timeout(ASKING, self.access.ask(server));
        let told = join_all(servers.into_iter().map(ask)).await;
        let off: BTreeSet<_> = told.into_iter().flatten().flatten().collect();
        *asked = Some((Instant::now(), off.clone()));
        off
    }
}
