//! A state directory, and the servers that live on it one after another.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::restart::process::Server;

/// A state directory.
pub struct Home {
    directory: TempDir,
}

impl Home {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Self { directory }
    }

    /// The directory itself.
    pub fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    /// The file in the directory.
    pub fn file(&self) -> PathBuf {
        self.state().join(evenkeel::store::FILE)
    }

    /// The flags of a server on the directory.
    pub fn flags(&self) -> [String; 4] {
        let state = self.state().display().to_string();
        ["--state-dir", &state, "--drain-pause", "0s"].map(str::to_owned)
    }

    /// Starts a server with more flags, and waits until it listens.
    pub fn start(&self, more: &[&str]) -> Server {
        let flags = self.flags();
        let mut args: Vec<&str> = flags.iter().map(String::as_str).collect();
        args.extend(more);
        Server::start(&args)
    }
}
