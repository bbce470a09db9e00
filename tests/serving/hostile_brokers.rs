//! A server whose log is kept by a broker that is no nats-server: its memory, its attempts and its
//! log lines stay within bounds.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::{Server, command, until};

/// The greeting of a nats-server.
const INFO: &str = r#"INFO {"server_id":"X","server_name":"n","version":"2.15.2","proto":1,"headers":true,"jetstream":true,"max_payload":1048576}"#;

/// The bytes to send before the client has identified itself, and after; `…` stands for bytes that
/// never end. Then the words that the server's log must have.
const ANSWERS: [(&str, &str, &str); 9] = [
    ("INFO {\"a\":\"…", "", "a line of more than 1048576 bytes"),
    ("…", "", "a line of more than 1048576 bytes"),
    (
        "HTTP/1.1 400 \u{1b}[2J\r\n",
        "",
        "the protocol of NATS: \"HTTP/1.1 400 \\u{1b}[2J",
    ),
    (
        "INFO [[[[[[[[[[[[[[[[[[[[[[[[\r\n",
        "",
        "the protocol of NATS",
    ),
    ("INFO", "PONG\r\nMSG a…", "a line of more than 16384 bytes"),
    (
        "INFO",
        "PONG\r\nMSG a 1 2000000000\r\n…",
        "a message of 2000000000 bytes",
    ),
    (
        "INFO",
        "PONG\r\nHMSG a 1 1000000 1000000\r\nNATS/1.0\r\n…",
        "headers of 1000000 bytes",
    ),
    ("INFO", "-ERR 'no \u{1b}[2J'\r\n", "no \\u{1b}[2J"),
    ("INFO", "PONG\r\n", "it closed the connection"),
];

/// Sends a text, and endless bytes in place of `…`. Fails once the other side closes.
fn send(mut stream: &TcpStream, text: &str) -> std::io::Result<()> {
    let Some((start, _)) = text.split_once('…') else {
        return stream.write_all(text.as_bytes());
    };
    stream.write_all(start.as_bytes())?;
    let more = vec![b'x'; 1 << 20];
    // The bytes do end, so that a server that takes all of them fails and does not fill the
    // machine.
    (0..600).try_for_each(|_| stream.write_all(&more))
}

/// Answers one connection.
fn serve(stream: &TcpStream, before: &str, after: &str) -> std::io::Result<()> {
    match before {
        "INFO" => send(stream, &format!("{INFO}\r\n"))?,
        before => send(stream, before)?,
    }
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    if lines.any(|line| line.starts_with("PING")) {
        send(stream, after)?;
    }
    Ok(())
}

/// The error that a line of the log tells of.
fn error_of(line: &str) -> String {
    let line: Value = serde_json::from_str(line).unwrap_or_default();
    line["error"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn what_a_nats_server_sends_is_bounded_paced_and_told() {
    // All at once, because most of the time is waiting.
    thread::scope(|scope| {
        for answer in ANSWERS {
            scope.spawn(move || check(answer));
        }
    });
}

/// Starts a server whose log is kept by a program that sends this, and checks what the server does.
fn check((before, after, told): (&'static str, &'static str, &'static str)) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("nats://{}", listener.local_addr().expect("it is bound"));
    let asked = Arc::new(AtomicU32::new(0));
    let counts = Arc::clone(&asked);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            counts.fetch_add(1, Ordering::Relaxed);
            // The server closes the connection.
            thread::spawn(move || drop(serve(&stream, before, after)));
        }
    });
    let args = ["serve", "--log", &url, "--fleet=f", "--log-level=trace"];
    let server = Server::begin_on("127.0.0.1:0", &mut command(&args));
    until("it is told", || {
        let lines = server.lines();
        assert!(asked.load(Ordering::Relaxed) < 20, "{told}: {lines:#?}");
        lines
            .iter()
            .any(|line| error_of(line).contains(told))
            .then_some(())
    });
    let begun = Instant::now();
    until("some attempts", || {
        (begun.elapsed() > Duration::from_secs(4)).then_some(())
    });
    let asked = asked.load(Ordering::Relaxed);
    assert!((2..12).contains(&asked), "{told}: asked {asked} times");
    let peak = server.peak_memory();
    assert!(peak < 200_000 << 10, "{told}: {peak} bytes");
    let lines = server.lines();
    let bytes: usize = lines.iter().map(String::len).sum();
    assert!(bytes < 64 << 10, "{told}: {bytes} bytes of log");
    assert!(lines.len() < 60, "{told}: {} lines of log", lines.len());
}
