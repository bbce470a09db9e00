//! Parses the command line, with the settings file that it names. Environment variables whose names are
//! misspelt are refused: a setting that is not read must not look as if it held.
//!
//! The program is a plugin of kubectl, too. Under the name `kubectl-evenkeel` it asks the cluster of the
//! current context. As `kubectl_complete-evenkeel` it completes command lines for kubectl.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command};

use super::endpoint::VARIABLES;
use super::output;
use super::source::check_source;
use crate::misspelt;
use crate::server::config::{BAD_CONFIGURATION, LogFormat, apply_file};
use crate::server::logging;

const SERVE: &str = "serve";

/// The reason why a command line was refused, or a request for help or the version.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// A setting of `serve` is bad, or its settings file.
    #[error("{message}")]
    Serve {
        /// A line that names the setting and its fault.
        message: String,
        /// The log format that the server would use.
        format: LogFormat,
    },
    /// Another command line was refused, or it has `--help` or `--version`.
    #[error(transparent)]
    Usage(#[from] clap::Error),
}

impl ParseError {
    /// Reports to the user on standard error, for `serve` in the server's log format. Help and
    /// version go to standard output. Returns the exit code: 64 for bad configuration, 2 for
    /// another command line that is refused, 0 for help and version.
    pub fn report(&self) -> u8 {
        match self {
            Self::Serve { format, .. } => {
                logging::fatal(*format, self);
                BAD_CONFIGURATION
            }
            Self::Usage(error) => {
                // If writing fails, there is no way to tell the user.
                let _ = error.print();
                u8::from(error.use_stderr()) * 2
            }
        }
    }
}

/// Parses a command line. Its subcommands may have a settings file, by `--config FILE` or
/// `EVENKEEL_CONFIG`.
///
/// `args` starts with the program's name.
pub fn parse<C: clap::Parser>(args: impl IntoIterator<Item = OsString>) -> Result<C, ParseError> {
    let args: Vec<OsString> = args.into_iter().collect();
    let mut command = under_name(C::command(), &args);
    // A first pass finds the settings file, and ignores errors.
    let draft = command.clone().ignore_errors(true);
    let draft = draft.try_get_matches_from(&args).ok();
    let subcommand = draft.as_ref().and_then(ArgMatches::subcommand);
    if let Err(message) = check_variables(&command) {
        return Err(match subcommand {
            Some((SERVE, _)) => ParseError::Serve {
                message,
                format: log_format(&command, &args),
            },
            _ => command.error(ErrorKind::UnknownArgument, message).into(),
        });
    }
    if let Some((name, matches)) = subcommand
        && let Ok(Some(path)) = matches.try_get_one::<PathBuf>("config")
    {
        let before = command.clone();
        command = apply_file(command, name, path).map_err(|error| ParseError::Serve {
            message: error.to_string(),
            format: log_format(&before, &args),
        })?;
    }
    command
        .try_get_matches_from_mut(&args)
        .and_then(|matches| {
            check_source(&mut command, &matches)?;
            C::from_arg_matches(&matches)
        })
        .map_err(|error| match subcommand {
            Some((SERVE, _)) if error.use_stderr() => ParseError::Serve {
                message: one_line(&command, &args, &error),
                format: log_format(&command, &args),
            },
            _ => error.into(),
        })
}

/// Returns the log format of a server with these arguments. Parsing stops at a bad argument, so
/// only the flag of the format is parsed.
fn log_format(command: &Command, args: &[OsString]) -> LogFormat {
    const FLAG: &str = "--log-format";
    let is_flag = |arg: &&OsString| arg.to_str().is_some_and(|arg| arg.starts_with(FLAG));
    let is_of_flag = |pair: &&[OsString]| pair[0] == FLAG || is_flag(&&pair[1]);
    let of_flag = args.windows(2).filter(is_of_flag).map(|pair| &pair[1]);
    let start = [args.first().cloned(), Some(SERVE.into())];
    let own = start.into_iter().flatten().chain(of_flag.cloned());
    let draft = command.clone().ignore_errors(true);
    let draft = draft.try_get_matches_from(own).ok();
    let settings = draft.as_ref().and_then(ArgMatches::subcommand);
    let format = settings.and_then(|(_, settings)| settings.try_get_one("log_format").ok()?);
    format.copied().unwrap_or(LogFormat::Auto)
}

/// clap's message on one line, without usage, and with the environment variable of a bad value.
fn one_line(command: &Command, args: &[OsString], error: &clap::Error) -> String {
    let text = error.render().to_string();
    let message: Vec<&str> = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
        .filter(|line| !line.is_empty())
        .collect();
    let message = message.join("; ");
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    match variable(command, args, error) {
        Some(name) => format!("{name}: {message}"),
        None => message.to_owned(),
    }
}

/// The environment variable that has the bad value of `error`.
fn variable(command: &Command, args: &[OsString], error: &clap::Error) -> Option<String> {
    let ContextValue::String(culprit) = error.get(ContextKind::InvalidArg)? else {
        return None;
    };
    let flag = culprit.split_whitespace().next()?;
    let arg = command
        .find_subcommand("serve")?
        .get_arguments()
        .find(|arg| arg.get_long() == flag.strip_prefix("--"))?;
    let given = args
        .iter()
        .filter_map(|arg| arg.to_str())
        .any(|arg| arg == flag || arg.starts_with(&format!("{flag}=")));
    let name = arg.get_env()?;
    (!given && std::env::var_os(name).is_some()).then(|| name.to_string_lossy().into_owned())
}

/// What the names of all variables begin with.
const PREFIX: &str = "EVENKEEL_";

/// Checks the names of the variables that a command line could read.
///
/// # Errors
/// The first variable that nothing reads, although its name is close to that of one that is read.
fn check_variables(command: &Command) -> Result<(), String> {
    let mut known: BTreeSet<String> = VARIABLES.map(str::to_owned).into();
    gather(command, &mut known);
    let known = || known.iter().filter_map(|name| name.strip_prefix(PREFIX));
    let given: BTreeSet<_> = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| !is_service_link(name))
        .collect();
    for name in given.iter().filter_map(|name| name.strip_prefix(PREFIX)) {
        if let Some(close) = misspelt::did_you_mean(name, known()) {
            return Err(format!(
                "{PREFIX}{name}: no setting has this variable, did you mean {PREFIX}{close}?"
            ));
        }
    }
    Ok(())
}

/// Adds the variables of the flags of a command and its subcommands.
fn gather(command: &Command, known: &mut BTreeSet<String>) {
    let variables = command.get_arguments().filter_map(clap::Arg::get_env);
    known.extend(variables.map(|name| name.to_string_lossy().into_owned()));
    for subcommand in command.get_subcommands() {
        gather(subcommand, known);
    }
}

/// Returns whether Kubernetes gives containers a variable of this name for a service, as
/// EVENKEEL_ADMIN_PORT_9090_TCP_ADDR for a service evenkeel-admin.
fn is_service_link(name: &str) -> bool {
    let is_port = |rest: &str| rest.starts_with(|first: char| first.is_ascii_digit());
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_PORT")
        || name.contains("_SERVICE_PORT")
        || name
            .split_once("_PORT_")
            .is_some_and(|(_, rest)| is_port(rest))
}

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

/// Returns whether a command line begins with this name of the program.
fn is_called(args: &[OsString], name: &str) -> bool {
    let program = args
        .first()
        .and_then(|program| Path::new(program).file_stem());
    program == Some(OsStr::new(name))
}

/// Returns whether a command line is one of the plugin of kubectl.
pub(super) fn is_plugin(args: &[OsString]) -> bool {
    is_called(args, PLUGIN) || is_called(args, COMPLETER)
}

/// Adapts the commands to the name by which the program was called.
fn under_name(command: Command, args: &[OsString]) -> Command {
    if !is_plugin(args) {
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
pub(super) fn complete_for_kubectl(
    command: Command,
    args: &[OsString],
) -> Option<io::Result<ExitCode>> {
    if !is_called(args, COMPLETER) {
        return None;
    }
    let mut command = under_name(command, args);
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
