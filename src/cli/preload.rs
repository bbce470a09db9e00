//! Files that a server loads before it answers.

use std::path::PathBuf;

use anyhow::Result;

use super::args;
use super::backend::Client;
use super::load::{self, Input};
use crate::api;

/// Which files to load into which snapshot.
#[derive(Debug, Clone, Default)]
pub struct Preload {
    /// Files, directories or `-`, as for `evenkeel load`.
    pub files: Vec<PathBuf>,
    /// Name of the snapshot; empty means "default".
    pub snapshot: String,
    /// `system` or a file of default constraints.
    pub default_constraints: Option<String>,
}

/// What was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preloaded {
    /// How many objects of each kind, e.g. `3 Node, 58 Pod`.
    pub loaded: String,
    /// The same of kinds that no decision reads; empty for none.
    pub skipped: String,
    /// Revision of the snapshot.
    pub revision: i64,
}

impl Preload {
    /// Reads the files, and replaces the snapshot of `service` with them. The
    /// files are read on a thread for blocking work. With no files and no
    /// default constraints nothing happens.
    pub async fn apply(self, service: api::Service) -> Result<Option<Preloaded>> {
        if self.files.is_empty() && self.default_constraints.is_none() {
            return Ok(None);
        }
        let (files, default_constraints) = (self.files, self.default_constraints);
        let input = tokio::task::spawn_blocking(move || {
            let defaults = args::DefaultConstraints {
                default_constraints,
            };
            Input::read(&files, &defaults)
        })
        .await??;
        input.warn();
        let (loaded, skipped) = (input.loaded(), input.skipped());
        let client = Client::of_service(service, None);
        let answer = load::send(&client, input, &self.snapshot, true).await?;
        Ok(Some(Preloaded {
            loaded,
            skipped,
            revision: answer.revision,
        }))
    }
}
