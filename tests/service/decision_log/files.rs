//! The files of a decision log: they are rotated, bounded and counted, and a file that cannot be
//! written fails no decision.

use std::fs;

use crate::decision_log::logging::{Logging, lines};
use crate::decision_log::{metrics, process};

#[tokio::test]
async fn files_are_rotated_and_bounded() {
    let flags = [
        "--decision-log-max-bytes",
        "2000",
        "--decision-log-max-files",
        "3",
    ];
    let mut log = Logging::start(&flags).await;
    // A line has some 500 bytes or more. The test waits for each, so that lines are written one by
    // one.
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
    // The server tries again, and no line is lost.
    fs::create_dir(log.path("not-there-yet")).expect("it can be made");
    let path = log.path("not-there-yet/decisions.jsonl");
    let written = process::until("the log is written", || {
        let lines = lines(&path);
        (!lines.is_empty()).then_some(lines)
    });
    assert_eq!(written[0]["id"], first.decision_id);
}
