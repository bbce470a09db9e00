//! Thousands of connections that do nothing.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::hostile::process::Server;
use crate::hostile::world::{Client, assert_answered, assert_healthy, fill, question};

/// The number of connections, unless the system allows one process fewer.
const CONNECTIONS: u64 = 10_000;

/// File descriptors for everything else.
const SPARE: u64 = 300;

#[tokio::test]
async fn ten_thousand_idle_connections_hold_up_nobody() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    let wanted = (CONNECTIONS + SPARE).min(most);
    // The server, a child of this process, inherits the limit.
    let raised = Rlimit {
        current: Some(wanted.max(limit.current.unwrap_or(0))),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).expect("up to the hard limit");
    let count = (wanted - SPARE).min(CONNECTIONS);
    if count < CONNECTIONS {
        eprintln!("the system allows {count} connections, not {CONNECTIONS}");
    }
    let server = Server::start(&["--max-connections", "20000"]);
    let mut client = Client::new(server.channel());
    fill(&mut client, 20).await;
    let mut idle = Vec::new();
    for _ in 0..count {
        let mut socket = TcpStream::connect(server.address())
            .await
            .expect("it is accepted");
        let hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        socket.write_all(hello).await.expect("it can be sent");
        idle.push(socket);
    }
    assert_healthy(server.channel()).await;
    assert_answered(&mut client).await;
    let mut another = Client::new(server.channel());
    let answered = tokio::time::timeout(Duration::from_secs(30), another.filter(question("web")));
    answered.await.expect("in time").expect("a valid question");
}
