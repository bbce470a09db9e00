//! Replays, which find the differences between a log and the decisions of now.

use std::fs;
use std::time::Duration;

use evenkeel::proto::v1::PlaceRequest;
use serde_json::Value;
use support::build::hold_of;

use crate::decision_log::logging::{Logging, web};

#[tokio::test]
async fn a_replay_on_the_same_state_is_the_same() {
    let log = Logging::start(&[]).await;
    log.run_on("w1", "a1").await;
    log.filter().await;
    let place = PlaceRequest {
        request_id: "first".into(),
        ..hold_of(web(), 3, Duration::from_secs(60))
    };
    let (saved, _) = log.told("snapshot save state.json");
    assert_eq!(saved, 0);
    log.server.place(place).await;
    log.lines(2);
    let (code, out) = log.told("admin replay decisions.jsonl --load state.json");
    assert_eq!(code, 0, "{out}");
    assert!(
        out.starts_with("snapshot \"default\", revision 2\n"),
        "{out}"
    );
    assert!(out.contains("same: all of 2 decisions"), "{out}");
    // The replay reserved nothing.
    let (_, held) = log.told("reservation list -o name");
    assert_eq!(held.lines().count(), 3);
}

/// A server logs the decisions of a replay in the file that the replay reads.
#[tokio::test]
async fn a_replay_does_not_read_what_it_makes() {
    let log = Logging::start(&[]).await;
    log.run_on("w1", "a1").await;
    for _ in 0..300 {
        log.filter().await;
    }
    log.lines(300);
    let (code, out) = log.told("admin replay decisions.jsonl decisions.jsonl");
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("same: all of 600 decisions"), "{out}");
    log.lines(900);
}

#[tokio::test]
async fn a_replay_on_another_state_shows_what_differs() {
    let log = Logging::start(&[]).await;
    log.run_on("w1", "a1").await;
    let logged = log.filter().await;
    log.run_on("w2", "b1").await;
    log.lines(1);
    log.run("snapshot save state.json");
    for source in ["--load state.json", ""] {
        let (code, out) = log.told(&format!("admin replay decisions.jsonl {source}"));
        assert_eq!(code, 1, "{out}");
        let expected = [
            "different: 1 of 1 decision\n",
            &format!("{} Filter of default/, ", logged.decision_id),
            ", on another revision, 2\n",
            "  nodeCount: was 2, is 1\n",
            "  nodes: was [[\"b1\",null],[\"c1\",null]], is [[\"c1\",null]]\n",
        ];
        for part in expected {
            assert!(out.contains(part), "{part:?} is not in {out}");
        }
        let (code, out) = log.told(&format!("admin replay decisions.jsonl {source} -o name"));
        assert_eq!((code, out.trim()), (1, logged.decision_id.as_str()));
    }
}

#[tokio::test]
async fn odd_logs_are_told_apart() {
    let mut log = Logging::start(&[]).await;
    log.filter().await;
    log.lines(1);
    log.run("snapshot save state.json");
    // A line that was cut off is reported, and the other lines count.
    let mut text_of = fs::read_to_string(log.path("decisions.jsonl")).expect("it is there");
    text_of.push_str("{\"id\":\"cut");
    fs::write(log.path("cut.jsonl"), text_of).expect("it can be written");
    let replayed = log.run("admin replay cut.jsonl --load state.json");
    let replayed = replayed.expect(0);
    let out = &replayed.out;
    assert!(out.contains("1 lines that are no decision"), "{out}");
    replayed.complains("cut.jsonl, line 2");

    let cases = [
        ("admin replay none.jsonl --load state.json", "none.jsonl"),
        (
            "admin replay decisions.jsonl --load state.json --snapshot other",
            "choose with --snapshot: default",
        ),
        ("admin replay - --load -", "standard input"),
    ];
    for (line, expected) in cases {
        log.run(line).expect(2).complains(expected);
    }
    log.stop().await;
}

/// The log of a newer server may hold questions with a deletion of a kind that this
/// program does not know.
#[tokio::test]
async fn a_deletion_of_an_unknown_kind_is_refused_by_its_place() {
    let mut log = Logging::start(&[]).await;
    log.filter().await;
    log.lines(1);
    log.run("snapshot save state.json");
    let line = fs::read_to_string(log.path("decisions.jsonl")).expect("it is there");
    let mut line: Value = serde_json::from_str(&line).expect("one line of JSON");
    let gadget =
        serde_json::json!({"kind": "Gadget", "namespace": "default", "name": "g\u{1b}[2J"});
    line["request"]["overlay"] = serde_json::json!([{"delete": gadget}]);
    fs::write(log.path("newer.jsonl"), format!("{line}\n")).expect("it can be written");
    let replayed = log.run("admin replay newer.jsonl --load state.json");
    let said = replayed.expect(1).said();
    assert!(
        said.contains("overlay[0].delete.kind: must be one of"),
        "{said}"
    );
    assert!(!said.contains(['\u{1b}']), "{said}");
    log.stop().await;
}
