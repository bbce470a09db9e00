//! Messages that are large, or become so when they are decoded.

use std::time::Duration;

use evenkeel::proto::v1::{FilterRequest, NodeNames, UpdateSnapshotRequest};
use prost::Message;
use prost::bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::encode_varint;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tonic::{Code, Status};

use crate::hostile::crowd::pods;
use crate::hostile::process::{DEADLINE, Server};
use crate::hostile::raw::{self, head, prefix};
use crate::hostile::world::{
    Client, assert_answered, assert_healthy, connect, fill, limit_of, question,
};

/// `count` empty messages in a list, nested in the fields of these numbers.
fn list_of_nothing(path: &[u32], count: usize) -> Bytes {
    let tag = |number: u32, to: &mut BytesMut| {
        encode_varint(u64::from(number << 3 | 2), to);
    };
    let (last, outer) = path.split_last().expect("a path");
    let mut bytes = BytesMut::new();
    for _ in 0..count {
        tag(*last, &mut bytes);
        bytes.put_u8(0);
    }
    for number in outer.iter().rev() {
        let mut around = BytesMut::new();
        tag(*number, &mut around);
        prost::encode_length_delimiter(bytes.len(), &mut around).expect("there is room");
        around.put(bytes);
        bytes = around;
    }
    bytes.freeze()
}

/// Sends a message of any length. Returns the status of the call, unless it broke off.
async fn send(server: &Server, path: &str, message: &Bytes) -> Option<Status> {
    let connection = connect(server, 1 << 20).await;
    let mut call = connection.call(head(path)).await.expect("sent");
    call.send(prefix(message.len()), false).await.ok()?;
    // The server may end the call before it has all.
    call.send(message.clone(), true).await.ok();
    let answer = timeout(DEADLINE, call.answer).await.expect("in time");
    raw::end(answer.ok()?).await.0
}

/// The most memory that is not charged: that of threads and connections, and freed memory that the
/// allocator keeps.
#[cfg(target_os = "linux")]
const BASE: usize = 96 << 20;

/// Whatever is sent, and however much of it is taken, the server holds no more than it charges.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_take_no_more_than_is_charged_for_them() {
    const LIMIT: usize = 160 << 20;
    const FILTER: &str = "/evenkeel.v1.SpreadService/Filter";
    const UPDATE: &str = "/evenkeel.v1.SpreadService/UpdateSnapshot";
    // The lists are tolerations of a pod, candidates, changes and an overlay.
    let shapes: [(&str, &[u32]); 4] = [
        (FILTER, &pod_spec_tolerations()),
        (FILTER, &[3, 1]),
        (UPDATE, &[2]),
        (FILTER, &[7]),
    ];
    for (path, fields) in shapes {
        let server = Server::start(&["--max-memory-bytes", &LIMIT.to_string()]);
        let mut client = Client::new(server.channel());
        fill(&mut client, 10).await;
        assert_answered(&mut client).await;
        let base = server.peak_memory();
        let mut outcomes = Vec::new();
        for count in [1 << 15, 1 << 17, 1 << 18, 1 << 19, 1 << 21, 1 << 23] {
            let message = list_of_nothing(fields, count);
            let ended = send(&server, path, &message).await;
            assert_healthy(server.channel()).await;
            outcomes.push((count, ended.map(|status| status.code())));
        }
        let grown = server.peak_memory() - base;
        let most = LIMIT / 5 * 6 + BASE;
        assert!(
            grown <= most,
            "{path} {fields:?}: grew by {grown} bytes, over {most}: {outcomes:?}"
        );
        let (_, last) = outcomes.last().expect("there are some");
        assert_eq!(*last, Some(Code::ResourceExhausted), "{path} {fields:?}");
        assert_answered(&mut client).await;
    }
}

/// The numbers of the fields from a question to its pod's tolerations.
fn pod_spec_tolerations() -> [u32; 3] {
    let bytes = crate::hostile::port::tolerations(1).encode_to_vec();
    // The bytes are a tag, a length, the next tag, and so on. Each is one byte here.
    [0, 2, 4].map(|at| u32::from(bytes[at] >> 3))
}

/// These calls together need more memory than there is.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_calls_at_once_are_refused_for_memory() {
    const LIMIT: usize = 128 << 20;
    let server = Server::start(&["--max-memory-bytes", &LIMIT.to_string()]);
    fill(&mut Client::new(server.channel()), 10).await;
    let base = server.peak_memory();
    let server = std::sync::Arc::new(server);
    let names = FilterRequest {
        candidates: Some(NodeNames {
            names: vec!["n".repeat(4_000); 4_000],
        }),
        ..question("web")
    };
    let message = Bytes::from(names.encode_to_vec());
    let mut calls = JoinSet::new();
    for _ in 0..24 {
        let (server, message) = (server.clone(), message.clone());
        calls.spawn(
            async move { send(&server, "/evenkeel.v1.SpreadService/Filter", &message).await },
        );
    }
    let mut refused = 0;
    let mut checks = 0;
    while !calls.is_empty() {
        assert_healthy(server.channel()).await;
        checks += 1;
        while let Some(done) = calls.try_join_next() {
            match done.expect("no panic") {
                Some(status) if status.code() == Code::ResourceExhausted => {
                    assert_eq!(limit_of(&status).as_deref(), Some("max-memory-bytes"));
                    refused += 1;
                }
                _ => {}
            }
        }
    }
    assert!(refused > 0, "16 MiB each of 24 calls are more than 128 MiB");
    assert!(checks > 1, "health is asked meanwhile");
    let grown = server.peak_memory() - base;
    assert!(grown <= LIMIT / 5 * 6 + BASE, "grew by {grown} bytes");
    let mut client = Client::new(server.channel());
    assert_answered(&mut client).await;
}

/// A message is decoded beside the thread that serves all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_message_holds_up_no_other_call() {
    let server = std::sync::Arc::new(Server::start(&["--threads", "1"]));
    let mut client = Client::new(server.channel());
    fill(&mut client, 10).await;
    // This takes long to decode, and is refused then.
    let mut update = pods(0..90_000);
    update.expected_revision = Some(1_000_000);
    let message = Bytes::from(UpdateSnapshotRequest::encode_to_vec(&update));
    let large = {
        let (server, message) = (server.clone(), message.clone());
        let start = Instant::now();
        tokio::spawn(async move {
            let ended = send(
                &server,
                "/evenkeel.v1.SpreadService/UpdateSnapshot",
                &message,
            )
            .await;
            (ended, start.elapsed())
        })
    };
    let mut longest = Duration::ZERO;
    while !large.is_finished() {
        let start = Instant::now();
        assert_healthy(server.channel()).await;
        assert_answered(&mut client).await;
        longest = longest.max(start.elapsed());
    }
    let (ended, took) = large.await.expect("no panic");
    assert_eq!(ended.expect("an answer").code(), Code::Aborted);
    assert!(
        longest < took / 3,
        "another call took {longest:?} of the {took:?} of a large one"
    );
}
