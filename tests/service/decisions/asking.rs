//! A stream of questions to a server on a small cluster.

use std::time::Duration;

use evenkeel::limits::Limits;
use evenkeel::proto::v1::decide_request::Step;
use evenkeel::proto::v1::decide_response::Answer;
use evenkeel::proto::v1::question::Ask;
use evenkeel::proto::v1::{DecideRequest, DecideResponse, FilterRequest, Pod, Question};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use support::build::{ZONE, filter_of, hard, node, on, place_of, pod, soft, spread};
use support::caller::Client;
use support::model::Stored;
use support::server::Server;

/// Longer than any answer takes on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// An open stream of questions.
pub(crate) struct Asking {
    pub(crate) steps: mpsc::Sender<DecideRequest>,
    answers: Streaming<DecideResponse>,
}

impl Asking {
    pub(crate) async fn open(client: &Client) -> Self {
        let (steps, receiver) = mpsc::channel(1_000);
        let answers = client.clone().decide(ReceiverStream::new(receiver)).await;
        Self {
            steps,
            answers: answers.expect("a stream").into_inner(),
        }
    }

    pub(crate) async fn step(&self, step: Step) {
        let step = DecideRequest { step: Some(step) };
        self.steps.send(step).await.expect("the stream is open");
    }

    pub(crate) async fn ask(&self, id: u64, ask: impl Into<Ask>) {
        self.ask_within(id, None, ask).await;
    }

    pub(crate) async fn ask_within(&self, id: u64, within: Option<Duration>, ask: impl Into<Ask>) {
        let question = Question {
            id,
            timeout: within.map(Into::into),
            ask: Some(ask.into()),
        };
        self.step(Step::Question(question)).await;
    }

    pub(crate) async fn next(&mut self) -> Result<Option<DecideResponse>, Status> {
        let next = timeout(DEADLINE, self.answers.message()).await;
        next.expect("an answer within the deadline")
    }

    /// The next answer: its id, and the code of its error.
    pub(crate) async fn code(&mut self) -> (u64, Code) {
        let next = self.next().await.expect("no end").expect("an answer");
        let code = match &next.answer {
            Some(Answer::Error(error)) => Code::from(error.code),
            Some(_) => Code::Ok,
            None => panic!("{next:?} says nothing"),
        };
        (next.id, code)
    }
}

pub(crate) fn web() -> Pod {
    let own = [("app", "web")];
    spread(
        pod("", &own),
        vec![hard(1, ZONE, &own), soft(1, ZONE, &own)],
    )
}

/// A question without a deadline.
pub(crate) fn question(id: u64, ask: Ask) -> Question {
    Question {
        id,
        ask: Some(ask),
        ..Question::default()
    }
}

pub(crate) fn filter(min_revision: i64) -> Ask {
    Ask::Filter(FilterRequest {
        min_revision,
        ..filter_of(web())
    })
}

pub(crate) fn place(replicas: i32) -> Ask {
    Ask::Place(place_of(web(), replicas))
}

/// A server on a small cluster at revision 1.
pub(crate) async fn server(limits: Limits) -> Server {
    let server = Server::with_limits(limits).await;
    let zones = [("n1", "a"), ("n2", "b"), ("n3", "c")];
    let nodes = zones.map(|(name, zone)| node(name, &[(ZONE, zone)]).change());
    let there = on(pod("p1", &[("app", "web")]), "n1").change();
    let all = nodes.into_iter().chain([there]).collect();
    server.update("", all).await;
    server
}
