//! Streams of questions: each is answered as the call would be, in the order of
//! completion, and none ends the stream or holds up another.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel::limits::Limits;
use evenkeel::proto::v1::decide_request::Step;
use evenkeel::proto::v1::decide_response::Answer;
use evenkeel::proto::v1::question::Ask;
use evenkeel::proto::v1::{
    Change, DecideRequest, DecideResponse, FilterRequest, PlaceRequest, Pod, Question,
    SameRevision, ScoreRequest, UpdateSnapshotRequest, View,
};
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::support::build::{hard, node, on, pod, soft, spread};
use crate::support::model::Stored;
use crate::support::server::{Client, Server};

const ZONE: &str = "topology.kubernetes.io/zone";

/// Longer than anything takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// A stream that is open.
struct Asking {
    steps: mpsc::Sender<DecideRequest>,
    answers: Streaming<DecideResponse>,
}

impl Asking {
    async fn open(client: &Client) -> Self {
        let (steps, receiver) = mpsc::channel(1_000);
        let answers = client.clone().decide(ReceiverStream::new(receiver)).await;
        Self {
            steps,
            answers: answers.expect("a stream").into_inner(),
        }
    }

    async fn step(&self, step: Step) {
        let step = DecideRequest { step: Some(step) };
        self.steps.send(step).await.expect("the stream is open");
    }

    async fn ask(&self, id: u64, ask: impl Into<Ask>) {
        self.ask_within(id, None, ask).await;
    }

    async fn ask_within(&self, id: u64, within: Option<Duration>, ask: impl Into<Ask>) {
        let question = Question {
            id,
            timeout: within.map(Into::into),
            ask: Some(ask.into()),
        };
        self.step(Step::Question(question)).await;
    }

    async fn next(&mut self) -> Result<Option<DecideResponse>, Status> {
        let next = timeout(DEADLINE, self.answers.message()).await;
        next.expect("an answer within the deadline")
    }

    /// The next answer: its id, and the code of its error.
    async fn code(&mut self) -> (u64, Code) {
        let next = self.next().await.expect("no end").expect("an answer");
        let code = match &next.answer {
            Some(Answer::Error(error)) => Code::from(error.code),
            Some(_) => Code::Ok,
            None => panic!("{next:?} says nothing"),
        };
        (next.id, code)
    }
}

fn web() -> Pod {
    let own = [("app", "web")];
    spread(
        pod("", &own),
        vec![hard(1, ZONE, &own), soft(1, ZONE, &own)],
    )
}

fn filter(min_revision: i64) -> Ask {
    Ask::Filter(FilterRequest {
        pod: Some(web()),
        min_revision,
        ..FilterRequest::default()
    })
}

fn place(replicas: i32) -> Ask {
    Ask::Place(PlaceRequest {
        pod: Some(web()),
        replicas,
        ..PlaceRequest::default()
    })
}

/// A server on a small cluster at revision 1.
async fn server(limits: Limits) -> Server {
    let server = Server::with_limits(limits).await;
    let zones = [("n1", "a"), ("n2", "b"), ("n3", "c")];
    let nodes = zones.map(|(name, zone)| node(name, &[(ZONE, zone)]).change());
    let there = on(pod("p1", &[("app", "web")]), "n1").change();
    update(&server, nodes.into_iter().chain([there]).collect()).await;
    server
}

async fn update(server: &Server, changes: Vec<Change>) {
    let request = UpdateSnapshotRequest {
        changes,
        ..UpdateSnapshotRequest::default()
    };
    let updated = server.client().update_snapshot(request).await;
    updated.expect("valid changes");
}

#[tokio::test]
async fn a_question_is_answered_as_the_call_is() {
    let server = server(Limits::default()).await;
    let mut client = server.client();
    let mut asking = Asking::open(&client).await;
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
                let answer = client.filter(request.clone()).await;
                let answer = Answer::Filter(answer.expect("valid").into_inner());
                (Ask::Filter(request), answer)
            }
            1 => {
                let request = ScoreRequest {
                    pod,
                    view,
                    ..ScoreRequest::default()
                };
                let answer = client.score(request.clone()).await;
                let answer = Answer::Score(answer.expect("valid").into_inner());
                (Ask::Score(request), answer)
            }
            _ => {
                let answer = match place(2) {
                    Ask::Place(request) => client.place(request).await,
                    _ => unreachable!("it is a Place"),
                };
                (place(2), Answer::Place(answer.expect("valid").into_inner()))
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

#[tokio::test]
async fn a_refused_question_ends_nothing() {
    let server = server(Limits::default()).await;
    let mut asking = Asking::open(&server.client()).await;
    let absent = FilterRequest {
        snapshot: "absent".into(),
        pod: Some(web()),
        ..FilterRequest::default()
    };
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

/// The error of a question has what the status of the call has.
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
    update(&server, vec![]).await;
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
    // What is answered at once needs no room.
    asking.ask(4, filter(0)).await;
    assert_eq!(asking.code().await, (4, Code::Ok));
    update(&server, vec![]).await;
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
            pod: Some(web()),
            view: View::Full.into(),
            ..FilterRequest::default()
        })
    };
    // More than all windows hold: the stream stops to be read.
    let mut sent = 0;
    loop {
        let question = Question {
            id: sent,
            ask: Some(full()),
            ..Question::default()
        };
        let step = DecideRequest {
            step: Some(Step::Question(question)),
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
    // It goes on once it is read.
    for _ in 0..sent {
        assert_eq!(slow.code().await.1, Code::Ok);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_with_the_same_revision_see_one_whatever_happens() {
    const ROUNDS: u64 = 40;
    let server = server(Limits::default()).await;
    let mut asking = Asking::open(&server.client()).await;
    let done = std::sync::atomic::AtomicBool::new(false);
    let changes = async {
        let mut number = 0;
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            number += 1;
            let mut pods = ["shop", "default"].map(|namespace| {
                let mut pod = on(pod("p", &[("app", "web")]), ["n1", "n2", "n3"][number % 3]);
                pod.metadata.get_or_insert_default().namespace = namespace.into();
                pod.change()
            });
            pods.rotate_left(number % 2);
            update(&server, pods.into()).await;
        }
        number
    };
    let questions = async {
        for round in 0..ROUNDS {
            let question = |(number, namespace): (u64, &str)| {
                let mut pod = web();
                pod.metadata.get_or_insert_default().namespace = namespace.into();
                let ask = match number % 2 {
                    0 => Ask::Filter(FilterRequest {
                        pod: Some(pod),
                        ..Default::default()
                    }),
                    _ => Ask::Score(ScoreRequest {
                        pod: Some(pod),
                        ..Default::default()
                    }),
                };
                Question {
                    id: round * 10 + number,
                    ask: Some(ask),
                    ..Question::default()
                }
            };
            let namespaces = ["default", "shop", "absent", "default", "shop"];
            let questions = (0..).zip(namespaces).map(question).collect();
            asking
                .step(Step::SameRevision(SameRevision { questions }))
                .await;
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
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    };
    let (changed, ()) = tokio::join!(changes, questions);
    assert!(changed > 0);
}

#[tokio::test]
async fn a_question_that_cannot_be_in_a_group_keeps_no_other_from_its_answer() {
    let server = server(Limits::default()).await;
    let mut asking = Asking::open(&server.client()).await;
    let elsewhere = FilterRequest {
        snapshot: "elsewhere".into(),
        pod: Some(web()),
        ..FilterRequest::default()
    };
    let overlaid = FilterRequest {
        overlay: vec![node("n9", &[]).change()],
        pod: Some(web()),
        ..FilterRequest::default()
    };
    let asks = [
        filter(0),
        place(1),
        Ask::Filter(elsewhere),
        Ask::Filter(overlaid),
        filter(1),
    ];
    let questions = (1..).zip(asks).map(|(id, ask)| Question {
        id,
        ask: Some(ask),
        ..Question::default()
    });
    let mut questions: Vec<Question> = questions.collect();
    questions.push(Question {
        id: 1,
        ask: Some(filter(0)),
        ..Question::default()
    });
    asking
        .step(Step::SameRevision(SameRevision { questions }))
        .await;
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
    // All wait for the largest revision.
    let questions = [(1, 0), (2, 2)].map(|(id, revision)| Question {
        id,
        ask: Some(filter(revision)),
        ..Question::default()
    });
    asking
        .step(Step::SameRevision(SameRevision {
            questions: questions.into(),
        }))
        .await;
    asking.step(Step::Cancel(2)).await;
    update(&server, vec![]).await;
    assert_eq!(asking.code().await, (1, Code::Ok));
    assert_eq!(asking.code().await, (2, Code::Cancelled));
}
