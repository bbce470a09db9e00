//! Replays, which find the differences between a log and the decisions of now.

use std::fs;

use evenkeel::proto::v1::{PlaceRequest, Reservation};
use serde_json::Value;
use support::build::place_of;

use crate::decision_log::logging::{Logging, text, web};

#[tokio::test]
async fn a_replay_on_the_same_state_is_the_same() {
    let mut log = Logging::start(&[]).await;
    log.run_on("w1", "a1").await;
    log.filter().await;
    let place = PlaceRequest {
        reserve: Some(Reservation {
            owner: "somebody".into(),
            ttl: Some(pbjson_types::Duration {
                seconds: 60,
                nanos: 0,
            }),
        }),
        request_id: "first".into(),
        ..place_of(web(), 3)
    };
    let (saved, _) = log.told("snapshot save state.json");
    assert_eq!(saved, 0);
    log.client.place(place).await.expect("a valid question");
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
    let mut log = Logging::start(&[]).await;
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
    let mut log = Logging::start(&[]).await;
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
    let output = log.run("admin replay cut.jsonl --load state.json");
    let (code, out) = text(&output);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("1 lines that are no decision"), "{out}");
    let warned = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(warned.contains("cut.jsonl, line 2"), "{warned}");

    let cases = [
        ("admin replay none.jsonl --load state.json", "none.jsonl"),
        (
            "admin replay decisions.jsonl --load state.json --snapshot other",
            "choose with --snapshot: default",
        ),
        ("admin replay - --load -", "standard input"),
    ];
    for (line, expected) in cases {
        let output = log.run(line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(expected), "{line}: {said}");
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
    let output = log.run("admin replay newer.jsonl --load state.json");
    let (code, out) = text(&output);
    let said = out + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("overlay[0].delete.kind: must be one of"),
        "{said}"
    );
    assert!(!said.contains(['\u{1b}']), "{said}");
    log.stop().await;
}
