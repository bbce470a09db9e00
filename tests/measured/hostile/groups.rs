//! Groups of questions on one revision, as large as a message can make them.

use evenkeel::proto::v1::decide_request::Step;
use evenkeel::proto::v1::question::Ask;
use evenkeel::proto::v1::{DecideRequest, Question, SameRevision, Toleration};
use support::build::filter_of;
use tonic::{Code, Status};

use crate::hostile::beside::Bystanders;
use crate::hostile::process::Server;
use crate::hostile::request::{Client, client};
use crate::hostile::world::{MEASURING, assert_not_held_up, fill, spread_pod};

/// Connections that attack at once.
const ATTACKERS: usize = 6;

/// Asks a group, and leaves after the first answer or the end of the stream.
async fn attack(mut client: Client, questions: Vec<Question>) -> Result<(), Status> {
    let group = SameRevision { questions };
    let request = DecideRequest {
        step: Some(Step::SameRevision(group)),
    };
    let answers = client.decide(tokio_stream::iter([request])).await?;
    answers.into_inner().message().await.map(drop)
}

/// Sends a group on each of several connections, and measures how long others wait meanwhile.
async fn hold_up_nobody(questions: &[Question]) -> Vec<Result<(), Status>> {
    let _alone = MEASURING.lock().await;
    // One thread for all connections: whatever holds it up holds up everybody.
    let server = Server::start(&["--threads", "1"]);
    fill(&mut client(server.address()), 100).await;
    let bystanders = Bystanders::start(server.address());
    let attacks = (0..ATTACKERS).map(|_| attack(client(server.address()), questions.to_vec()));
    let ended = futures::future::join_all(attacks).await;
    assert_not_held_up(bystanders, "a group");
    ended
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_is_counted_while_it_is_read() {
    for ended in hold_up_nobody(&vec![Question::default(); 300_000]).await {
        let status = ended.expect_err("the group is over the limit");
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_group_is_compiled_beside_the_threads_that_serve() {
    let mut pod = spread_pod("web");
    let spec = pod.spec.as_mut().expect("a spec");
    let toleration = |n: usize| Toleration {
        key: format!("key-{n}"),
        operator: "Exists".into(),
        ..Toleration::default()
    };
    spec.tolerations = (0..2_000).map(toleration).collect();
    let filter = filter_of(pod);
    let question = |id| Question {
        id,
        timeout: None,
        ask: Some(Ask::Filter(filter.clone())),
    };
    let questions: Vec<Question> = (0..32).map(question).collect();
    for ended in hold_up_nobody(&questions).await {
        ended.expect("each question has an answer, or an error of its own");
    }
}
