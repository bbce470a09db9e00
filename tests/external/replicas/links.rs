//! Links between nats-servers, and from one client to them. All pass through this process, which
//! can cut them.

use std::io::copy;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde_json::Value;

use crate::replicas::brokers::{Brokers, stream_of};

/// A link that passes connections on to a port, which can change.
pub(crate) struct Link {
    port: u16,
    shared: Arc<Mutex<Passing>>,
}

/// The port to which a link leads, `None` if it is cut, and its open connections.
#[derive(Default)]
struct Passing {
    to: Option<u16>,
    open: Vec<TcpStream>,
}

impl Link {
    /// Makes a link to a port.
    fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("there are ports");
        let own = listener.local_addr().expect("it is bound").port();
        let link = Self {
            port: own,
            shared: Arc::default(),
        };
        link.lead_to(Some(port));
        let shared = Arc::clone(&link.shared);
        // The thread ends with the process.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A client that is not let through tries again.
                let _ = pass(&shared, client);
            }
        });
        link
    }

    /// Leads connections to another port, or nowhere, and ends open ones.
    pub(crate) fn lead_to(&self, port: Option<u16>) {
        let mut passing = lock(&self.shared);
        passing.to = port;
        for stream in passing.open.drain(..) {
            // The connection may have ended already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn lock(shared: &Mutex<Passing>) -> MutexGuard<'_, Passing> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pass(shared: &Mutex<Passing>, client: TcpStream) -> std::io::Result<()> {
    let mut passing = lock(shared);
    let Some(port) = passing.to else {
        return Ok(());
    };
    let server = TcpStream::connect(("127.0.0.1", port))?;
    for (from, to) in [(&client, &server), (&server, &client)] {
        let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
        passing.open.push(from.try_clone()?);
        thread::spawn(move || {
            let _ = copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
    Ok(())
}

/// The links of a cluster.
pub(crate) struct Links {
    /// The number of a server, the number and port of another one, and the link between them.
    between: Vec<(usize, usize, u16, Link)>,
    /// The link of a client to a server, which is the first server at the start.
    pub(crate) way: Link,
}

impl Links {
    /// Makes links between servers, given their ports for clients and for other servers.
    pub(crate) fn of(servers: &[(u16, u16)]) -> Self {
        let all = 0..servers.len();
        let pairs = all
            .clone()
            .flat_map(|from| all.clone().map(move |to| (from, to)));
        let between = pairs.filter(|(from, to)| from != to).map(|(from, to)| {
            let port = servers[to].1;
            (from, to, port, Link::to(port))
        });
        Self {
            between: between.collect(),
            way: Link::to(servers[0].0),
        }
    }

    /// The ports by which a server reaches the others.
    pub(crate) fn routes(&self, of: usize) -> Vec<u16> {
        let own = self.between.iter().filter(|(from, ..)| *from == of);
        own.map(|(.., link)| link.port).collect()
    }

    /// The port of the client's link.
    pub(crate) fn way_port(&self) -> u16 {
        self.way.port
    }

    /// Cuts a server off from the others, or joins it with them again.
    pub(crate) fn cut_off(&self, server: usize, is_cut: bool) {
        for (from, to, port, link) in &self.between {
            if [*from, *to].contains(&server) {
                link.lead_to((!is_cut).then_some(*port));
            }
        }
    }
}

impl Brokers {
    /// The links between the servers.
    pub(crate) fn links(&self) -> &Links {
        self.links.as_ref().expect("they are linked")
    }

    /// Leads the first server of the fleet to this nats-server.
    pub(crate) fn lead_to(&self, number: usize) {
        let port = self.servers[number].client;
        self.links().way.lead_to(Some(port));
    }

    /// Returns the number of the server that leads the stream of a snapshot.
    pub(crate) async fn leader(&self, snapshot: &str) -> usize {
        let stream = self.stream(snapshot).await;
        let cluster = stream.cached_info().cluster.as_ref();
        let leader = cluster.and_then(|cluster| cluster.leader.as_deref());
        let number = self.servers.iter().position(|it| Some(&*it.name) == leader);
        number.expect("it has a leader")
    }

    /// Asks the leader of a stream to step down. It may fail to answer.
    pub(crate) async fn step_down(&self, stream: &str, request: &Value) {
        let client = async_nats::connect(self.urls()).await.expect("it runs");
        let subject = format!("STREAM.LEADER.STEPDOWN.{stream}");
        let streams = async_nats::jetstream::new(client);
        let _: Result<Value, _> = streams.request(subject, request).await;
    }

    /// Returns the last sequence of a snapshot's stream as one server knows it, if that server
    /// answers.
    pub(crate) async fn end_at(&self, number: usize, snapshot: &str) -> Option<u64> {
        let client = async_nats::connect(&self.urls()[number]).await.ok()?;
        let stream = stream_of(client, snapshot).await?;
        Some(stream.cached_info().state.last_sequence)
    }

    /// The flags of a server of the fleet. If there are links, the first server uses the client's
    /// link.
    pub(crate) fn flags_of(&self, number: usize) -> Vec<String> {
        let mut flags = self.flags();
        if let Some(links) = self.links.as_ref().filter(|_| number == 0) {
            flags[1] = format!("nats://127.0.0.1:{}", links.way_port());
        }
        flags
    }
}
