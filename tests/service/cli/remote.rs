//! Commands that talk to a server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use tokio::runtime::Runtime;

use crate::cli::evenkeel::Workspace;
use crate::cli::workspace;
use support::server::Server;

/// A server and a workspace that talks to it. The runtime keeps the server running.
pub fn with_server() -> (Runtime, Server, Workspace) {
    let runtime = Runtime::new().expect("a runtime starts");
    let server = runtime.block_on(Server::start());
    let workspace = workspace().with_server(&server.address);
    (runtime, server, workspace)
}

/// A port that answers every connection in HTTP/1, as an admin port does.
fn http1() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().take(20).flatten() {
            let mut stream = stream;
            let mut begun = [0; 512];
            // The request is ignored, because it is not HTTP/1.
            let _ = stream.read(&mut begun);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        }
    });
    address
}

/// A port that answers every call in HTTP/2 with this status, as a proxy does
/// that knows no server.
fn http2(status: u8) -> SocketAddr {
    // Settings, and the head of an answer without a body on the first stream.
    const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
    const HEADERS: u8 = 1;
    const PREFACE: usize = 24;
    let answer = [0, 0, 1, HEADERS, 5, 0, 0, 0, 1, status];
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let serve = move |mut stream: TcpStream| -> std::io::Result<()> {
        stream.write_all(SETTINGS)?;
        stream.read_exact(&mut [0; PREFACE])?;
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head)?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            stream.read_exact(&mut vec![0; length as usize])?;
            if head[3] == HEADERS {
                stream.write_all(&answer)?;
            }
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().take(20).flatten() {
            // `serve` ends with an error when the connection closes.
            let _ = serve(stream);
        }
    });
    address
}

/// An error about an address is a sentence of the program, not of a library.
#[test]
fn a_wrong_address_is_named() {
    let (_runtime, server, _) = with_server();
    let plain = server.address.trim_start_matches("http://");
    let http1 = http1();
    // The bytes are the statuses 404 and 200 in HPACK.
    let (not_found, ok) = (http2(0x8d), http2(0x88));
    let cases = [
        (
            format!("http://{not_found}"),
            3,
            format!("{not_found} answers with HTTP status 404 Not Found, and not in gRPC"),
        ),
        (
            format!("http://{ok}"),
            3,
            format!("{ok} answers with HTTP status 200 OK, and not in gRPC"),
        ),
        (
            format!("https://{plain}"),
            3,
            format!("{plain} speaks plain text, without TLS: use http://{plain}"),
        ),
        (
            format!("http://{http1}"),
            3,
            format!("{http1} answers in HTTP/1, so it is not the gRPC port of a server"),
        ),
        (
            format!("https://{http1}"),
            3,
            format!("{http1} answers in HTTP/1, so it is not the gRPC port of a server"),
        ),
        (
            "ipv4:10.0.0.1:50051,10.0.0.2:50051".to_owned(),
            2,
            "must be one address, such as 10.0.0.1:50051".to_owned(),
        ),
        (
            "10.0.0.1:50051,10.0.0.2:50051".to_owned(),
            2,
            "must be one address, such as 10.0.0.1:50051".to_owned(),
        ),
        (
            "grpc://10.0.0.1:50051".to_owned(),
            2,
            "must be one address, such as 10.0.0.1:50051".to_owned(),
        ),
    ];
    let workspace = workspace();
    for command in [
        "snapshot list",
        "load cluster.yaml",
        "filter -f workloads.yaml --name web",
    ] {
        for (address, code, said) in &cases {
            let outcome = workspace.run(&format!("{command} --server {address}"));
            let outcome = outcome.expect(*code);
            outcome.complains(said);
        }
    }
}
