//! Groups of questions on one revision, as large as a message can make them.

use std::time::Duration;

use evenkeel::proto::v1::decide_request::Step;
use evenkeel::proto::v1::question::Ask;
use evenkeel::proto::v1::{
    Container, DecideRequest, FilterRequest, PodSpec, Question, SameRevision, Toleration,
};
use prost::Message;
use support::build::filter_of;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use crate::hostile::beside::Bystanders;
use crate::hostile::metrics::Page;
use crate::hostile::process::{Server, until};
use crate::hostile::request::{Client, client};
use crate::hostile::world::{LONGEST_MS, MEASURING, fill, spread_pod};

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
    let (health, filter) = bystanders.stop();
    for (who, waits) in [("health", health), ("a small Filter", filter)] {
        assert!(waits.failures().is_empty(), "{who}: {waits:?}");
        let longest = waits.longest();
        assert!(longest < LONGEST_MS, "{who} waited {longest:.0} ms");
    }
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

/// Returns the bytes that a server has on its account for requests, and those that are resident.
fn held(server: &Server, admin: &str) -> (usize, usize) {
    let page = Page::of(admin);
    let charged = page.value("evenkeel_accounted_memory_bytes", &["part=\"requests\""]);
    let path = format!("/proc/{}/status", server.id());
    let status = std::fs::read_to_string(path).expect("a running process");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    (charged as usize, kilobytes.expect("Linux says so") << 10)
}

/// A group that waits for a revision that does not come.
fn waiting(spec: &PodSpec) -> DecideRequest {
    // Each question is about another pod.
    let question = |id| {
        let mut pod = spread_pod(&format!("web-{id}"));
        let own = pod.spec.get_or_insert_default();
        own.containers.clone_from(&spec.containers);
        own.tolerations.clone_from(&spec.tolerations);
        for toleration in &mut own.tolerations {
            toleration.value = format!("value-{id}");
        }
        let filter = FilterRequest {
            pod: Some(pod),
            min_revision: 1_000_000,
            ..FilterRequest::default()
        };
        Question {
            id,
            timeout: None,
            ask: Some(Ask::Filter(filter)),
        }
    };
    let questions = (0..256).map(question).collect();
    DecideRequest {
        step: Some(Step::SameRevision(SameRevision { questions })),
    }
}

/// The charge for questions that wait is bounded by their bytes, however dense these are. It is no
/// less than what the questions take, and it ends with their stream.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_waits_is_charged_what_it_takes() {
    let _alone = MEASURING.lock().await;
    let toleration = |n| Toleration {
        key: format!("key-{n}"),
        ..Toleration::default()
    };
    // A container takes two bytes on the wire, and a toleration stays when a question is compiled.
    let dense = PodSpec {
        containers: vec![Container::default(); 190],
        ..PodSpec::default()
    };
    let kept = PodSpec {
        tolerations: (0..1_000).map(toleration).collect(),
        ..PodSpec::default()
    };
    for spec in [dense, kept] {
        let flags = ["--threads", "1", "--admin-listen", "127.0.0.1:0"];
        let mut server = Server::start(&flags);
        let admin = server.logged("admin listening", "address");
        fill(&mut client(server.address()), 10).await;
        let before = held(&server, &admin);
        let group = waiting(&spec);
        let length = group.encoded_len();
        let (sender, steps) = mpsc::channel(1);
        sender.send(group).await.expect("there is room for one");
        let answers = client(server.address())
            .decide(ReceiverStream::new(steps))
            .await;
        let answers = answers.expect("a stream").into_inner();
        let mut seen = (0, 0);
        until("it is compiled and waits", || {
            let now = held(&server, &admin);
            let is_still = now == seen && now.0 > before.0 + length;
            seen = now;
            std::thread::sleep(Duration::from_millis(200));
            is_still.then_some(())
        });
        let (charged, taken) = (seen.0 - before.0, seen.1.saturating_sub(before.1));
        eprintln!("{length} bytes: {charged} charged, {taken} resident");
        let most = 150 * length + (2 << 20);
        assert!(charged <= most, "{length} bytes: {charged} charged");
        assert!(taken <= charged / 5 * 6 + (8 << 20), "{taken} of {charged}");
        drop((sender, answers));
        until("the charge returns", || {
            (held(&server, &admin).0 <= before.0 + 100_000).then_some(())
        });
    }
}
