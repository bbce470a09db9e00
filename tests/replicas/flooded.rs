//! A nats-server that sends more to a subscription than was asked for: the server of the fleet
//! keeps little of it in memory, and goes on.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::brokers::Brokers;
use crate::build::node;
use crate::fleet::{Client, batch, put_node, update};
use crate::process::{Server, command, until};

/// The number of messages that are sent unasked, each of 1 MiB.
const MESSAGES: usize = 500;

/// A proxy before a nats-server, which adds messages of its own.
#[derive(Default)]
struct Flood {
    is_on: AtomicBool,
    /// True if a subscription was flooded.
    is_done: AtomicBool,
    /// The subject and the id of the last subscription that was made for messages of a log.
    last: Mutex<Option<(String, String)>>,
}

impl Flood {
    fn before(self: &Arc<Self>, broker: String) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("nats://{}", listener.local_addr().expect("it is bound"));
        let flood = Arc::clone(self);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&broker).expect("it runs");
                let (from, to) = (client.try_clone(), server.try_clone());
                let (from, to) = (from.expect("a handle"), to.expect("a handle"));
                let asking = Arc::clone(&flood);
                thread::spawn(move || asking.pass_requests(&from, &to));
                let answering = Arc::clone(&flood);
                thread::spawn(move || answering.pass_answers(&server, &client));
            }
        });
        url
    }

    /// Passes on requests, and notes subscriptions.
    fn pass_requests(&self, mut from: &TcpStream, mut to: &TcpStream) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..read]);
            for line in text.lines().filter(|line| line.starts_with("SUB _INBOX")) {
                let words: Vec<_> = line.split_ascii_whitespace().collect();
                // The subscription for answers to requests has a wildcard, and is not noted.
                if let [_, subject, id] = words[..]
                    && !subject.ends_with('*')
                {
                    let last = (subject.to_owned(), id.to_owned());
                    *self.last.lock().expect("nobody panics") = Some(last);
                }
            }
            if to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    }

    /// Passes on answers, and floods a subscription while `is_on` is set.
    fn pass_answers(&self, mut from: &TcpStream, mut to: &TcpStream) {
        let wait = from.set_read_timeout(Some(Duration::from_millis(20)));
        wait.expect("a time that is not 0");
        let mut buffer = vec![0; 64 << 10];
        let mut flooded = None;
        loop {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) if to.write_all(&buffer[..read]).is_err() => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // Nothing has arrived for a while, so this is between two messages.
                    if self.is_on.load(Ordering::Relaxed) && self.flood(to, &mut flooded).is_err() {
                        break;
                    }
                }
                Err(_) => break,
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    }

    /// Makes the server subscribe anew, and sends messages to the new subscription.
    fn flood(&self, to: &TcpStream, flooded: &mut Option<String>) -> std::io::Result<()> {
        let last = self.last.lock().expect("nobody panics").clone();
        let Some((subject, id)) = last.filter(|(_, id)| Some(id) != flooded.as_ref()) else {
            return Ok(());
        };
        if flooded.replace(id.clone()).is_none() {
            // The gap before this number makes the server subscribe anew.
            return send(to, (&subject, &id), 9_999);
        }
        for number in 1..=MESSAGES {
            send(to, (&subject, &id), number)?;
        }
        self.is_on.store(false, Ordering::Relaxed);
        self.is_done.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// Sends a message of 1 MiB as if from a stream, with this number in its consumer.
fn send(mut to: &TcpStream, (subject, id): (&str, &str), number: usize) -> std::io::Result<()> {
    let payload = vec![b'x'; 1 << 20];
    let (sequence, bytes) = (1_000_000 + number, payload.len());
    let reply = format!("$JS.ACK.s.c.1.{sequence}.{number}.1700000000000000000.0");
    write!(to, "MSG {subject} {id} {reply} {bytes}\r\n")?;
    to.write_all(&payload)?;
    to.write_all(b"\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_asked_for_takes_little_memory() {
    let Some(brokers) = Brokers::start(1) else {
        return;
    };
    let urls = brokers.urls();
    let flood = Arc::<Flood>::default();
    let url = flood.before(urls[0].replace("nats://", ""));
    let mut serve = command(&["serve", "--fleet", "f"]);
    let flags = brokers.flags().into_iter();
    serve.args(flags.map(|flag| flag.replace(&urls[0], &url)));
    let server = Server::spawn(&mut serve);
    let clients = [Client::new(server.channel())];
    update(&clients, 0, &batch("s", vec![put_node(node("n", &[]))])).await;
    flood.is_on.store(true, Ordering::Relaxed);
    until("a subscription is flooded", || {
        flood.is_done.load(Ordering::Relaxed).then_some(())
    });
    let peak = server.peak_memory();
    println!("{peak} bytes");
    assert!(peak < 250_000 << 10, "{peak} bytes");
    update(&clients, 0, &batch("s", vec![put_node(node("m", &[]))])).await;
}
