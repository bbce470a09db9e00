//! Clients that take many connections of the admin port.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use crate::hostile::process::Server;

/// The number of half requests that one address keeps open.
const HALF_REQUESTS: usize = 300;

/// The longest time that a probe may take.
const QUICK: Duration = Duration::from_secs(1);

/// A connection from one of this machine's addresses.
async fn connect(from: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    let from = SocketAddr::new(from.parse().expect("an address"), 0);
    socket.bind(from).expect("this machine's address");
    socket.connect(to).await.expect("it is accepted")
}

/// Sends a request of which the head does not end.
async fn half_request(number: usize, to: SocketAddr) -> TcpStream {
    let mut stream = connect("127.0.0.1", to).await;
    let request: &[u8] = match number % 2 {
        0 => b"",
        _ => b"GET /livez HTTP/1.1\r\nhost: ",
    };
    stream.write_all(request).await.expect("it can be sent");
    stream
}

async fn probe(from: &str, to: SocketAddr) -> String {
    let mut stream = connect(from, to).await;
    let request = b"GET /livez HTTP/1.1\r\nhost: evenkeel\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.expect("it can be sent");
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer).await;
    read.expect("it is answered");
    answer
}

#[tokio::test]
async fn half_requests_of_one_address_hold_up_no_probe() {
    let mut server = Server::start(&["--admin-listen", "127.0.0.1:0"]);
    let admin = server.logged("admin listening", "address");
    let admin: SocketAddr = admin.parse().expect("an address");
    let mut open = Vec::new();
    for number in 0..HALF_REQUESTS {
        open.push(half_request(number, admin).await);
    }
    let flood = tokio::spawn(async move {
        for number in HALF_REQUESTS.. {
            open.push(half_request(number, admin).await);
            open.remove(0);
            sleep(Duration::from_millis(5)).await;
        }
    });
    // Only Linux has other loopback addresses without further setup.
    let addresses = ["127.0.0.1", "127.0.0.2"];
    let addresses = &addresses[..if cfg!(target_os = "linux") { 2 } else { 1 }];
    for _ in 0..30 {
        for from in addresses {
            let answer = timeout(QUICK, probe(from, admin)).await;
            let answer = answer.unwrap_or_else(|_| panic!("no answer to {from}"));
            assert!(answer.starts_with("HTTP/1.1 200 "), "{from}: {answer:?}");
        }
        sleep(Duration::from_millis(20)).await;
    }
    flood.abort();
}
