//! The nats-servers one by one: each answers direct reads from its own copy.

use std::collections::HashSet;

use tokio::sync::Mutex;

use super::access::Access;
use super::connection::Connection;
use crate::log::Error;

/// Connections to single servers, once somebody wants them.
pub(super) struct Peers {
    access: Access,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    /// Addresses that were tried.
    tried: HashSet<String>,
    /// The servers that answer there, each once: it may have several addresses.
    servers: Vec<NatsServer>,
}

struct NatsServer {
    access: Access,
    /// None while it cannot be reached.
    connection: Option<Connection>,
}

impl Peers {
    /// Those that are reached with this access, or told by a server that is.
    pub(super) fn new(access: Access) -> Self {
        Self {
            access,
            found: Mutex::default(),
        }
    }

    /// A connection to one server and no other, by its number.
    pub(super) async fn get(
        &self,
        connection: &Connection,
        number: usize,
    ) -> Result<Connection, Error> {
        let mut found = self.found.lock().await;
        self.find(connection, &mut found).await;
        let peer = found.servers.get_mut(number);
        let peer = peer.ok_or_else(|| Error::NotFound(format!("peer {number}")))?;
        if let Some(connection) = &peer.connection {
            return Ok(connection.clone());
        }
        let opened = open(&peer.access).await?;
        peer.connection = Some(opened.clone());
        Ok(opened)
    }

    /// Tries addresses that are new.
    async fn find(&self, connection: &Connection, found: &mut Found) {
        let scheme = if self.access.uses_tls() {
            "tls"
        } else {
            "nats"
        };
        let told = connection.client.server_info().connect_urls;
        let told = told.iter().map(|server| format!("{scheme}://{server}"));
        let given = self.access.servers.len();
        let addresses = self.access.servers.iter().cloned().chain(told);
        for (number, address) in addresses.enumerate() {
            if !found.tried.insert(address.clone()) {
                continue;
            }
            let access = Access {
                servers: vec![address],
                ..self.access.clone()
            };
            match open(&access).await {
                Ok(opened) => {
                    let is_same = |peer: &NatsServer| {
                        let other = peer.connection.as_ref().map(Connection::server_id);
                        other == Some(opened.server_id())
                    };
                    if !found.servers.iter().any(is_same) {
                        let connection = Some(opened);
                        found.servers.push(NatsServer { access, connection });
                    }
                }
                // Servers tell addresses that cannot be reached from everywhere, and
                // that their certificates do not name.
                Err(_) if number >= given => {}
                Err(_) => found.servers.push(NatsServer {
                    access,
                    connection: None,
                }),
            }
        }
    }
}

async fn open(access: &Access) -> Result<Connection, Error> {
    let opened = Connection::open_alone(access, "evenkeel reads a copy").await;
    opened.map_err(|error| Error::Unreachable(error.to_string()))
}
