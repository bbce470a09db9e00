//! The flags of the table of limits.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use tokio::sync::Semaphore;

use super::memory;
use super::values::positive_duration;
use crate::limits::{Limit, Limits, NodeNames, Row, Unit};
use crate::misspelt;

/// Limits that are no numbers.
#[derive(clap::Args)]
#[command(next_help_heading = "Limits")]
struct Others {
    /// How long a reservation may be held.
    #[arg(
        long,
        env = "EVENKEEL_MAX_RESERVATION_TTL",
        value_name = "DURATION",
        default_value = "1h",
        value_parser = positive_duration
    )]
    max_reservation_ttl: Duration,

    #[command(flatten)]
    rules: RuleSettings,
}

/// Rules that no snapshot has: settings of servers, and of commands that decide by
/// themselves.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct RuleSettings {
    /// Names that nodes may have: dns, as in Kubernetes, or any.
    ///
    /// With "any" it is 1 to 253 bytes without control characters and "/", such
    /// as host_01. What is stored already stays, whatever this says.
    #[arg(
        long,
        env = "EVENKEEL_NODE_NAMES",
        value_name = "WHICH",
        default_value = "dns",
        value_parser = PossibleValuesParser::new(NodeNames::NAMES)
            .map(|name| NodeNames::parse(&name).unwrap_or_default())
    )]
    node_names: NodeNames,

    /// Have tolerations with the operators Gt and Lt compare numbers.
    ///
    /// Without it they tolerate nothing, as in Kubernetes without the feature gate
    /// TaintTolerationComparisonOperators, which is off by default.
    #[arg(long, env = "EVENKEEL_TOLERATION_COMPARISONS")]
    toleration_comparisons: bool,
}

impl RuleSettings {
    /// Returns the limits with these rules.
    pub fn with(self, limits: Limits) -> Limits {
        Limits {
            node_names: self.node_names,
            toleration_comparisons: self.toleration_comparisons,
            ..limits
        }
    }
}

impl Args for Limits {
    fn augment_args(command: Command) -> Command {
        Others::augment_args(command.arg(limit_flag()).args(settable().map(flag)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Limits {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let others = Others::from_arg_matches(matches)?;
        let mut limits = others.rules.with(Self {
            max_reservation_ttl: others.max_reservation_ttl,
            max_memory_bytes: memory::usual_limit(),
            ..Self::default()
        });
        let unexpected = |error| clap::Error::raw(ErrorKind::InvalidValue, error);
        for limit in settable() {
            let value = matches.try_get_one::<usize>(limit.row().key);
            if let Some(value) = value.map_err(unexpected)? {
                limits.set(limit, *value);
            }
        }
        let named = matches.try_get_many::<(Limit, usize)>(LIMIT);
        for (limit, value) in named.map_err(unexpected)?.into_iter().flatten() {
            limits.set(*limit, *value);
        }
        Ok(limits)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The flag that sets any limit by its name.
const LIMIT: &str = "limit";

/// Returns the limits that can be set.
fn settable() -> impl Iterator<Item = Limit> {
    let all = Limit::ALL.iter().copied();
    all.filter(|limit| limit.row().settable)
}

/// Returns [`LIMIT`], whose long help lists all limits.
fn limit_flag() -> Arg {
    let lines = settable().map(|limit| {
        let row = limit.row();
        let default = row.default.map(|default| format!(" ({default})"));
        let default = default.unwrap_or_default();
        format!("- {}{default}: {}", row.name, summary(row.help))
    });
    let lines: Vec<_> = lines.collect();
    let about = "Set a limit by its name, such as max-nodes=5000; repeatable";
    Arg::new(LIMIT)
        .long(LIMIT)
        .value_name("NAME=VALUE")
        .action(ArgAction::Append)
        .help_heading("Limits")
        .value_parser(parse_named)
        .help(about)
        .long_help(format!(
            "{about}. Each also has a key in the settings file, such as max_nodes, and a \
             variable, such as EVENKEEL_MAX_NODES. The limits and their defaults:\n{}",
            lines.join("\n")
        ))
}

fn parse_named(text: &str) -> Result<(Limit, usize), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("expected NAME=VALUE, such as max-nodes=5000")?;
    let limit = settable()
        .find(|limit| limit.row().name == name)
        .ok_or_else(|| {
            let hint = misspelt::hint(name, settable().map(|limit| limit.row().name));
            format!("no limit is called {name}{hint}")
        })?;
    Ok((limit, parse(limit.row(), value)?))
}

/// Returns the flag of a limit, whose name is the key in the settings file. Help lists
/// it with [`LIMIT`].
fn flag(limit: Limit) -> Arg {
    let row = limit.row();
    let value_name = match row.unit {
        Unit::Count => "COUNT",
        Unit::Bytes => "BYTES",
    };
    Arg::new(row.key)
        .long(row.name)
        .env(format!("EVENKEEL_{}", row.key.to_uppercase()))
        .hide(true)
        .value_name(value_name)
        .value_parser(move |text: &str| parse(row, text))
        .default_values(row.default.map(|default| default.to_string()))
}

/// Returns the first paragraph of a help text, on one line.
fn summary(help: &str) -> String {
    let first = help.split("\n\n").next().unwrap_or_default();
    let lines: Vec<&str> = first.lines().map(str::trim).collect();
    lines.join(" ").trim_end_matches('.').to_owned()
}

/// A value that a limit may have.
fn parse(row: &Row, text: &str) -> Result<usize, String> {
    // A semaphore can count no further.
    let most = row.most.min(Semaphore::MAX_PERMITS);
    match text.parse() {
        Ok(value) if (row.least..=most).contains(&value) => return Ok(value),
        _ => {}
    }
    let of = match (row.unit, row.most) {
        (_, usize::MAX) => return Err(format!("expected a whole number from {}", row.least)),
        (Unit::Count, _) => "",
        (Unit::Bytes, _) => " of bytes",
    };
    let Row { least, most, .. } = row;
    Err(format!(
        "expected a whole number{of} from {least} to {most}"
    ))
}
