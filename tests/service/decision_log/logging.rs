//! A server that logs its decisions, and the lines of a log.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use evenkeel::proto::v1::{FilterResponse, Pod};
use serde_json::Value;
use tempfile::TempDir;

use crate::decision_log::process;
use support::build::{ZONE, filter_of, hard, node, on, pod, spread};
use support::model::Stored;

/// A server that logs its decisions, with three zones in its snapshot.
pub(crate) struct Logging {
    pub(crate) directory: TempDir,
    pub(crate) server: process::Server,
}

impl Logging {
    pub(crate) async fn start(flags: &[&str]) -> Self {
        Self::to("decisions.jsonl", flags).await
    }

    pub(crate) async fn to(file: &str, flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Self::within(directory, file, &mut process::command(&["serve"]), flags).await
    }

    /// Starts a server by a prepared `serve` command.
    pub(crate) async fn within(
        directory: TempDir,
        file: &str,
        serve: &mut Command,
        flags: &[&str],
    ) -> Self {
        let log = directory.path().join(file);
        let mut arguments = vec!["--decision-log", log.to_str().expect("a path")];
        arguments.extend(["--drain-pause", "0s"]);
        arguments.extend(flags);
        if !flags.contains(&"--decision-log-sample") {
            arguments.extend(["--decision-log-sample", "1"]);
        }
        let server = process::Server::spawn(serve.args(&arguments));
        let nodes = ["a", "b", "c"].map(|zone| node(&format!("{zone}1"), &[(ZONE, zone)]).change());
        server.update("", nodes.into()).await;
        Self { directory, server }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) async fn filter(&self) -> FilterResponse {
        self.server.filter(filter_of(web())).await
    }

    /// Puts a pod on a node.
    pub(crate) async fn run_on(&self, name: &str, node: &str) {
        let mut running = on(web(), node);
        running.metadata.get_or_insert_default().name = name.into();
        self.server.update("", vec![running.change()]).await;
    }

    /// Waits until the log has this many lines.
    pub(crate) fn lines(&self, count: usize) -> Vec<Value> {
        process::until("the log is written", || {
            let lines = lines(&self.path("decisions.jsonl"));
            (lines.len() >= count).then_some(lines)
        })
    }

    /// Runs a command of the binary in the directory of the log.
    pub(crate) fn run(&self, arguments: &str) -> process::Outcome {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let mut command = process::command(&arguments);
        command.current_dir(self.directory.path());
        command.env("EVENKEEL_SERVER", self.server.url());
        process::run(command)
    }

    /// Returns the exit code of a command, and its standard output.
    pub(crate) fn told(&self, arguments: &str) -> (i32, String) {
        let outcome = self.run(arguments);
        (outcome.code, outcome.out)
    }

    /// Drains the server.
    pub(crate) async fn stop(&mut self) {
        self.server.signal("TERM");
        assert!(self.server.exited().await.success());
    }
}

pub(crate) fn web() -> Pod {
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
