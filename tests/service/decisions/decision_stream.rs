//! Streams of questions: each question is answered as a call of its own would be, answers come in
//! the order of completion, and no question ends the stream or delays another.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel::limits::Limits;
use evenkeel::proto::v1::decide_request::Step;
use evenkeel::proto::v1::decide_response::Answer;
use evenkeel::proto::v1::question::Ask;
use evenkeel::proto::v1::{DecideRequest, FilterRequest, NodeNames, Question, ScoreRequest, View};
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::Code;

use crate::decisions::asking::{Asking, filter, place, question, server, web};
use support::build::{filter_in, filter_of, place_of};

#[tokio::test]
async fn a_question_is_answered_as_the_call_is() {
    let server = server(Limits::default()).await;
    let mut asking = Asking::open(&server.client()).await;
    let mut wanted = BTreeMap::new();
    for id in 0..60_u64 {
        let view = i32::try_from(id % 5).expect("a small number");
        let pod = Some(web());
        let (ask, answer) = match id % 3 {
            0 => {
                let request = FilterRequest {
                    pod,
                    view,
                    ..FilterRequest::default()
                };
                let answer = server.filter(request.clone()).await;
                (Ask::Filter(request), Answer::Filter(answer))
            }
            1 => {
                let request = ScoreRequest {
                    pod,
                    view,
                    ..ScoreRequest::default()
                };
                let answer = server.score(request.clone()).await;
                (Ask::Score(request), Answer::Score(answer))
            }
            _ => {
                let answer = server.place(place_of(web(), 2)).await;
                (place(2), Answer::Place(answer))
            }
        };
        wanted.insert(id, Some(answer));
        asking.ask(id, ask).await;
    }
    drop(std::mem::replace(&mut asking.steps, mpsc::channel(1).0));
    let mut got = BTreeMap::new();
    while let Some(next) = asking.next().await.expect("it ends well") {
        assert!(
            got.insert(next.id, next.answer).is_none(),
            "{} comes twice",
            next.id
        );
    }
    assert_eq!(got, wanted);
}

/// A large question is decoded beside the threads that serve. What comes after it is read later.
#[tokio::test]
async fn a_large_question_is_answered_as_the_call_is() {
    let server = server(Limits::default()).await;
    let mut asking = Asking::open(&server.client()).await;
    let names = (0..5_000).map(|at| format!("unknown-node-{at}")).collect();
    let large = FilterRequest {
        candidates: Some(NodeNames { names }),
        ..filter_of(web())
    };
    let wanted = server.filter(large.clone()).await;
    asking.ask(1, Ask::Filter(large)).await;
    // The id is free again only once the question before is answered.
    asking.ask(1, filter(0)).await;
    asking.ask(2, filter(0)).await;
    let mut answers = BTreeMap::new();
    for _ in 0..3 {
        let next = asking.next().await.expect("no end").expect("an answer");
        answers
            .entry(next.id)
            .or_insert_with(Vec::new)
            .push(next.answer);
    }
    let of_large = Some(Answer::Filter(wanted));
    assert!(answers[&1].contains(&of_large), "{:?}", answers[&1].len());
    assert_eq!((answers[&1].len(), answers[&2].len()), (2, 1));
}

#[tokio::test]
async fn a_refused_question_ends_nothing() {
    let server = server(Limits::default()).await;
    let mut asking = Asking::open(&server.client()).await;
    let absent = filter_in("absent", web());
    asking.ask(1, Ask::Filter(FilterRequest::default())).await;
    asking.ask(2, Ask::Filter(absent)).await;
    asking.ask(3, place(0)).await;
    asking.ask_within(4, Some(Duration::ZERO), filter(0)).await;
    asking
        .step(Step::Question(Question {
            id: 5,
            ..Question::default()
        }))
        .await;
    asking.ask(6, filter(0)).await;
    let mut codes = BTreeMap::new();
    for _ in 0..6 {
        let (id, code) = asking.code().await;
        codes.insert(id, code);
    }
    let invalid = Code::InvalidArgument;
    let wanted = [
        (1, invalid),
        (2, Code::NotFound),
        (3, invalid),
        (4, invalid),
        (5, invalid),
        (6, Code::Ok),
    ];
    assert_eq!(codes, wanted.into());
}

/// The error of a question has the code, message and details of the status of the same call.
#[tokio::test]
async fn errors_are_those_of_the_call() {
    let server = server(Limits::default()).await;
    let mut client = server.client();
    let mut asking = Asking::open(&client).await;
    let request = FilterRequest {
        max_domains: Some(-1),
        ..FilterRequest::default()
    };
    let status = client
        .filter(request.clone())
        .await
        .expect_err("it is not valid");
    asking.ask(1, Ask::Filter(request)).await;
    let answer = asking
        .next()
        .await
        .expect("no end")
        .expect("an answer")
        .answer;
    let Some(Answer::Error(error)) = answer else {
        panic!("{answer:?} is no error");
    };
    assert_eq!(
        (error.code, &*error.message),
        (status.code() as i32, status.message())
    );
    assert_eq!(error.encode_to_vec(), status.details());
    let types = error.details.iter().map(|detail| &*detail.type_url);
    let kinds = ["ErrorInfo", "BadRequest"];
    assert!(types.eq(kinds.map(|kind| format!("type.googleapis.com/google.rpc.{kind}"))));
}

#[tokio::test]
async fn answers_come_in_the_order_of_completion() {
    let server = server(Limits::default()).await;
    let mut asking = Asking::open(&server.client()).await;
    asking.ask(1, filter(2)).await;
    asking.ask(2, filter(0)).await;
    assert_eq!(asking.code().await, (2, Code::Ok));
    // The id of an unanswered question is not free.
    asking.ask(1, filter(0)).await;
    assert_eq!(asking.code().await, (1, Code::InvalidArgument));
    server.update("", vec![]).await;
    assert_eq!(asking.code().await, (1, Code::Ok));
    asking.ask(1, filter(0)).await;
    assert_eq!(asking.code().await, (1, Code::Ok));
}

#[tokio::test]
async fn a_question_can_be_cancelled_and_has_its_own_deadline() {
    let server = server(Limits::default()).await;
    let mut asking = Asking::open(&server.client()).await;
    asking.ask(1, filter(1_000)).await;
    asking.step(Step::Cancel(7)).await;
    asking.step(Step::Cancel(1)).await;
    assert_eq!(asking.code().await, (1, Code::Cancelled));
    asking
        .ask_within(2, Some(Duration::from_millis(20)), filter(1_000))
        .await;
    assert_eq!(asking.code().await, (2, Code::DeadlineExceeded));
    asking.ask(3, filter(0)).await;
    assert_eq!(asking.code().await, (3, Code::Ok));
}

#[tokio::test]
async fn unanswered_questions_have_a_limit() {
    let limits = Limits {
        max_stream_questions: 2,
        ..Limits::default()
    };
    let server = server(limits).await;
    let mut asking = Asking::open(&server.client()).await;
    for id in 1..=3 {
        asking.ask(id, filter(2)).await;
    }
    assert_eq!(asking.code().await, (3, Code::ResourceExhausted));
    // A question that is answered at once does not count towards the limit.
    asking.ask(4, filter(0)).await;
    assert_eq!(asking.code().await, (4, Code::Ok));
    server.update("", vec![]).await;
    let (first, second) = (asking.code().await, asking.code().await);
    assert_eq!([first.1, second.1], [Code::Ok, Code::Ok]);
}

#[tokio::test]
async fn a_draining_server_answers_what_it_has_and_ends() {
    let server = server(Limits::default()).await;
    let mut asking = Asking::open(&server.client()).await;
    asking.ask(1, filter(1_000)).await;
    asking.ask(2, filter(0)).await;
    assert_eq!(asking.code().await, (2, Code::Ok));
    server.draining.cancel();
    assert_eq!(asking.code().await, (1, Code::Unavailable));
    let end = asking.next().await.expect_err("the stream ends");
    assert_eq!(end.code(), Code::Unavailable);
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_nobody_else() {
    let server = server(Limits::default()).await;
    let mut slow = Asking::open(&server.client()).await;
    let full = || {
        Ask::Filter(FilterRequest {
            view: View::Full.into(),
            ..filter_of(web())
        })
    };
    // Sends more than all flow-control windows hold, until the server stops reading the stream.
    let mut sent = 0;
    loop {
        let step = DecideRequest {
            step: Some(Step::Question(question(sent, full()))),
        };
        let send = slow.steps.send(step);
        if timeout(Duration::from_millis(500), send).await.is_err() {
            break;
        }
        sent += 1;
        assert!(sent < 1_000_000, "the server reads without end");
    }
    let mut other = Asking::open(&server.client()).await;
    other.ask(1, filter(0)).await;
    assert_eq!(other.code().await, (1, Code::Ok));
    // The stream goes on once the client reads its answers.
    for _ in 0..sent {
        assert_eq!(slow.code().await.1, Code::Ok);
    }
}
