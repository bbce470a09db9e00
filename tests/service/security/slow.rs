//! Clients that are slow in TLS, or stop in the middle of it: they are given up
//! in time, and everybody else is served meanwhile.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use h2::client::Builder;
use http::Request;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::security::client::{connect, list, serve};
use crate::security::pki::{Authority, Files};
use crate::security::process::{DEADLINE, Server};

/// The number of such clients at once.
const MANY: usize = 100;

/// A server with a short time for handshakes, and the authority of its certificate.
fn server(files: &Files) -> (Server, Authority) {
    let authority = Authority::new("ours");
    let mut flags = files.tls_flags(&authority.server());
    flags.extend(["--handshake-timeout".into(), "700ms".into()]);
    (serve(&flags), authority)
}

fn config(authority: &Authority) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let own = CertificateDer::from_pem_slice(authority.pem().as_bytes());
    roots.add(own.expect("a certificate")).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config
        .expect("the usual versions")
        .with_root_certificates(roots);
    let mut config = config.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

fn name() -> ServerName<'static> {
    ServerName::try_from("localhost").expect("a name")
}

/// Returns the first message of a client.
fn hello(authority: &Authority) -> Vec<u8> {
    let mut client = ClientConnection::new(config(authority), name()).expect("a client");
    let mut hello = Vec::new();
    client.write_tls(&mut hello).expect("memory takes it");
    hello
}

/// Sends bytes one by one, and waits until the server closes the connection.
async fn drip(mut stream: TcpStream, bytes: Vec<u8>) {
    for byte in bytes {
        if stream.write_all(&[byte]).await.is_err() {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    // The read ends with the end of the stream, or a reset.
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

/// Checks that the server closes all these connections, and serves others meanwhile.
async fn are_given_up(server: &Server, authority: &Authority, mut all: JoinSet<()>) {
    for _ in 0..3 {
        let channel = connect(server, authority.trusted()).await;
        list(channel.expect("a connection"))
            .await
            .expect("an answer");
    }
    let closed = async { while all.join_next().await.is_some() {} };
    timeout(DEADLINE, closed)
        .await
        .expect("all are closed in time");
    let channel = connect(server, authority.trusted()).await;
    list(channel.expect("a connection"))
        .await
        .expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_that_do_not_end_are_given_up() {
    let files = Files::new();
    let (server, authority) = server(&files);
    let hello = hello(&authority);
    // This announces a message of 64 KiB, of which only a part arrives.
    let mut endless = vec![1, 0, 0xff, 0xff];
    endless.resize(16_000, 0);
    let record = [&[22, 3, 1][..], &16_000_u16.to_be_bytes(), &endless].concat();
    let mut all = JoinSet::new();
    for number in 0..MANY {
        let mut stream = TcpStream::connect(server.address())
            .await
            .expect("accepted");
        let (hello, record) = (hello.clone(), record.clone());
        all.spawn(async move {
            match number % 4 {
                // This sends all of it, byte by byte, for longer than there is time.
                0 => drip(stream, hello).await,
                1 => drip(stream, hello[..hello.len() / 2].to_vec()).await,
                2 => {
                    let _ = stream.write_all(&record).await;
                    drip(stream, Vec::new()).await;
                }
                // This sends it whole, and does not answer the server.
                _ => {
                    let _ = stream.write_all(&hello).await;
                    drip(stream, Vec::new()).await;
                }
            }
        });
    }
    are_given_up(&server, &authority, all).await;
}

/// A server that stops does not wait for such handshakes.
#[tokio::test(flavor = "multi_thread")]
async fn handshakes_that_do_not_end_delay_no_stop() {
    let files = Files::new();
    let authority = Authority::new("ours");
    let mut flags = files.tls_flags(&authority.server());
    let patient = ["--handshake-timeout", "10m", "--drain-pause", "0s"];
    flags.extend(patient.map(str::to_owned));
    let mut server = serve(&flags);
    let hello = hello(&authority);
    let mut open = Vec::new();
    for length in [0, hello.len() / 2, hello.len()] {
        let stream = TcpStream::connect(server.address()).await;
        let mut stream = stream.expect("accepted");
        let sent = stream.write_all(&hello[..length]).await;
        sent.expect("it can be sent");
        open.push(stream);
    }
    let silent = shake(&server, &authority).await;
    let channel = connect(&server, authority.trusted()).await;
    list(channel.expect("a connection"))
        .await
        .expect("an answer");
    server.signal("TERM");
    assert_eq!(server.exited().await.code(), Some(0));
    // Nothing was cut off when the time for the drain was over.
    server.logged("drained", "level");
    drop((open, silent));
}

async fn shake(server: &Server, authority: &Authority) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(server.address())
        .await
        .expect("accepted");
    stream.set_nodelay(true).expect("it can be set");
    let shaken = TlsConnector::from(config(authority))
        .connect(name(), stream)
        .await;
    shaken.expect("a handshake")
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_say_nothing_after_the_handshake_are_closed() {
    let files = Files::new();
    let (server, authority) = server(&files);
    let mut all = JoinSet::new();
    for number in 0..MANY {
        let mut stream = shake(&server, &authority).await;
        all.spawn(async move {
            // This sends nothing, or a preface that never ends, in records of one byte each.
            let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r";
            for byte in &preface[..(number % 2) * preface.len()] {
                if stream.write_all(&[*byte]).await.is_err() || stream.flush().await.is_err() {
                    return;
                }
                sleep(Duration::from_millis(5)).await;
            }
            let _ = stream.read_to_end(&mut Vec::new()).await;
        });
    }
    are_given_up(&server, &authority, all).await;
}

/// A connection that writes a byte at a time, each in a record of its own.
struct Drip(TlsStream<TcpStream>);

impl AsyncRead for Drip {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Drip {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, &bytes[..bytes.len().min(1)])
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_single_bytes_is_answered() {
    let files = Files::new();
    let (server, authority) = server(&files);
    let stream = Drip(shake(&server, &authority).await);
    let (send, connection) = Builder::new().handshake(stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    let mut send = send.ready().await.expect("the connection stands");
    let head = Request::post("https://localhost/evenkeel.v1.SpreadService/ListSnapshots")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .expect("a request");
    let (answer, mut body) = send.send_request(head, false).expect("sent");
    let message = bytes::Bytes::from_static(&[0; 5]);
    body.send_data(message, true).expect("it can be sent");
    let answer = timeout(DEADLINE, answer).await.expect("in time");
    let answer = answer.expect("an answer");
    assert!(!answer.headers().contains_key("grpc-status"), "{answer:?}");
    let channel = connect(&server, authority.trusted()).await;
    list(channel.expect("a connection"))
        .await
        .expect("an answer");
}
