//! A full disk: decisions go on, lost lines of the log are counted and reported, and no line is
//! torn or joined with another.

use std::fs;

use crate::decision_log::logging::{Logging, lines, texts};
use crate::decision_log::process::{command, serve_on_a_full_disk, until};

/// The largest size of the server's files. No line ends there.
const ROOM: u64 = 20_001;

#[tokio::test]
async fn a_disk_that_fills_up_tears_no_line_and_is_written_again() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut log = Logging::within(directory, "log.jsonl", &mut serve_on_a_full_disk(""), &[]).await;
    let path = log.path("log.jsonl");
    log.server.limit_files(ROOM);
    let mut ids = vec![log.filter().await.decision_id];
    // Lines that are written together are taken back together.
    until("the first line is written", || {
        lines(&path).first().cloned()
    });
    for _ in 1..200 {
        ids.push(log.filter().await.decision_id);
    }
    log.server
        .logged("cannot write the decision log, trying again", "file");
    // No half line is left, however often the server tries.
    let text = fs::read_to_string(&path).expect("it is written");
    assert!(text.ends_with('\n'), "{:?}", text.lines().last());
    let written = lines(&path).len();
    assert!(0 < written && written < ids.len(), "{written} lines");
    assert_eq!(log.filter().await.feasible.len(), 3, "decisions go on");

    log.server.limit_files(1 << 30);
    let whole = until("all of it is written", || {
        let lines = lines(&path);
        (lines.len() > ids.len()).then_some(lines)
    });
    let logged = texts(&whole, "id");
    assert_eq!(logged[..ids.len()], ids, "each once, in order");
    log.server
        .logged("the decision log is written again", "file");
}

#[tokio::test]
async fn a_line_that_was_cut_off_takes_no_other_with_it() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("log.jsonl");
    fs::write(&path, "{\"id\":\"of-a-server-that-was-ki").expect("it can be written");
    let mut serve = command(&["serve"]);
    let log = Logging::within(directory, "log.jsonl", &mut serve, &[]).await;
    let id = log.filter().await.decision_id;
    let second = until("it is logged", || {
        let text = fs::read_to_string(&path).expect("it is there");
        text.lines().nth(1).map(str::to_owned)
    });
    let second: serde_json::Value = serde_json::from_str(&second).expect("a whole line");
    assert_eq!(second["id"], *id);
}

/// A server that can write nothing reports the loss at once, and again at the end.
#[tokio::test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs /dev/full: Linux has it")]
async fn a_full_disk_fails_no_decision() {
    let mut log = Logging::to("/dev/full", &[]).await;
    assert_eq!(log.filter().await.feasible.len(), 3);
    log.server
        .logged("cannot write the decision log, trying again", "file");
    assert_eq!(log.filter().await.feasible.len(), 3);
    log.stop().await;
    log.server.logged("the decision log is incomplete", "file");
}
