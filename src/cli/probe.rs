//! Detects which protocol a port speaks after a call failed, so that the error can say what is
//! wrong with the address.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::codegen::http::header::CONTENT_TYPE;
use tonic::codegen::http::{self, Uri};

/// The longest time to wait for the port's answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The start of a connection of HTTP/2: its preface, and settings that change nothing.
const OPENING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Returns the fault of an address, if its port shows one.
pub(super) async fn fault_of(address: &Uri) -> Option<String> {
    let answer = timeout(PATIENCE, answer_of(address)).await.ok()??;
    let authority = address.authority()?;
    let wants_tls = address.scheme_str() == Some("https");
    match &answer[..] {
        // The answer is a frame of settings.
        [_, _, _, 4, ..] if wants_tls => Some(format!(
            "{authority} speaks plain text, without TLS: use http://{authority}"
        )),
        // The answer is an alert or a handshake.
        [0x15 | 0x16, 3, ..] if !wants_tls => {
            Some(format!("{authority} wants TLS: use https://{authority}"))
        }
        [b'H', b'T', b'T', b'P', b'/', ..] => Some(format!(
            "{authority} answers in HTTP/1, so it is not the gRPC port of a server; \
             metrics and probes have a port of their own (--admin-listen)"
        )),
        _ => None,
    }
}

/// Returns the fault of an address that answers a call, but not in gRPC.
pub(super) fn fault_of_answer<B>(address: &Uri, answer: &http::Response<B>) -> Option<String> {
    let content = answer.headers().get(CONTENT_TYPE);
    let is_grpc = content.is_some_and(|it| it.as_bytes().starts_with(b"application/grpc"));
    let has_status = answer.headers().contains_key("grpc-status");
    if has_status || is_grpc && answer.status().is_success() {
        return None;
    }
    Some(format!(
        "{} answers with HTTP status {}, and not in gRPC: it is another service, or a proxy that \
         does not pass calls on to a server",
        address.authority()?,
        answer.status()
    ))
}

/// The first bytes of a port's answer to HTTP/2 in plain text.
async fn answer_of(address: &Uri) -> Option<Vec<u8>> {
    let host = address.host()?.trim_matches(['[', ']']);
    let port = address.port_u16()?;
    let mut stream = TcpStream::connect((host, port)).await.ok()?;
    stream.write_all(OPENING).await.ok()?;
    let mut answer = Vec::new();
    // An error is ignored, because the bytes before it may be enough.
    let _ = stream.take(5).read_to_end(&mut answer).await;
    Some(answer)
}
