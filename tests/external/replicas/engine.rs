//! The log on NATS when nats-servers lack what a log needs, or streams are not what they were.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::time::Duration;

use evenkeel::log::nats::{Access, Keeping, Nats};
use evenkeel::log::{Error, Log};
use prost::bytes::Bytes;

use crate::replicas::brokers::Brokers;

const WITHIN: Duration = Duration::from_secs(2);

async fn append(log: &dyn Log, name: &str, after: u64, message: &Bytes) {
    let appended = log.append_if(name, after, message.clone(), WITHIN).await;
    assert_eq!(appended, Ok(after + 1));
}

/// Reads all messages up to a sequence.
async fn read(log: &dyn Log, name: &str, last: u64) -> Vec<Bytes> {
    let mut found = Vec::new();
    for sequence in 1..=last {
        let message = log.read(name, sequence).await;
        found.push(message.expect("it is there").bytes);
    }
    found
}

fn message(number: u64) -> Bytes {
    format!("message {number}").into()
}

#[tokio::test]
async fn an_old_server_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    // This fakes just enough of a nats-server to tell its version.
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody connects");
        let info = r#"INFO {"server_id":"X","server_name":"old","version":"2.9.10","proto":1,"headers":true,"jetstream":true,"max_payload":1048576}"#;
        write!(stream, "{info}\r\n").expect("it listens");
        let reader = BufReader::new(stream.try_clone().expect("a socket"));
        for line in reader.lines().map_while(Result::ok) {
            if line.starts_with("PING") {
                write!(stream, "PONG\r\n").expect("it listens");
            }
        }
    });
    let access = Access {
        servers: vec![format!("nats://{address}")],
        ..Access::default()
    };
    let keeping = Keeping { replicas: 1 };
    let fleet = "old".parse().expect("a name");
    let refused = Nats::connect(access, fleet, keeping, "test").await.err();
    assert_eq!(
        refused.expect("it is refused").to_string(),
        "the nats-server old has version \"2.9.10\"; 2.15.0 or later is needed"
    );
}

/// Two servers remove the same log, one of them late. The log that was made anew in between stays.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn a_stream_that_was_made_anew_is_not_what_a_late_server_deletes() {
    let brokers = Brokers::start(1);
    let (first, late) = (brokers.connect("late").await, brokers.connect("late").await);
    append(&first, "default", 0, &message(1)).await;
    let end = first.read("default", 1).await;
    let end = end.expect("it is there");
    // The late server has read all that it needs to know, and has not yet removed the log.
    assert_eq!(late.bounds("default").await.expect("it is there").last, 1);
    let client = async_nats::connect(brokers.urls()).await.expect("it runs");
    let streams = async_nats::jetstream::new(client);
    let former = streams.stream_by_subject("evk.late.log.default").await;
    let former = former.expect("it is there");
    first.remove_if("default", &end).await.expect("it is there");
    append(&first, "default", 0, &message(2)).await;
    // A late request to delete the former stream arrives now.
    let deleted = streams.delete_stream(former).await;
    assert!(deleted.is_err(), "it is another one now");
    assert_eq!(late.remove_if("default", &end).await, Err(Error::Conflict));
    for log in [&first, &late] {
        assert_eq!(read(log, "default", 1).await, [message(2)]);
        assert_eq!(log.names().await.expect("a list"), ["default"]);
    }
    append(&late, "default", 1, &message(3)).await;
}
