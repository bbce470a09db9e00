//! Just enough HTTP to ask an admin port.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::process::DEADLINE;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// Asks an address; the server closes the connection after its answer.
pub fn ask(address: &str, method: &str, path: &str, body: &str) -> Answer {
    ask_with(address, method, path, &[("host", address)], body)
}

/// Asks an address with these headers.
pub fn ask_with(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let headers: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\n{headers}connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    parse(&exchange(address, request.as_bytes()))
}

/// Gets a page.
pub fn get(address: &str, path: &str) -> Answer {
    ask(address, "GET", path, "")
}

/// Sends bytes and reads until the server closes the connection.
pub fn exchange(address: &str, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).expect("the admin port listens");
    stream
        .set_read_timeout(Some(DEADLINE))
        .expect("a time-out can be set");
    // A server that refuses early may close before it has read all.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).expect("answers are text")
}

fn parse(answer: &str) -> Answer {
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    // No page has an unknown length, for which it would come in chunks.
    assert!(!head.to_lowercase().contains("chunked"), "{head}");
    Answer {
        status: status.expect("an answer has a status"),
        head: head.to_lowercase(),
        body: body.to_owned(),
    }
}
