//! Attacks that begin something and do not go on: what they hold, the server
//! holds as well.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use evenkeel::proto::v1;
use evenkeel::proto::v1::stream_snapshot_request::Step;
use prost::Message;
use support::raw::{Connection, frame, head, prefix, spread};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout_at};
use tokio_stream::wrappers::ReceiverStream;
use tonic_health::pb::HealthCheckRequest;

use super::attack::Context;
use super::questions;
use super::request::{client, outcome, small};

/// The method of reflection.
const REFLECT: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

/// The method that tells of every change of health.
const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// Work that runs until the end of an attack.
type Running = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// One that holds something, by name.
pub type Held = (&'static str, fn(Arc<Context>) -> Running);

/// The largest message that the server takes by default.
const MESSAGE: usize = 64 << 20;

/// All of them.
pub const HELD: [Held; 13] = [
    ("calls without a message", |it| {
        calls(it, 10, 400, spread("Filter"), Bytes::new(), false)
    }),
    ("feeds without a message", |it| {
        calls(it, 10, 104, spread("StreamSnapshot"), Bytes::new(), false)
    }),
    ("half of a message of 64 MiB", |it| {
        half(it, 4, 8, spread("Filter"), MESSAGE)
    }),
    ("half of a feed's message of 64 MiB", |it| {
        half(it, 4, 8, spread("StreamSnapshot"), MESSAGE)
    }),
    ("half of a reflection message of 4 MiB", |it| {
        half(it, 10, 10, REFLECT.to_owned(), 4 << 20)
    }),
    ("half of a health message of 4 MiB", |it| {
        half(it, 10, 10, WATCH.to_owned(), 4 << 20)
    }),
    ("4,096 calls of 64 MiB", many_large),
    ("health watches", |it| {
        let message = frame(&HealthCheckRequest::default().encode_to_vec());
        calls(it, 100, 200, WATCH.to_owned(), message, true)
    }),
    ("reflection that is not read", |it| {
        // Field 7 lists the services; 500 questions in one stream.
        let question = frame(&[0x3a, 1, b'*']);
        let all = Bytes::from(question.repeat(500));
        calls(it, 20, 50, REFLECT.to_owned(), all, false)
    }),
    ("exports that are not read", |it| {
        calls(it, 32, 2, spread("ExportSnapshot"), frame(&[]), true)
    }),
    ("answers that are not read", |it| {
        let request = v1::FilterRequest {
            view: v1::View::Full as i32,
            max_domains: Some(0),
            ..small()
        };
        let message = frame(&request.encode_to_vec());
        calls(it, 16, 16, spread("Filter"), message, true)
    }),
    ("staged replaces that are not committed", staged),
    ("connections that say nothing", |it| Box::pin(silent(it))),
];

/// So many connections with so many calls each, which are sent a message and
/// whose answers nobody reads.
fn calls(
    it: Arc<Context>,
    connections: usize,
    each: usize,
    path: String,
    message: Bytes,
    end: bool,
) -> Running {
    Box::pin(async move {
        let mut all = JoinSet::new();
        for _ in 0..connections {
            let (it, path, message) = (Arc::clone(&it), path.clone(), message.clone());
            all.spawn(async move {
                // Room for a head, and nothing of an answer.
                let connection = Connection::open(&it.address, 0).await?;
                let mut held = Vec::new();
                while held.len() < each && !it.is_over() {
                    let mut call = connection.call(head(&path)).await?;
                    if !message.is_empty() {
                        call.send(message.clone(), end).await?;
                    }
                    it.note("held");
                    held.push(call);
                }
                sleep_until(it.end).await;
                Ok(())
            });
        }
        finish(all, &it).await
    })
}

/// So many connections with so many calls each, of whose message half arrives.
fn half(it: Arc<Context>, connections: usize, each: usize, path: String, length: usize) -> Running {
    Box::pin(async move {
        let mut all = JoinSet::new();
        let body = Bytes::from(vec![0; length / 2]);
        for _ in 0..connections {
            let connection = Connection::open(&it.address, 65_535).await?;
            for _ in 0..each {
                let mut call = connection.call(head(&path)).await?;
                let (it, body) = (Arc::clone(&it), body.clone());
                all.spawn(async move {
                    call.send(prefix(length), false).await?;
                    call.send(body, false).await?;
                    it.note("held");
                    sleep_until(it.end).await;
                    Ok(())
                });
            }
        }
        finish(all, &it).await
    })
}

/// As many calls as the server takes at once, each of the largest message but
/// its last byte.
fn many_large(it: Arc<Context>) -> Running {
    Box::pin(async move {
        let mut all = JoinSet::new();
        let body = Bytes::from(vec![0; MESSAGE - 1]);
        for _ in 0..64 {
            let connection = Connection::open(&it.address, 65_535).await?;
            for _ in 0..64 {
                let Ok(mut call) = connection.call(head(&spread("UpdateSnapshot"))).await else {
                    it.note("connection closed");
                    break;
                };
                let (it, body) = (Arc::clone(&it), body.clone());
                all.spawn(async move {
                    call.send(prefix(MESSAGE), false).await?;
                    call.send(body, false).await?;
                    it.note("held");
                    sleep_until(it.end).await;
                    Ok(())
                });
            }
        }
        finish(all, &it).await
    })
}

/// Feeds with as many replaces begun as one may have, each with a batch.
fn staged(it: Arc<Context>) -> Running {
    Box::pin(async move {
        let mut all = JoinSet::new();
        for feed in 0..50 {
            let it = Arc::clone(&it);
            all.spawn(async move {
                let (steps, receiver) = mpsc::channel(1);
                let mut client = client(&it.address);
                let answers = client
                    .stream_snapshot(ReceiverStream::new(receiver))
                    .await?;
                let mut answers = answers.into_inner();
                for replace in 0..4 {
                    let snapshot = format!("{}-{feed}-{replace}", questions::OWN);
                    let begin = v1::BeginReplace {
                        snapshot: snapshot.clone(),
                    };
                    let update = v1::UpdateSnapshotRequest {
                        snapshot,
                        changes: questions::objects(&it.scale, it.salt()),
                        ..Default::default()
                    };
                    for step in [Step::BeginReplace(begin), Step::Update(update)] {
                        let request = v1::StreamSnapshotRequest { step: Some(step) };
                        // A stream that has ended says why in its answers.
                        let _ = steps.send(request).await;
                        answers.message().await?;
                    }
                    it.note("held");
                }
                sleep_until(it.end).await;
                Ok(())
            });
        }
        finish(all, &it).await
    })
}

/// Connections that are opened, and no more.
async fn silent(it: Arc<Context>) -> Result<()> {
    let mut held = Vec::new();
    while held.len() < 5_000 && !it.is_over() {
        held.push(tokio::net::TcpStream::connect(&it.address).await?);
        it.note("held");
    }
    sleep_until(it.end).await;
    Ok(())
}

/// Waits for all of them, and notes how they ended.
async fn finish(mut all: JoinSet<Result<()>>, it: &Context) -> Result<()> {
    while let Ok(Some(ended)) = timeout_at(it.end, all.join_next()).await {
        if let Err(error) = ended? {
            it.note(&describe(&error));
        }
    }
    Ok(())
}

fn describe(error: &anyhow::Error) -> String {
    match error.downcast_ref::<tonic::Status>() {
        Some(status) => outcome(status),
        None => "connection or stream closed".to_owned(),
    }
}
