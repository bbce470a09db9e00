//! Flags that several commands share.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::backend::Client;
use super::endpoint::Endpoint;
use super::input::{self, Input};
use super::output::{self, AnswerFormat};
use super::render::Origin;
use crate::limits::NodeNames;
use crate::manifest::SavedOrigin;
use crate::server::config::NodeNamesSetting;

/// Where the server is.
#[derive(Debug, Clone, Args)]
pub(crate) struct Server {
    #[command(flatten)]
    endpoint: Endpoint,

    /// How long to wait for an answer, e.g. 500ms, 10s or 2m
    ///
    /// It is the gRPC deadline of each call. Loading and saving have no
    /// deadline.
    #[arg(
        long,
        env = "EVENKEEL_TIMEOUT",
        value_name = "DURATION",
        default_value = "30s",
        value_parser = humantime::parse_duration
    )]
    pub(crate) timeout: Duration,
}

impl Server {
    /// A client of the server, connected.
    pub(crate) async fn client(&self) -> Result<Client> {
        Client::connect(&self.endpoint, Some(self.timeout)).await
    }
}

/// Which snapshot.
#[derive(Debug, Clone, Args)]
pub(crate) struct SnapshotName {
    /// Name of the snapshot
    #[arg(
        short,
        long,
        env = "EVENKEEL_SNAPSHOT",
        value_name = "NAME",
        default_value = "default"
    )]
    pub(crate) snapshot: String,
}

/// Default constraints to set.
#[derive(Debug, Clone, Args)]
pub(crate) struct DefaultConstraintsFlag {
    /// Constraints of pods that have none of their own: `system` or a file
    ///
    /// `system` means Kubernetes' own: hostname with max skew 3 and zone with
    /// max skew 5, both ScheduleAnyway. A file (JSON or YAML, - for standard
    /// input) holds a list of constraints, the arguments of
    /// PodTopologySpread, or a whole KubeSchedulerConfiguration.
    #[arg(long, value_name = "FILE|system")]
    default_constraints: Option<String>,
}

impl DefaultConstraintsFlag {
    /// What was given.
    pub(crate) fn argument(&self) -> Option<&str> {
        self.default_constraints.as_deref()
    }
}

/// What a question is asked about: a snapshot of a server, or files.
#[derive(Debug, Clone, Args)]
pub(crate) struct SnapshotSource {
    #[command(flatten)]
    server: Server,

    #[command(flatten)]
    name: SnapshotName,

    /// Decide in this process on these objects, without a server
    ///
    /// A file of kubectl's JSON or YAML, a directory of such files, or - for
    /// standard input. Can be repeated.
    #[arg(long, value_name = "FILE")]
    load: Vec<PathBuf>,

    #[command(flatten)]
    defaults: DefaultConstraintsFlag,

    #[command(flatten)]
    node_names: NodeNamesSetting,
}

impl SnapshotSource {
    /// A client that answers about the snapshot, connected or loaded.
    pub(crate) async fn client(&self) -> Result<Client> {
        Ok(self.open().await?.0)
    }

    /// The same, and where the files were saved from, if they say so.
    pub(crate) async fn open(&self) -> Result<(Client, Option<SavedOrigin>)> {
        if self.load.is_empty() {
            anyhow::ensure!(
                self.defaults.argument().is_none(),
                "--default-constraints needs --load here; for a server's snapshot give them to \
                 `evenkeel load`"
            );
            return Ok((self.server.client().await?, None));
        }
        let input = Input::read(&self.load, self.defaults.argument())?;
        input.warn(true);
        let client = Client::in_process(Some(self.server.timeout), self.node_names());
        let saved = input.objects.saved.clone();
        input::send(&client, input, &self.name.snapshot, true).await?;
        Ok((client, saved))
    }

    /// The same, of another snapshot if one is named.
    pub(crate) fn named(mut self, name: Option<String>) -> Self {
        if let Some(name) = name {
            self.name.snapshot = name;
        }
        self
    }

    /// Whether files are decided on, in this process.
    pub(crate) fn is_loaded(&self) -> bool {
        !self.load.is_empty()
    }

    /// Which names nodes may have where this process decides.
    pub(crate) fn node_names(&self) -> NodeNames {
        self.node_names.node_names
    }

    /// Name of the snapshot.
    pub(crate) fn snapshot(&self) -> &str {
        &self.name.snapshot
    }

    /// Where an answer is from, if it is asked for now.
    pub(crate) fn origin(&self) -> Origin<'_> {
        let files = self.load.iter().map(|path| path.display().to_string());
        let files: Vec<String> = files.collect();
        Origin {
            snapshot: self.snapshot(),
            asked: match self.is_loaded() {
                true => format!("files {}", files.join(", ")),
                false => format!("server {}", self.server.endpoint.address()),
            },
            at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        }
    }

    /// Whether standard input is one of the files.
    pub(crate) fn reads_standard_input(&self) -> bool {
        self.load.iter().any(|path| path.as_os_str() == "-")
    }
}

/// The name of a snapshot as an argument without a flag, in a parsed command line.
pub(super) const SNAPSHOT_ARGUMENT: &str = "name of the snapshot";

/// Refuses what says the same thing twice, differently: a snapshot with and
/// without its flag, and beside `--load` the flags that say where a server is and
/// how to connect. Whoever gives both believes that the one counts that does
/// not. What the environment says is for all commands, and the command line wins
/// over it.
pub(super) fn check_source(command: &mut Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    let mut inner = matches;
    while let Some((_, matches)) = inner.subcommand() {
        inner = matches;
    }
    let given = |id: &str| {
        inner.ids().any(|it| it == id) && inner.value_source(id) == Some(ValueSource::CommandLine)
    };
    if given(SNAPSHOT_ARGUMENT) && given("snapshot") {
        let message = "the snapshot is named twice: by --snapshot and without";
        return Err(command.error(ErrorKind::ArgumentConflict, message));
    }
    // `serve` loads files, and has no server to ask.
    let asks = inner.ids().any(|id| id == Endpoint::ADDRESS);
    if !asks || !given("load") {
        return Ok(());
    }
    let of_server = Endpoint::augment_args(Command::new(""));
    let beside = of_server
        .get_arguments()
        .find(|arg| given(arg.get_id().as_str()));
    match beside.and_then(clap::Arg::get_long) {
        None => Ok(()),
        Some(flag) => Err(command.error(
            ErrorKind::ArgumentConflict,
            format!("--{flag} with --load: on files it is decided here, and no server is asked"),
        )),
    }
}

/// How to write the answer.
#[derive(Debug, Clone, Args)]
pub(crate) struct OutputFlag {
    /// How to write the answer
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = AnswerFormat::Table)]
    pub(crate) output: AnswerFormat,
}

impl OutputFlag {
    /// Writes `answer` to standard output; `table` and `names` write it their
    /// way.
    pub(crate) fn print<T: Serialize + DeserializeOwned>(
        &self,
        answer: &T,
        table: impl FnOnce(&T) -> String,
        names: impl FnOnce(&T) -> Vec<String>,
    ) -> Result<()> {
        output::print(&self.output.render(answer, table, names)?)
    }
}
