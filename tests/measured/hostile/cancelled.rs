//! A client that cancels its calls: it keeps its connection, and nobody waits for it.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::hostile::beside::Bystanders;
use crate::hostile::process::{DEADLINE, Server};
use crate::hostile::raw::spread;
use crate::hostile::world::{Client, MEASURING, assert_not_held_up, fill};

const SETTINGS: u8 = 4;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

/// The flag of a frame of headers that is the only one.
const END_HEADERS: u8 = 4;

/// The flag of a frame that acknowledges another.
const ACK: u8 = 1;

/// The code of a stream that its client does not need any more.
const CANCEL: [u8; 4] = [0, 0, 0, 8];

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame");
    let mut frame = length.to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The header fields of a call, none of which is to be remembered.
fn fields(path: &str) -> Vec<u8> {
    // `:method: POST` and `:scheme: http` are entries of HTTP/2's own table.
    let mut fields = vec![0x83, 0x86];
    // The names `:path`, `:authority` and `content-type` are entries 4, 1 and 31; `te` is none.
    for (name, value) in [
        (&[4][..], path),
        (&[1], "test"),
        (&[15, 16], "application/grpc"),
        (&[0, 2, b't', b'e'], "trailers"),
    ] {
        fields.extend(name);
        fields.push(u8::try_from(value.len()).expect("a short value"));
        fields.extend(value.as_bytes());
    }
    fields
}

/// Reads frames until a ping is answered. Fails if the server closes the connection.
async fn answered_ping(stream: &mut TcpStream) -> io::Result<()> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let [a, b, c, kind, flags, ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        stream.read_exact(&mut payload).await?;
        match kind {
            GOAWAY => {
                let why = String::from_utf8_lossy(&payload[8..]).into_owned();
                return Err(io::Error::other(why));
            }
            PING if flags == ACK => return Ok(()),
            _ => {}
        }
    }
}

/// Begins and cancels as many calls as a connection may have, again and again. All of a round is
/// sent at once, so that calls are cancelled before the server has accepted them.
async fn cancel_all(server: &Server, rounds: u32, calls: u32) -> io::Result<()> {
    let mut stream = TcpStream::connect(server.address()).await?;
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
    let fields = fields(&spread("Filter"));
    for round in 0..rounds {
        let mut sent = Vec::new();
        for call in 0..calls {
            let id = 2 * (round * calls + call) + 1;
            sent.extend(frame(HEADERS, END_HEADERS, id, &fields));
            sent.extend(frame(RST_STREAM, 0, id, &CANCEL));
        }
        sent.extend(frame(PING, 0, 0, &[7; 8]));
        stream.write_all(&sent).await?;
        answered_ping(&mut stream).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_calls_at_once_keep_their_connection() {
    let _alone = MEASURING.lock().await;
    let server = Server::start(&["--threads", "1"]);
    fill(&mut Client::new(server.channel()), 20).await;
    let bystanders = Bystanders::start(server.address());
    let cancelled = timeout(DEADLINE, cancel_all(&server, 30, 1_000)).await;
    assert_not_held_up(bystanders, "calls that are cancelled");
    cancelled.expect("in time").expect("the connection stays");
}
