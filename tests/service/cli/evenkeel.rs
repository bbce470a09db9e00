//! The real binary, run as a person runs it.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::cli::process;
pub use crate::cli::process::Outcome;

/// A directory that commands run in.
pub struct Workspace {
    directory: TempDir,
    server: Option<String>,
}

impl Workspace {
    /// An empty directory.
    pub fn new() -> Self {
        Self {
            directory: tempfile::tempdir().expect("a temporary directory can be made"),
            server: None,
        }
    }

    /// Commands talk to this server.
    pub fn with_server(mut self, address: &str) -> Self {
        self.server = Some(address.to_owned());
        self
    }

    /// Writes a file.
    pub fn file(self, name: &str, content: &str) -> Self {
        std::fs::write(self.path(name), content).expect("the file can be written");
        self
    }

    /// Path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The command, not started. `line` is split at blanks.
    pub fn command(&self, line: &str) -> Command {
        let mut command = process::command(&line.split_whitespace().collect::<Vec<_>>());
        command.current_dir(&self.directory);
        if let Some(server) = &self.server {
            command.env("EVENKEEL_SERVER", server);
        }
        command
    }

    /// What a shell gets that completes a command line.
    pub fn completed(&self, line: &str) -> String {
        let index = line.split(' ').count().to_string();
        let mut command = self.command(&format!("-- evenkeel {line}"));
        command.env("_EVENKEEL_COMPLETE", "bash");
        command.env("_CLAP_COMPLETE_INDEX", index);
        process::run(command).expect(0).out
    }

    /// Runs a command line with nothing on standard input.
    pub fn run(&self, line: &str) -> Outcome {
        self.run_with(line, "")
    }

    /// Runs a command line, which must end with `code`.
    pub fn expect(&self, code: i32, line: &str) -> Outcome {
        self.run(line).expect(code)
    }

    /// Runs a command line with `input` on standard input.
    pub fn run_with(&self, line: &str, input: &str) -> Outcome {
        let mut child = self
            .command(line)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut stdin = child.stdin.take().expect("it is piped");
        // A command that fails early may not read its input.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        Outcome::of(child.wait_with_output().expect("the binary ends"))
    }
}
