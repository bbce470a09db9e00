//! The decision log of the real server: what it says, that it never gets in
//! the way, and that a replay finds what differs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use evenkeel::decision_log::Line;
use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel::proto::v1::{
    ExplainRequest, FilterRequest, FilterResponse, PlaceRequest, Reservation, ScoreRequest,
};
use serde_json::Value;
use support::build::{ZONE, hard, node, on, pod, spread};
use support::model::Stored;
use tempfile::TempDir;
use tonic::transport::Channel;

mod full_disk;
#[path = "../support/http.rs"]
mod http;
#[path = "../support/metrics.rs"]
mod metrics;
#[path = "../support/process.rs"]
mod process;
#[path = "../support/mod.rs"]
mod support;

use evenkeel::proto::v1::{Pod, UpdateSnapshotRequest};

/// A server that logs its decisions, and three zones on it.
struct Logging {
    directory: TempDir,
    server: process::Server,
    client: SpreadServiceClient<Channel>,
}

impl Logging {
    async fn start(flags: &[&str]) -> Self {
        Self::to("decisions.jsonl", flags).await
    }

    async fn to(file: &str, flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Self::within(directory, file, &mut process::command(&["serve"]), flags).await
    }

    /// One by a prepared `serve` command.
    async fn within(directory: TempDir, file: &str, serve: &mut Command, flags: &[&str]) -> Self {
        let log = directory.path().join(file);
        let mut arguments = vec!["--decision-log", log.to_str().expect("a path")];
        arguments.extend(["--drain-pause", "0s"]);
        arguments.extend(flags);
        if !flags.contains(&"--decision-log-sample") {
            arguments.extend(["--decision-log-sample", "1"]);
        }
        let server = process::Server::spawn(serve.args(&arguments));
        let mut client = SpreadServiceClient::new(server.channel());
        let nodes = ["a", "b", "c"].map(|zone| node(&format!("{zone}1"), &[(ZONE, zone)]).change());
        let request = UpdateSnapshotRequest {
            changes: nodes.into(),
            ..UpdateSnapshotRequest::default()
        };
        client.update_snapshot(request).await.expect("it is valid");
        Self {
            directory,
            server,
            client,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    async fn filter(&mut self) -> FilterResponse {
        let request = FilterRequest {
            pod: Some(web()),
            ..FilterRequest::default()
        };
        let answer = self.client.filter(request).await;
        answer.expect("a valid question").into_inner()
    }

    /// Puts a pod on a node.
    async fn run_on(&mut self, name: &str, node: &str) {
        let mut running = on(web(), node);
        running.metadata.get_or_insert_default().name = name.into();
        let request = UpdateSnapshotRequest {
            changes: vec![running.change()],
            ..UpdateSnapshotRequest::default()
        };
        let answer = self.client.update_snapshot(request).await;
        answer.expect("it is valid");
    }

    /// Waits until so many lines are in the log.
    fn lines(&self, count: usize) -> Vec<Value> {
        process::until("the log is written", || {
            let lines = lines(&self.path("decisions.jsonl"));
            (lines.len() >= count).then_some(lines)
        })
    }

    /// Runs a command of the binary in the directory of the log.
    fn run(&self, arguments: &str) -> Output {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let mut command = process::command(&arguments);
        command.current_dir(self.directory.path());
        command.env("EVENKEEL_SERVER", self.server.url());
        process::run(command)
    }

    /// Drains the server.
    async fn stop(&mut self) {
        self.server.signal("TERM");
        assert!(self.server.exited().await.success());
    }
}

fn web() -> Pod {
    let labels = [("app", "web")];
    spread(pod("", &labels), vec![hard(1, ZONE, &labels)])
}

/// The whole lines of a log; none when it is not there.
pub(crate) fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|l| l.ends_with('\n'));
    whole
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect()
}

/// A field of each line.
pub(crate) fn texts<'l>(lines: &'l [Value], field: &str) -> Vec<&'l str> {
    let texts = lines.iter().map(|line| line[field].as_str());
    texts.map(|text| text.expect("every line has it")).collect()
}

fn text(output: &Output) -> (i32, String) {
    let code = output.status.code().expect("it exited");
    let out = String::from_utf8(output.stdout.clone()).expect("text");
    (code, out)
}

#[tokio::test]
async fn a_line_says_what_was_asked_and_answered() {
    let mut log = Logging::start(&[]).await;
    log.run_on("w1", "a1").await;
    let answer = log.filter().await;
    assert!(!answer.decision_id.is_empty());
    let lines = log.lines(1);
    let line = &lines[0];
    assert_eq!(line["id"], answer.decision_id);
    assert_eq!(line["rpc"], "Filter");
    assert_eq!(line["snapshot"], "default");
    assert_eq!(line["epoch"], answer.epoch);
    assert_eq!(line["revision"], answer.revision);
    assert!(line["tookMicros"].is_u64());
    let time = line["time"].as_str().expect("a time");
    humantime::parse_rfc3339(time).expect("RFC 3339");
    assert_eq!(line["request"]["pod"]["metadata"]["labels"]["app"], "web");
    let brief = &line["answer"];
    assert_eq!(
        (&brief["nodeCount"], &brief["judgedCount"]),
        (&2.into(), &3.into())
    );
    assert_eq!(brief["nodes"][0][0], "b1");
    assert_eq!(brief["reasons"][0][1], 1);
    assert_eq!(brief["reasons"][0][2], "REASON_CODE_SKEW");
    assert_eq!(brief["constraints"][0]["domainCount"], 3);

    // Logs of earlier versions have no codes.
    let mut earlier = line.clone();
    earlier["answer"]["reasons"][0]
        .as_array_mut()
        .expect("a reason")
        .pop();
    let read = Line::parse(&earlier.to_string()).expect("it is read");
    assert_eq!(read.answer.reasons[0].1, 1);
}

#[tokio::test]
async fn every_decision_has_a_line_and_refusals_have_none() {
    let mut log = Logging::start(&[]).await;
    let pod = || Some(web());
    let filter = log.filter().await.decision_id;
    let score = ScoreRequest {
        pod: pod(),
        ..ScoreRequest::default()
    };
    let score = log.client.score(score).await.expect("valid").into_inner();
    let explain = ExplainRequest {
        pod: pod(),
        ..ExplainRequest::default()
    };
    let explain = log.client.explain(explain).await.expect("valid");
    let place = PlaceRequest {
        pod: pod(),
        replicas: 2,
        ..PlaceRequest::default()
    };
    let place = log.client.place(place).await.expect("valid").into_inner();
    let refused = log.client.filter(FilterRequest::default()).await;
    refused.expect_err("it has no pod");
    let last = log.filter().await.decision_id;
    let ids = [
        filter,
        score.decision_id,
        explain.into_inner().decision_id,
        place.decision_id,
        last,
    ];
    log.stop().await;
    let lines = lines(&log.path("decisions.jsonl"));
    assert_eq!(texts(&lines, "id"), ids);
    assert_eq!(
        texts(&lines, "rpc"),
        ["Filter", "Score", "Explain", "Place", "Filter"]
    );
}

/// Nothing that is answered can be kept out of the log by how it is asked.
#[tokio::test]
async fn what_could_not_be_written_is_not_answered() {
    let mut log = Logging::start(&[]).await;
    let times = [i64::MIN, i64::MAX].map(|seconds| pbjson_types::Timestamp { seconds, nanos: 0 });
    let mut leaving = node("d1", &[]);
    let mut going = web();
    for time in times {
        going.metadata.get_or_insert_default().deletion_timestamp = Some(time);
        leaving.metadata.get_or_insert_default().deletion_timestamp = Some(time);
        let requests = [
            (going.clone(), vec![]),
            (web(), vec![leaving.clone().change()]),
        ];
        for (pod, overlay) in requests {
            let request = FilterRequest {
                pod: Some(pod),
                overlay,
                ..FilterRequest::default()
            };
            let refused = log.client.filter(request).await.expect_err("no such time");
            assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}");
        }
    }
}

#[tokio::test]
async fn without_a_log_there_are_no_ids() {
    let server = support::server::Server::start().await;
    server.update("", vec![node("a1", &[]).change()]).await;
    let request = FilterRequest {
        pod: Some(web()),
        ..FilterRequest::default()
    };
    assert_eq!(server.filter(request).await.decision_id, "");
}

#[tokio::test]
async fn what_is_sampled_has_an_id() {
    let mut log = Logging::start(&["--decision-log-sample", "0.5"]).await;
    let mut ids = Vec::new();
    for _ in 0..200 {
        ids.push(log.filter().await.decision_id);
    }
    log.stop().await;
    ids.retain(|id| !id.is_empty());
    // Fewer than 50 or more than 150 happen once in 10^12 runs.
    assert!((50..150).contains(&ids.len()), "{}", ids.len());
    let lines = lines(&log.path("decisions.jsonl"));
    assert_eq!(texts(&lines, "id"), ids);
}

#[tokio::test]
async fn files_are_rotated_and_bounded() {
    let flags = [
        "--decision-log-max-bytes",
        "2000",
        "--decision-log-max-files",
        "3",
    ];
    let mut log = Logging::start(&flags).await;
    // A line has some 500 bytes or more. Each is waited for, so that lines are
    // written one by one.
    for _ in 0..24 {
        let id = log.filter().await.decision_id;
        process::until("the line is written", || {
            let text = fs::read_to_string(log.path("decisions.jsonl")).unwrap_or_default();
            text.contains(&id).then_some(())
        });
    }
    let last = log.filter().await.decision_id;
    log.stop().await;
    let mut names: Vec<_> = fs::read_dir(log.directory.path())
        .expect("it is there")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    let expected = ["decisions.jsonl", "decisions.jsonl.1", "decisions.jsonl.2"];
    assert_eq!(names, expected);
    // Every file holds whole lines.
    let current = lines(&log.path("decisions.jsonl"));
    assert_eq!(current.last().expect("a line")["id"], last);
    for name in &names {
        let text = fs::read_to_string(log.path(name.to_str().expect("a name")));
        assert!(text.expect("text").ends_with('\n'), "{name:?}");
        lines(&log.path(name.to_str().expect("a name")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_log_does_is_counted() {
    let mut log = Logging::start(&["--admin-listen", "127.0.0.1:0"]).await;
    let admin = log.server.logged("admin listening", "address");
    for _ in 0..3 {
        log.filter().await;
    }
    log.lines(3);
    let bytes = fs::metadata(log.path("decisions.jsonl"))
        .expect("it is there")
        .len();
    let page = process::until("the writer has counted", || {
        let page = metrics::Page::of(&admin);
        let logged = page.value("evenkeel_decisions_logged_total", &[]);
        (logged == 3.0).then_some(page)
    });
    for none in [
        "evenkeel_decisions_not_logged_total",
        "evenkeel_decision_log_errors_total",
    ] {
        assert_eq!(page.value(none, &[]), 0.0, "{none}");
    }
    let counted = page.value("evenkeel_decision_log_written_bytes_total", &[]);
    assert_eq!(counted, bytes as f64);
}

#[tokio::test]
async fn a_file_that_cannot_be_written_fails_no_decision() {
    let mut log = Logging::to("not-there-yet/decisions.jsonl", &[]).await;
    let first = log.filter().await;
    assert_eq!(first.feasible.len(), 3);
    log.server
        .logged("cannot write the decision log, trying again", "file");
    // It is tried again, and nothing is lost.
    fs::create_dir(log.path("not-there-yet")).expect("it can be made");
    let path = log.path("not-there-yet/decisions.jsonl");
    let written = process::until("the log is written", || {
        let lines = lines(&path);
        (!lines.is_empty()).then_some(lines)
    });
    assert_eq!(written[0]["id"], first.decision_id);
}

#[tokio::test]
async fn a_replay_on_the_same_state_is_the_same() {
    let mut log = Logging::start(&[]).await;
    log.run_on("w1", "a1").await;
    log.filter().await;
    let place = PlaceRequest {
        pod: Some(web()),
        replicas: 3,
        reserve: Some(Reservation {
            owner: "somebody".into(),
            ttl: Some(pbjson_types::Duration {
                seconds: 60,
                nanos: 0,
            }),
        }),
        ..PlaceRequest::default()
    };
    let (saved, _) = text(&log.run("snapshot save state.json"));
    assert_eq!(saved, 0);
    log.client.place(place).await.expect("a valid question");
    log.lines(2);
    let (code, out) = text(&log.run("replay decisions.jsonl --load state.json"));
    assert_eq!(code, 0, "{out}");
    assert!(
        out.starts_with("snapshot \"default\", revision 2\n"),
        "{out}"
    );
    assert!(out.contains("same: all of 2 decisions"), "{out}");
    // The reservation made another revision, and a replay held nothing.
    let (code, out) =
        text(&log.run("replay decisions.jsonl --load state.json --same-revision -o json"));
    assert_eq!(code, 0, "{out}");
    let report: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(
        (&report["same"], &report["leftOut"]),
        (&1.into(), &1.into())
    );
    let (_, held) = text(&log.run("reservation list -o name"));
    assert_eq!(held.lines().count(), 3);
}

/// A server that decides again logs it, in the file that is being read.
#[tokio::test]
async fn a_replay_does_not_read_what_it_makes() {
    let mut log = Logging::start(&[]).await;
    log.run_on("w1", "a1").await;
    for _ in 0..300 {
        log.filter().await;
    }
    log.lines(300);
    let (code, out) = text(&log.run("replay decisions.jsonl decisions.jsonl"));
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("same: all of 600 decisions"), "{out}");
    log.lines(900);
}

#[tokio::test]
async fn a_replay_on_another_state_shows_what_differs() {
    let mut log = Logging::start(&[]).await;
    log.run_on("w1", "a1").await;
    let logged = log.filter().await;
    log.run_on("w2", "b1").await;
    log.lines(1);
    log.run("snapshot save state.json");
    for source in ["--load state.json", ""] {
        let (code, out) = text(&log.run(&format!("replay decisions.jsonl {source}")));
        assert_eq!(code, 1, "{out}");
        let expected = [
            "different: 1 of 1 decisions",
            &format!("{} Filter of default/, ", logged.decision_id),
            ", on another revision, 2\n",
            "  nodes: was 2, is 1\n",
            "  first nodes: was b1, c1, is c1\n",
        ];
        for part in expected {
            assert!(out.contains(part), "{part:?} is not in {out}");
        }
        let (code, out) = text(&log.run(&format!("replay decisions.jsonl {source} -o name")));
        assert_eq!((code, out.trim()), (1, logged.decision_id.as_str()));
        let (code, out) =
            text(&log.run(&format!("replay decisions.jsonl {source} --same-revision")));
        assert_eq!(code, 0, "{out}");
        assert!(out.contains("1 left out, of other revisions"), "{out}");
    }
}

#[tokio::test]
async fn odd_logs_are_told_apart() {
    let mut log = Logging::start(&[]).await;
    log.filter().await;
    log.lines(1);
    log.run("snapshot save state.json");
    // A line that was cut off is said, and the others count.
    let mut text_of = fs::read_to_string(log.path("decisions.jsonl")).expect("it is there");
    text_of.push_str("{\"id\":\"cut");
    fs::write(log.path("cut.jsonl"), text_of).expect("it can be written");
    let output = log.run("replay cut.jsonl --load state.json");
    let (code, out) = text(&output);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("1 lines that are no decision"), "{out}");
    let warned = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(warned.contains("cut.jsonl, line 2"), "{warned}");

    let cases = [
        ("replay none.jsonl --load state.json", "none.jsonl"),
        (
            "replay decisions.jsonl --load state.json --snapshot other",
            "choose with --snapshot: default",
        ),
        ("replay - --load -", "standard input"),
    ];
    for (line, expected) in cases {
        let output = log.run(line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(expected), "{line}: {said}");
    }
    log.stop().await;
}
