//! While many clients write, every answer of every method is that of the revision that it names:
//! the same question gets the same answer on a copy of that revision that nobody writes to.
//!
//! The copy is built from the history alone, and decisions on it are compared with the brute-force
//! judge and with the vectors of other tests.

mod history;
mod questions;
mod writers;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use evenkeel::proto::v1::VerifySnapshotRequest;
use evenkeel::snapshot::Registry;
use history::{Shared, State, Version};
use proptest::test_runner::TestRunner;
use questions::{Asked, questions};
use support::caller::Client;
use support::server::Server;
use support::{agree, model};
use writers::{batches, feed, is_gone, reserve};

/// An answer of each question, by its number, at each revision.
type Answers = HashMap<(Version, usize), String>;

/// Asks the same questions over and over, and keeps one answer of each for each
/// revision.
async fn read(
    mut client: Client,
    questions: Arc<Vec<Asked>>,
    shared: Arc<Shared>,
    first: usize,
) -> Answers {
    let mut answers = HashMap::new();
    while !shared.is_done() {
        for number in 0..questions.len() {
            let number = (number * 7 + first) % questions.len();
            match questions[number].ask(&mut client, "").await {
                Ok((version, answer)) => {
                    answers.insert((version, number), answer);
                    shared.answered.fetch_add(1, Ordering::AcqRel);
                }
                // The snapshot is deleted, not fed again yet, or has nothing to describe.
                Err(status) if is_gone(&status) => {}
                Err(status) => panic!("{:?}: {status}", questions[number]),
            }
        }
    }
    answers
}

/// Has what is kept swept and verified while others write. No count has drifted.
async fn look_after(mut client: Client, registry: Arc<Registry>, shared: Arc<Shared>) {
    while !shared.is_done() {
        registry.sweep(2);
        let request = VerifySnapshotRequest::default();
        match client.verify_snapshot(request).await {
            Ok(verified) => assert_eq!(verified.into_inner().mismatches, []),
            Err(status) => assert!(is_gone(&status), "{status}"),
        }
    }
}

/// The questions that are valid, found on an empty snapshot.
async fn valid(still: &Server, questions: Vec<Asked>) -> Vec<Asked> {
    still.update("empty", Vec::new()).await;
    let mut valid = Vec::new();
    for asked in questions {
        let answer = asked.ask(&mut still.client(), "empty").await;
        // There is nothing to describe yet.
        if answer.is_ok() || matches!(asked, Asked::Describe(_)) {
            valid.push(asked);
        }
    }
    valid
}

/// Returns the answers that readers got while others wrote.
async fn answered(
    server: &Server,
    questions: &Arc<Vec<Asked>>,
    shared: &Arc<Shared>,
    runner: &mut TestRunner,
) -> Answers {
    let (feeder, reserver) = (server.another_client(), server.another_client());
    let feeding = tokio::spawn(feed(feeder, Arc::clone(shared), batches(runner)));
    let reserving = tokio::spawn(reserve(reserver, Arc::clone(shared)));
    let looking = server.another_client();
    let looking = look_after(looking, Arc::clone(&server.registry), Arc::clone(shared));
    let looking = tokio::spawn(looking);
    let mut readers = Vec::new();
    for reader in 0..3 {
        let client = server.another_client();
        let (questions, shared) = (Arc::clone(questions), Arc::clone(shared));
        readers.push(tokio::spawn(read(client, questions, shared, reader * 11)));
    }
    feeding.await.expect("it feeds");
    shared.done.store(true, Ordering::Release);
    reserving.await.expect("it reserves");
    looking.await.expect("nothing has drifted");
    let mut answers = HashMap::new();
    for reader in readers {
        answers.extend(reader.await.expect("it reads"));
    }
    answers
}

/// A copy of each revision, by the name of its snapshot.
async fn copies<'v>(
    still: &Server,
    versions: &[&'v Version],
    states: &HashMap<Version, State>,
) -> HashMap<&'v Version, String> {
    let mut names = HashMap::new();
    for (number, version) in versions.iter().enumerate() {
        let name = format!("still-{number}");
        let cluster = states[*version].whole();
        let changes = model::changes(&cluster);
        still.replace(&name, changes, cluster.defaults).await;
        names.insert(*version, name);
    }
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_answer_of_every_method_is_of_the_revision_that_it_names() {
    let server = Server::start().await;
    let still = Server::start().await;
    let shared = Arc::new(Shared::default());
    let mut runner = TestRunner::deterministic();
    let questions = Arc::new(valid(&still, questions(&mut runner)).await);
    assert!(questions.len() > 50, "{} are valid", questions.len());
    let answers = answered(&server, &questions, &shared, &mut runner).await;

    let mut versions: Vec<&Version> = answers.keys().map(|(version, _)| version).collect();
    versions.sort_unstable();
    versions.dedup();
    assert!(
        versions.len() > 20,
        "answers of {} revisions",
        versions.len()
    );
    let states = shared.states(&versions);
    let names = copies(&still, &versions, &states).await;
    let mut asker = still.client();
    for ((version, number), answer) in &answers {
        let asked = &questions[*number];
        let wanted = asked.ask(&mut asker, &names[version]).await;
        let wanted = wanted.map(|(_, wanted)| wanted);
        assert_eq!(
            Some(answer),
            wanted.as_ref().ok(),
            "{asked:?} at {version:?}: {:?}",
            wanted.as_ref().err()
        );
        if let Some(pod) = asked.plain_filter() {
            let (place, cluster) = (format!("{version:?}"), states[version].whole());
            let about = agree::Question {
                cluster: &cluster,
                pod,
                place: &place,
            };
            agree::decisions(&still, &names[version], &about).await;
        }
    }
}
