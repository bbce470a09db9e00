//! A server that watches a cluster whose API server answers with nonsense: the server asks again
//! after a pause, and logs nothing of the answers.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::serving::process::{Server, command, until};

/// The secret that no log may contain.
const SECRET: &str = "a-password-of-a-pod";

/// The kinds of answers to lists and watches.
#[derive(Clone, Copy)]
enum Answer {
    /// A list that is cut off.
    CutOff,
    /// A list with a million nested arrays.
    Nested,
}

/// Answers one request, and counts it.
fn serve(mut stream: &TcpStream, answer: Answer, asked: &AtomicU32) {
    asked.fetch_add(1, Ordering::Relaxed);
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let body = match answer {
        Answer::CutOff => format!(r#"{{"items":[{{"env":[{{"value":"{SECRET}"}}"#),
        Answer::Nested => format!(
            r#"{{"metadata":{{}},"items":[{{"metadata":{}"{SECRET}""#,
            "[".repeat(1 << 20)
        ),
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
    // The client may have gone.
    let _ = stream.write_all((head.to_owned() + &body).as_bytes());
}

#[test]
fn what_an_api_server_answers_is_paced_and_not_logged() {
    // All at once, because most of the time is waiting.
    thread::scope(|scope| {
        for answer in [Answer::CutOff, Answer::Nested] {
            scope.spawn(move || check(answer));
        }
    });
}

/// Starts a server that watches a cluster with these answers, and checks what the server does.
fn check(answer: Answer) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let asked = Arc::new(AtomicU32::new(0));
    let counts = Arc::clone(&asked);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let asked = Arc::clone(&counts);
            thread::spawn(move || serve(&stream, answer, &asked));
        }
    });
    let config = tempfile::NamedTempFile::new().expect("a temporary file");
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
    });
    std::fs::write(config.path(), text.to_string()).expect("it can be");
    let kubeconfig = format!("--kubeconfig={}", config.path().display());
    let args = ["serve", "--kubernetes", &kubeconfig, "--log-level=trace"];
    let server = Server::spawn(&mut command(&args));
    until("it is asked", || {
        (asked.load(Ordering::Relaxed) > 6).then_some(())
    });
    let begun = Instant::now();
    until("some attempts", || {
        (begun.elapsed() > Duration::from_secs(5)).then_some(())
    });
    let asked = asked.load(Ordering::Relaxed);
    assert!(asked < 80, "asked {asked} times");
    let lines = server.lines();
    let bytes: usize = lines.iter().map(String::len).sum();
    assert!(bytes < 1 << 20, "{bytes} bytes of log");
    assert!(
        !lines.iter().any(|line| line.contains(SECRET)),
        "it is told"
    );
}
