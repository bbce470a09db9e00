//! A nats-server that suddenly sends a line without end. A server that is connected to it still
//! answers, says what is wrong, and goes on when the line is over.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::brokers::Brokers;
use crate::build::node;
use crate::fleet::{Client, batch, described, put_node, update};
use crate::http::get;
use crate::metrics::Page;
use crate::process::{Server, command, until};

/// A proxy before a nats-server, which can turn hostile.
struct Disguise {
    url: String,
    /// True while the proxy sends a line that never ends.
    is_hostile: Arc<AtomicBool>,
    /// The number of connections to the proxy.
    asked: Arc<AtomicU32>,
}

/// Passes bytes on until one side ends or the proxy turns hostile.
fn pass(mut from: &TcpStream, mut to: &TcpStream, is_hostile: &AtomicBool) {
    let mut buffer = vec![0; 64 << 10];
    let wait = from.set_read_timeout(Some(Duration::from_millis(20)));
    wait.expect("a time that is not 0");
    while !is_hostile.load(Ordering::Relaxed) {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                if to.write_all(&buffer[..read]).is_err() {
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
}

fn serve(client: &TcpStream, broker: &str, is_hostile: &AtomicBool) {
    if !is_hostile.load(Ordering::Relaxed) {
        let server = TcpStream::connect(broker).expect("it runs");
        thread::scope(|scope| {
            scope.spawn(|| {
                pass(client, &server, is_hostile);
                let _ = server.shutdown(Shutdown::Both);
            });
            pass(&server, client, is_hostile);
            if !is_hostile.load(Ordering::Relaxed) {
                let _ = client.shutdown(Shutdown::Both);
            }
        });
    }
    let mut client = client;
    let more = vec![b'x'; 1 << 20];
    // The line has an end, so that a server that keeps all of it fails the test but does not
    // exhaust the memory of the machine.
    for _ in 0..600 {
        if !is_hostile.load(Ordering::Relaxed) || client.write_all(&more).is_err() {
            return;
        }
    }
}

impl Disguise {
    fn before(broker: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let disguise = Self {
            url: format!("nats://{}", listener.local_addr().expect("it is bound")),
            is_hostile: Arc::default(),
            asked: Arc::default(),
        };
        let is_hostile = Arc::clone(&disguise.is_hostile);
        let asked = Arc::clone(&disguise.asked);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                asked.fetch_add(1, Ordering::Relaxed);
                let (broker, is_hostile) = (broker.clone(), Arc::clone(&is_hostile));
                thread::spawn(move || serve(&client, &broker, &is_hostile));
            }
        });
        disguise
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_outlives_a_nats_server_that_sends_without_end() {
    let Some(brokers) = Brokers::start(1) else {
        return;
    };
    let urls = brokers.urls();
    let disguise = Disguise::before(urls[0].replace("nats://", ""));
    let mut serve = command(&["serve", "--fleet", "f", "--admin-listen", "127.0.0.1:0"]);
    let flags = brokers.flags().into_iter();
    serve.args(flags.map(|flag| flag.replace(&urls[0], &disguise.url)));
    let mut server = Server::spawn(&mut serve);
    let admin = server.logged("admin listening", "address");
    let clients = [Client::new(server.channel())];
    update(&clients, 0, &batch("s", vec![put_node(node("n", &[]))])).await;
    disguise.asked.store(0, Ordering::Relaxed);
    disguise.is_hostile.store(true, Ordering::Relaxed);
    until("the log says so", || {
        let lines = server.lines();
        let mut lines = lines.iter();
        lines.find(|line| line.contains("a line of more than 1048576 bytes"))?;
        Some(())
    });
    until("it is counted", || {
        let is_reachable = Page::of(&admin).value("evenkeel_log_reachable", &[]);
        (is_reachable == 0.0).then_some(())
    });
    let begun = Instant::now();
    until("some attempts", || {
        let asked = Instant::now();
        assert_eq!(get(&admin, "/livez").status, 200);
        let took = asked.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
        (begun.elapsed() > Duration::from_secs(8)).then_some(())
    });
    let held = described(&mut clients[0].clone(), "s").await;
    assert_eq!(held.expect("it answers").revision, 1);
    let asked = disguise.asked.load(Ordering::Relaxed);
    assert!((2..16).contains(&asked), "asked {asked} times");
    let peak = server.peak_memory();
    assert!(peak < 200_000 << 10, "{peak} bytes");
    let lines = server.lines();
    assert!(lines.len() < 60, "{lines:#?}");
    disguise.is_hostile.store(false, Ordering::Relaxed);
    update(&clients, 0, &batch("s", vec![put_node(node("m", &[]))])).await;
}
