//! The most expensive questions of every method: small questions beside them do not wait until they
//! are over.

use support::build::update_of;
use tokio::time::{Instant, timeout};
use tonic::Code;

use crate::hostile::asked::all;
use crate::hostile::beside::Bystanders;
use crate::hostile::pods::Scale;
use crate::hostile::process::{DEADLINE, Server};
use crate::hostile::request::client;
use crate::hostile::world::{LONGEST_MS, MEASURING};

/// The sizes of the cluster and the questions: a tenth of what the limits allow, or less.
const SCALE: Scale = Scale {
    nodes: 2_000,
    terms: 1_000,
    values: 1_600,
    tolerations: 10_000,
    requirements: 500,
    names: 20_000,
    replicas: 4_000,
    overlay: 100,
    batch: 10_000,
};

/// The number of pods of the cluster.
const PODS: usize = 5_000;

/// The others wait less than this share of the time that the hostile question takes.
const SHARE: f64 = 0.5;

/// Asks each hostile question whose name begins with one of these, once, and measures how long the
/// others wait meanwhile.
async fn hold_up_nobody(methods: &[&str]) {
    let _alone = MEASURING.lock().await;
    // One thread for all connections: whatever holds it up holds up everybody.
    let server = Server::start(&["--threads", "1"]);
    let mut attacker = client(server.address());
    for changes in crate::hostile::asked::cluster(&SCALE, PODS) {
        let batch = update_of(changes);
        attacker
            .update_snapshot(batch)
            .await
            .expect("a valid batch");
    }
    let mut late = Vec::new();
    let hostile = all().into_iter().enumerate();
    for (salt, hostile) in hostile.filter(|(_, it)| methods.iter().any(|m| it.name.starts_with(m)))
    {
        let request = (hostile.make)(&SCALE, salt);
        let bystanders = Bystanders::start(server.address());
        let begun = Instant::now();
        let answer = timeout(DEADLINE, request.ask(&mut attacker)).await;
        let took = begun.elapsed();
        let (health, filter) = bystanders.stop();
        let name = &hostile.name;
        if let Err(status) = answer.unwrap_or_else(|_| panic!("{name}: no answer")) {
            let refused = [
                Code::ResourceExhausted,
                Code::DeadlineExceeded,
                Code::NotFound,
            ];
            assert!(refused.contains(&status.code()), "{name}: {status}");
        }
        let most = (took.as_secs_f64() * 1_000.0 * SHARE).max(LONGEST_MS);
        for (who, waits) in [("health", health), ("a small Filter", filter)] {
            assert!(waits.failures().is_empty(), "{name}: {who}: {waits:?}");
            let longest = waits.longest();
            if longest > most {
                late.push(format!(
                    "{name} took {took:.1?}, {who} waited {longest:.0} ms"
                ));
            }
        }
    }
    assert!(late.is_empty(), "{late:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_filter() {
    hold_up_nobody(&["Filter"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_score() {
    hold_up_nobody(&["Score"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_explain() {
    hold_up_nobody(&["Explain"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_place() {
    hold_up_nobody(&["Place"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_reading() {
    let methods = ["Describe", "List", "Get", "Export", "Verify"];
    hold_up_nobody(&methods).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_writing() {
    let methods = ["Update", "Stream", "Release", "Renew", "Confirm", "Delete"];
    hold_up_nobody(&methods).await;
}
