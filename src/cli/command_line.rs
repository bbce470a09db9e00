//! Parses the command line, with the settings file that it names. Environment variables whose names are
//! misspelt are refused: a setting that is not read must not look as if it held.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command};

use super::contexts::VARIABLES;
use super::plugin;
use super::source::check_source;
use crate::manifest::ObjectName;
use crate::misspelt;
use crate::server::config::{BAD_CONFIGURATION, LogFormat, SettingsFileError, apply_file};
use crate::server::logging;

const SERVE: &str = "serve";

/// The reason why a command line was refused, or a request for help or the version.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// The settings file is bad.
    #[error("{error}")]
    File {
        /// The fault.
        error: SettingsFileError,
        /// The log format that the server would use.
        format: LogFormat,
    },
    /// A setting of `serve` is bad.
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
            Self::File { format, .. } | Self::Serve { format, .. } => {
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
    let program = args.first().cloned().unwrap_or_default();
    let program = program.as_os_str();
    let mut command = plugin::named(C::command(), program);
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
        command = apply_file(command, name, path).map_err(|error| ParseError::File {
            error,
            format: log_format(&before, &args),
        })?;
    }
    // A used command must not be changed, so this copy stays unused.
    let unused = command.clone();
    command
        .try_get_matches_from_mut(&args)
        .and_then(|matches| match plugin::means_cluster(program, &matches) {
            false => Ok(matches),
            true => {
                command = plugin::asking_cluster(unused);
                command.try_get_matches_from_mut(&args)
            }
        })
        .and_then(|matches| {
            check_source(&mut command, &matches)?;
            C::from_arg_matches(&matches)
        })
        .map_err(|error| with_slash(&args, error))
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

/// Adds a tip to an error about an object that was named in two words, which kubectl accepts: the
/// one word to write.
fn with_slash(args: &[OsString], mut error: clap::Error) -> clap::Error {
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(name))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    else {
        return error;
    };
    let place = args.iter().position(|arg| arg == name.as_str());
    let before = place.and_then(|place| args.get(place.checked_sub(1)?)?.to_str());
    if let Some(kind) = before.filter(|before| ObjectName::is_kind(before)) {
        let tip = StyledStr::from(format!("name it as one word: {kind}/{name}"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
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
pub(super) fn check_variables(command: &Command) -> Result<(), String> {
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
