//! Groups of questions that ask for the same revision: all are answered from one revision, and a
//! question that cannot be answered keeps no other from its answer.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel::limits::Limits;
use evenkeel::proto::v1::decide_request::Step;
use evenkeel::proto::v1::decide_response::Answer;
use evenkeel::proto::v1::question::Ask;
use evenkeel::proto::v1::{FilterRequest, Question, SameRevision};
use tonic::Code;

use crate::decisions::asking::{Asking, filter, place, question, server, web};
use support::build::{filter_in, filter_of, node, on, pod, score_of};
use support::model::Stored;

/// Asks a group of questions.
async fn ask(asking: &Asking, questions: Vec<Question>) {
    let group = SameRevision { questions };
    asking.step(Step::SameRevision(group)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_with_the_same_revision_see_one_whatever_happens() {
    const ROUNDS: u64 = 40;
    let server = server(Limits::default()).await;
    let mut asking = Asking::open(&server.client()).await;
    let done = AtomicBool::new(false);
    let changes = async {
        let mut number = 0;
        while !done.load(Ordering::Relaxed) {
            number += 1;
            let mut pods = ["shop", "default"].map(|namespace| {
                let mut pod = on(pod("p", &[("app", "web")]), ["n1", "n2", "n3"][number % 3]);
                pod.metadata.get_or_insert_default().namespace = namespace.into();
                pod.change()
            });
            pods.rotate_left(number % 2);
            server.update("", pods.into()).await;
        }
        number
    };
    let questions = async {
        for round in 0..ROUNDS {
            let about = |(number, namespace): (u64, &str)| {
                let mut pod = web();
                pod.metadata.get_or_insert_default().namespace = namespace.into();
                let ask = match number % 2 {
                    0 => Ask::Filter(filter_of(pod)),
                    _ => Ask::Score(score_of(pod)),
                };
                question(round * 10 + number, ask)
            };
            let namespaces = ["default", "shop", "absent", "default", "shop"];
            let questions = (0..).zip(namespaces).map(about).collect();
            ask(&asking, questions).await;
            let mut revisions = Vec::new();
            for _ in namespaces {
                let answer = asking.next().await.expect("no end").expect("an answer");
                revisions.push(match answer.answer {
                    Some(Answer::Filter(answer)) => answer.revision,
                    Some(Answer::Score(answer)) => answer.revision,
                    other => panic!("{other:?}"),
                });
            }
            revisions.dedup();
            assert_eq!(revisions.len(), 1, "{revisions:?}");
        }
        done.store(true, Ordering::Relaxed);
    };
    let (changed, ()) = tokio::join!(changes, questions);
    assert!(changed > 0);
}

#[tokio::test]
async fn a_question_that_cannot_be_in_a_group_keeps_no_other_from_its_answer() {
    let server = server(Limits::default()).await;
    let mut asking = Asking::open(&server.client()).await;
    let elsewhere = filter_in("elsewhere", web());
    let overlaid = FilterRequest {
        overlay: vec![node("n9", &[]).change()],
        ..filter_of(web())
    };
    let asks = [
        filter(0),
        place(1),
        Ask::Filter(elsewhere),
        Ask::Filter(overlaid),
        filter(1),
    ];
    let questions = (1..).zip(asks).map(|(id, ask)| question(id, ask));
    let questions = questions.chain([question(1, filter(0))]).collect();
    ask(&asking, questions).await;
    let mut codes = Vec::new();
    for _ in 0..6 {
        codes.push(asking.code().await);
    }
    codes.sort_unstable_by_key(|(id, code)| (*id, *code as i32));
    let invalid = Code::InvalidArgument;
    let wanted = [
        (1, Code::Ok),
        (1, invalid),
        (2, invalid),
        (3, invalid),
        (4, invalid),
        (5, Code::Ok),
    ];
    assert_eq!(codes, wanted);
    // All questions of a group wait for the largest minimum revision among them.
    let questions = [(1, 0), (2, 2)].map(|(id, revision)| question(id, filter(revision)));
    ask(&asking, questions.into()).await;
    asking.step(Step::Cancel(2)).await;
    server.update("", vec![]).await;
    assert_eq!(asking.code().await, (1, Code::Ok));
    assert_eq!(asking.code().await, (2, Code::Cancelled));
}

#[tokio::test]
async fn a_group_over_the_limit_ends_its_stream_and_no_other() {
    let server = server(Limits::default()).await;
    let mut asking = Asking::open(&server.client()).await;
    let most = Limits::default().max_stream_questions;
    ask(&asking, vec![Question::default(); most + 1]).await;
    let status = asking.next().await.expect_err("too many questions");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(
        status.message().contains("max-stream-questions of 256"),
        "{status}"
    );

    let mut asking = Asking::open(&server.client()).await;
    let questions = (0..most as u64).map(|id| question(id, filter(0))).collect();
    ask(&asking, questions).await;
    let mut ids = HashSet::new();
    for _ in 0..most {
        let (id, code) = asking.code().await;
        assert_eq!(code, Code::Ok);
        ids.insert(id);
    }
    assert_eq!(ids.len(), most);
}

#[tokio::test]
async fn no_timeout_is_too_long() {
    let server = server(Limits::default()).await;
    let mut asking = Asking::open(&server.client()).await;
    let timeouts = [(i64::MAX, 999_999_999), (i64::MAX, 0), (1 << 40, 0)];
    for (id, (seconds, nanos)) in (1..).zip(timeouts) {
        let question = Question {
            timeout: Some(pbjson_types::Duration { seconds, nanos }),
            ..question(id, filter(0))
        };
        asking.step(Step::Question(question.clone())).await;
        assert_eq!(asking.code().await, (id, Code::Ok), "{seconds} s");
        ask(&asking, vec![question]).await;
        let (answered, code) = asking.code().await;
        assert_eq!((answered, code), (id, Code::Ok), "{seconds} s");
    }
}
