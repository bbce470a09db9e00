//! The log on NATS when nats-servers fail, or lack what a log needs.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use evenkeel::log::nats::{Access, Keeping, Nats};
use evenkeel::log::{Error, Log};
use prost::bytes::Bytes;

use crate::replicas::brokers::Brokers;
use crate::replicas::process::DEADLINE;

const WITHIN: Duration = Duration::from_secs(2);

/// Appends a message as a writer does: repeats the same bytes at the same place until they are
/// there for sure.
async fn append(log: &dyn Log, name: &str, after: u64, message: &Bytes) {
    let start = Instant::now();
    let mut unsure = false;
    loop {
        match log.append_if(name, after, message.clone(), WITHIN).await {
            Ok(sequence) => return assert_eq!(sequence, after + 1),
            // An earlier try may have landed.
            Err(Error::Conflict) if unsure => {
                let follower = log.follow(name, after);
                let landed = follower.next(after, WITHIN).await;
                let landed = landed.ok().flatten().map(|found| found.bytes);
                if landed.as_ref() == Some(message) {
                    return;
                }
                assert_eq!(landed, None, "another message is there");
            }
            Err(Error::UnknownFate(_)) => unsure = true,
            Err(Error::Unreachable(_)) => {}
            Err(error) => panic!("after {after}: {error}"),
        }
        assert!(start.elapsed() < DEADLINE, "the log does not heal");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Reads all messages up to a sequence.
async fn read(log: &dyn Log, name: &str, last: u64) -> Vec<Bytes> {
    let follower = log.follow(name, 0);
    let start = Instant::now();
    let mut found = Vec::new();
    while (found.len() as u64) < last {
        if let Ok(Some(message)) = follower.next(found.len() as u64, WITHIN).await {
            assert_eq!(message.sequence, found.len() as u64 + 1);
            found.push(message.bytes);
        }
        assert!(
            start.elapsed() < DEADLINE,
            "{} messages of {last}",
            found.len()
        );
    }
    found
}

fn message(number: u64) -> Bytes {
    format!("message {number}").into()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn a_log_is_back_after_all_servers_were_away() {
    let mut brokers = Brokers::start(3);
    let log = brokers.connect("away").await;
    append(&log, "default", 0, &message(1)).await;
    let follower = log.follow("default", 1);
    (0..3).for_each(|number| brokers.signal(number, "KILL"));
    let start = Instant::now();
    while !matches!(
        log.append_if("default", 1, message(2), WITHIN).await,
        Err(Error::Unreachable(_))
    ) {
        assert!(start.elapsed() < DEADLINE, "nobody notices");
    }
    while !matches!(follower.next(1, WITHIN).await, Err(Error::Unreachable(_))) {
        assert!(start.elapsed() < DEADLINE, "the follower does not notice");
    }
    (0..3).for_each(|number| brokers.run(number));
    append(&log, "default", 1, &message(2)).await;
    assert_eq!(read(&log, "default", 2).await, [message(1), message(2)]);
    while !matches!(follower.next(1, WITHIN).await, Ok(Some(_))) {
        assert!(start.elapsed() < DEADLINE, "the follower does not go on");
    }
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
    first.remove_if("default", &end).await.expect("it is there");
    append(&first, "default", 0, &message(2)).await;
    // A late request to delete the former stream arrives now.
    let deleted = streams.delete_stream("EVK_late_LOG_default").await;
    assert!(deleted.is_err(), "it is another one now");
    assert_eq!(late.remove_if("default", &end).await, Err(Error::Conflict));
    for log in [&first, &late] {
        assert_eq!(read(log, "default", 1).await, [message(2)]);
        assert_eq!(log.names().await.expect("a list"), ["default"]);
    }
    append(&late, "default", 1, &message(3)).await;
}

/// If the server that removes a log ends before it deletes the stream, others delete it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn a_stream_that_was_left_is_deleted_by_others() {
    let brokers = Brokers::start(1);
    let log = brokers.connect("left").await;
    append(&log, "default", 0, &message(1)).await;
    let end = log.read("default", 1).await;
    log.remove_if("default", &end.expect("it is there"))
        .await
        .expect("it ends there");
    append(&log, "default", 0, &message(2)).await;
    let client = async_nats::connect(brokers.urls()).await.expect("it runs");
    let streams = async_nats::jetstream::new(client);
    let left = async_nats::jetstream::stream::Config {
        name: "EVK_left_LOG_default".into(),
        subjects: vec!["evk.left.log.default".into()],
        ..Default::default()
    };
    streams.create_stream(left).await.expect("it is made");
    assert_eq!(log.names().await.expect("a list"), ["default"]);
    assert!(streams.get_stream("EVK_left_LOG_default").await.is_err());
    assert_eq!(read(&log, "default", 1).await, [message(2)]);
}
