//! Environment variables whose names are misspelt: a setting that is not read must not look as if
//! it held.

use std::collections::BTreeSet;

use clap::Command;

use super::contexts::VARIABLES;
use crate::misspelt;

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
