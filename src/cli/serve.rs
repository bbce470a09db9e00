//! `evenkeel serve`: runs the server, and loads files into it first.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use tracing::{info, warn};

use super::args;
use super::backend::Client;
use super::input::{self, Input};
use super::watching::WatchSettings;
use crate::snapshot::Limits;
use crate::{api, server, tasks};

/// Flags of `evenkeel serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Snapshot into which --load loads
    #[arg(
        short,
        long,
        env = "EVENKEEL_SNAPSHOT",
        value_name = "NAME",
        default_value = "default"
    )]
    snapshot: String,

    #[command(flatten)]
    rules: args::RulesFlags,

    // This comes after the flags without a heading, because a heading applies to all later flags.
    #[command(flatten)]
    pub(super) config: server::Config,

    #[command(flatten)]
    watch: WatchSettings,
}

impl Serve {
    /// Runs the server until it is stopped.
    pub(crate) fn run(mut self) -> ExitCode {
        let loads = !self.config.load.is_empty() || self.rules.are_set();
        let loaded = loads.then_some(&*self.snapshot);
        let watching = match self.watch.plan(&mut self.config, loaded) {
            Ok(watching) => watching,
            Err(conflict) => {
                server::logging::fatal(self.config.log.log_format, &conflict);
                return ExitCode::from(server::config::BAD_CONFIGURATION);
            }
        };
        let files = self.config.load.clone();
        let (snapshot, rules) = (self.snapshot, self.rules);
        server::run(self.config, watching.counts(), |server| async {
            watching.start(&server)?;
            // The server prints only the error itself, so this joins it with its causes.
            let loaded = preload(server.service, files, &snapshot, rules).await;
            loaded.map_err(|error| anyhow::anyhow!("{error:#}"))
        })
    }
}

/// Replaces the snapshot of `service` with the content of the files, as `evenkeel load` does. Does
/// nothing without files, default constraints and a version.
async fn preload(
    service: api::Service,
    files: Vec<PathBuf>,
    snapshot: &str,
    rules: args::RulesFlags,
) -> Result<()> {
    if files.is_empty() && !rules.are_set() {
        return Ok(());
    }
    // Reading a large cluster takes seconds, so it must not block a thread that answers health
    // checks.
    let read = move || Input::read(&files, &rules, None);
    let input = tasks::spawn_blocking(read).await??;
    let mut input = input.or_system_defaults();
    let client = Client::on(service.in_process(), None);
    let sent = input::send(&client, &mut input, snapshot, true, &Limits::none()).await?;
    for warning in input.warnings(true).into_iter().chain(sent.warning()) {
        warn!("{warning}");
    }
    info!(
        snapshot,
        revision = sent.answer.revision,
        loaded = input.loaded(),
        skipped = input.skipped(),
        "loaded files"
    );
    Ok(())
}
