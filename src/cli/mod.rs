//! The commands of the command line. Each has its own file. All send their requests through
//! `backend`, to a server or to a service in this process.
//!
//! `args` has the flags that commands share, `source` the source of a question (a server, files or
//! a cluster), and `exit` the exit codes. `render` writes answers as text and pages. Commands show
//! messages only through `output`.

mod about;
mod args;
mod backend;
mod carry_out;
mod cluster;
mod command_line;
mod completions;
mod decide;
mod endpoint;
mod exit;
mod healthcheck;
mod input;
mod lint;
mod log;
mod nodes;
mod output;
mod pending;
mod place;
mod rebalance;
mod render;
mod replay;
mod reservations;
mod scale_down;
mod serve;
mod snapshots;
mod source;
mod spread;
mod stored;
mod token;
mod what_if;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

pub use command_line::{ParseError, parse};

use crate::server::Config;
use exit::{report, wait_for};

/// The command line of `evenkeel`.
#[derive(Debug, Parser)]
#[command(
    name = "evenkeel",
    version,
    about = "Decides where pods may and should run so that they stay evenly spread",
    long_about = "\
Decides where pods may and should run so that they stay evenly spread, by the rules of
kube-scheduler's PodTopologySpread. It asks a server over gRPC, or decides here from files.",
    after_help = concat!("\
Start here:
  kubectl get ", args::dumped_kinds!(), " \\
    -A -o json > cluster.json
  evenkeel filter -f pod.yaml --load cluster.json        decide here, no server needed
  evenkeel serve --load cluster.json                     or start a server
  evenkeel filter -f pod.yaml                            and ask it

Exit codes:
  0  done; of filter, explain and score: at least one node is feasible
  1  no node is feasible; place: some found no node; reservation: some had ended;
     healthcheck: not serving; verify: counts differ; spread, report, scale-down: a hard constraint
     is violated; nodes: a node cannot be emptied, none is spare, or pods fit on none;
     replay: a decision differs; lint: something was found; log: it is damaged
  2  the request or its input was refused; the snapshot did not reach --min-revision in time
  3  the server could not be reached, or did not answer in time

Colours: only on a terminal; NO_COLOR, CLICOLOR and CLICOLOR_FORCE are respected.
Lines and tables are as wide as the terminal, or as COLUMNS says; elsewhere nothing is wrapped."),
    max_term_width = 100
)]
pub struct Cli {
    #[command(flatten)]
    color: colorchoice_clap::Color,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server
    Serve(Box<serve::Serve>),
    /// Load files into a snapshot of a server
    Load(input::LoadCommand),
    /// Keep a snapshot of a server equal to a Kubernetes cluster
    Feed(serve::FeedCluster),
    /// List the nodes that a pod may run on, and why it may not run on the others
    Filter(decide::FilterCommand),
    /// Rank the nodes for a pod
    Score(decide::ScoreCommand),
    /// Explain a decision, and what would change it
    Explain(decide::ExplainCommand),
    /// Check the spread constraints of manifests
    Lint(Box<lint::LintCommand>),
    /// Place many replicas, each pick counting for the next
    Place(Box<place::PlaceCommand>),
    /// List, confirm, renew and release reservations
    #[command(subcommand)]
    Reservation(reservations::ReservationCommand),
    /// Show how evenly workloads are spread now, and which violate their constraints
    Spread(Box<spread::SpreadCommand>),
    /// Say which pods of a workload should go, so that the others are spread best
    ScaleDown(Box<scale_down::ScaleDownCommand>),
    /// Say which pods to move so that constraints hold, with the fewest moves
    Rebalance(Box<rebalance::RebalanceCommand>),
    /// Say how many nodes must come and where, or which may go
    #[command(subcommand)]
    Nodes(nodes::NodesCommand),
    /// Report on a whole cluster: constraints, violations and risks
    Report(spread::ReportCommand),
    /// List, describe, save and delete snapshots
    #[command(subcommand)]
    Snapshot(snapshots::SnapshotCommand),
    /// Let a server recount a snapshot and compare it with the counts it keeps
    Verify(snapshots::VerifySnapshot),
    /// Ask a server whether it is serving
    Healthcheck(healthcheck::Healthcheck),
    /// Make a bearer token and its access rule
    Token(token::MakeToken),
    /// Look after the logs that servers share, and repeat decisions
    #[command(subcommand)]
    Admin(AdminCommand),
    /// Write a completion script for a shell
    Completions(completions::Completions),
    /// Write manual pages
    Man(completions::Man),
}

/// The commands for people who run servers or measure them.
#[derive(Debug, Subcommand)]
enum AdminCommand {
    /// Show and trim the logs that servers share
    #[command(subcommand)]
    Log(log::LogCommand),
    /// Repeat the decisions of a decision log, and show what differs
    Replay(Box<replay::ReplayCommand>),
}

/// Completes a command line, if kubectl or a shell called the program for that. Then returns the
/// exit code.
pub fn complete(args: &[OsString]) -> Option<ExitCode> {
    match completions::complete(Cli::command, args) {
        Ok(false) => {}
        Ok(true) => return Some(ExitCode::SUCCESS),
        // The error is not written, because a shell does not show errors of completion.
        Err(_) => return Some(ExitCode::FAILURE),
    }
    let completed = command_line::complete_for_kubectl(Cli::command(), args)?;
    Some(completed.unwrap_or_else(|error| {
        output::fail(&error);
        ExitCode::FAILURE
    }))
}

impl Cli {
    /// Returns the settings of the server, if the command runs one.
    pub fn server_config(&mut self) -> Option<&mut Config> {
        match &mut self.command {
            Command::Serve(serve) => Some(&mut serve.config),
            _ => None,
        }
    }

    /// Runs the command and returns the exit code. Faults are reported on standard error.
    pub fn run(self) -> ExitCode {
        self.color.write_global();
        render::look_up_width();
        let done = match self.command {
            Command::Serve(serve) => return serve.run(),
            Command::Load(load) => wait_for(load.run()),
            Command::Feed(feed) => wait_for(feed.run()),
            Command::Filter(filter) => wait_for(filter.run()),
            Command::Score(score) => wait_for(score.run()),
            Command::Explain(explain) => wait_for(explain.run()),
            Command::Lint(lint) => wait_for(lint.run()),
            Command::Place(place) => wait_for(place.run()),
            Command::Reservation(reservation) => wait_for(reservation.run()),
            Command::Rebalance(rebalance) => wait_for(carry_out::run(*rebalance)),
            Command::Nodes(nodes) => wait_for(nodes.run()),
            Command::Report(report) => wait_for(report.run()),
            Command::ScaleDown(scale_down) => wait_for(scale_down.run()),
            Command::Spread(spread) => wait_for(spread.run()),
            Command::Snapshot(snapshot) => wait_for(snapshot.run()),
            Command::Verify(verify) => wait_for(verify.run()),
            Command::Healthcheck(healthcheck) => wait_for(healthcheck.run()),
            Command::Token(token) => token.run(),
            Command::Admin(AdminCommand::Log(log)) => wait_for(log.run()),
            Command::Admin(AdminCommand::Replay(replay)) => wait_for(replay.run()),
            Command::Completions(completions) => completions.run(),
            Command::Man(man) => man.run(Self::command()),
        };
        done.unwrap_or_else(|error| report(&error)).into()
    }
}
