//! The program as a plugin of kubectl. Under the name `kubectl-evenkeel` it asks the cluster of the
//! current context. As `kubectl_complete-evenkeel` it completes command lines for kubectl.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use super::cluster::ClusterArgs;
use super::endpoint::Endpoint;
use super::output;

/// The name under which kubectl finds the plugin: `kubectl evenkeel` runs this program.
const PLUGIN: &str = "kubectl-evenkeel";
/// The name under which kubectl finds the completion of the plugin's command lines.
const COMPLETER: &str = "kubectl_complete-evenkeel";
/// The command that people type.
const TYPED: &str = "kubectl evenkeel";

/// The first commands to try, for the plugin of kubectl.
const START_HERE: &str = "\
Start here:
  kubectl evenkeel explain --pending           why pods wait, worst first
  kubectl evenkeel explain deploy/web          where the next pod of a workload could go
  kubectl evenkeel spread -A                   which workloads violate their constraints
  kubectl evenkeel lint deploy -A              what is wrong with constraints

The cluster is that of the current context, or of --context and --kubeconfig. It is listed, which
needs no more than the permission to list nodes, pods, services and controllers. Nothing is changed
in it, and nothing leaves this process. --server asks a server instead, --load files.";

/// The completion code by which the shell offers no files.
const NO_FILES: u8 = 4;
/// The completion code by which the shell adds no space after the word.
const GOES_ON: u8 = 2;

/// Returns whether the program was called by this name.
fn is_called(program: &OsStr, name: &str) -> bool {
    Path::new(program).file_stem() == Some(OsStr::new(name))
}

/// Adapts the commands to the name by which the program was called.
pub(super) fn named(command: Command, program: &OsStr) -> Command {
    if !is_called(program, PLUGIN) && !is_called(program, COMPLETER) {
        return command;
    }
    let exit_codes = command.get_after_help().map(ToString::to_string);
    let exit_codes = exit_codes.unwrap_or_default();
    let exit_codes = exit_codes.split_once("Exit codes:");
    let exit_codes = exit_codes.map_or("", |(_, codes)| codes);
    let help = format!("{START_HERE}\n\nExit codes:{exit_codes}");
    command
        .bin_name(TYPED)
        .after_help(help)
        .mut_subcommands(with_examples)
}

/// Returns whether a command line selects the current cluster, because the program was called as a
/// plugin and no flag names a source. Lint is left out: it needs a cluster only for names, and
/// selects it itself.
pub(super) fn means_cluster(program: &OsStr, matches: &ArgMatches) -> bool {
    let (mut name, mut inner) = ("", matches);
    while let Some((of, matches)) = inner.subcommand() {
        (name, inner) = (of, matches);
    }
    let has = |id: &str| inner.ids().any(|it| it == id);
    let says = |id: &str| {
        let source = has(id).then(|| inner.value_source(id)).flatten();
        source.is_some_and(|source| source != ValueSource::DefaultValue)
    };
    is_called(program, PLUGIN)
        && name != "lint"
        && has(ClusterArgs::FROM_CLUSTER)
        && !says("load")
        && !says(Endpoint::ADDRESS)
}

/// Lets a command and its subcommands ask the current cluster.
pub(super) fn asking_cluster(mut command: Command) -> Command {
    let is_flag = |arg: &Arg| arg.get_id() == ClusterArgs::FROM_CLUSTER;
    if command.get_arguments().any(is_flag) {
        let asked = |arg: Arg| arg.default_value("true");
        command = command.mut_arg(ClusterArgs::FROM_CLUSTER, asked);
    }
    command.mut_subcommands(asking_cluster)
}

/// Adapts the examples of a command, so that they can be typed.
fn with_examples(command: Command) -> Command {
    let command = match command.get_after_help().map(ToString::to_string) {
        Some(help) => {
            let help = help.replace("\n  evenkeel ", &format!("\n  {TYPED} "));
            command.after_help(help.replace("| evenkeel ", &format!("| {TYPED} ")))
        }
        None => command,
    };
    command.mut_subcommands(with_examples)
}

/// Completes a command line, if the program was called for that; `None` if not. The last word of
/// `args` is completed. The output has kubectl's format: a line for each candidate, then a
/// completion code.
pub(super) fn complete(command: Command, args: &[OsString]) -> Option<io::Result<ExitCode>> {
    let program = args.first().filter(|it| is_called(it, COMPLETER))?;
    let mut command = named(command, program);
    let mut args = args.to_vec();
    if args.len() == 1 {
        args.push(OsString::new());
    }
    let last = args.len() - 1;
    let current = std::env::current_dir().ok();
    let found = clap_complete::engine::complete(&mut command, args, last, current.as_deref());
    Some(found.map(|found| {
        let words = found.iter().filter(|candidate| !candidate.is_hide_set());
        let mut directive = NO_FILES;
        let mut text = String::new();
        for candidate in words {
            let value = candidate.get_value().to_string_lossy();
            let goes_on = value.ends_with('/') || value.ends_with('=');
            directive |= if goes_on { GOES_ON } else { 0 };
            text.push_str(&value);
            if let Some(help) = candidate.get_help() {
                let help = help.to_string();
                let first = help.lines().next().unwrap_or_default();
                text.push_str(&format!("\t{first}"));
            }
            text.push('\n');
        }
        text.push_str(&format!(":{directive}\n"));
        match output::print_bytes(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        }
    }))
}
