//! The flags of the table of limits.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use tokio::sync::Semaphore;

use super::memory;
use super::values::positive_duration;
use crate::limits::{Heading, Limit, Limits, NodeNames, Row, Unit};

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
    /// Limits with these rules.
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
        let flags = Limit::ALL.iter().filter_map(|limit| flag(*limit));
        Others::augment_args(command.args(flags))
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
        let with_flag = |limit: &&Limit| limit.row().heading != Heading::None;
        for limit in Limit::ALL.iter().filter(with_flag) {
            let value = matches.try_get_one::<usize>(limit.row().key);
            let value = value.map_err(|error| clap::Error::raw(ErrorKind::InvalidValue, error))?;
            if let Some(value) = value {
                limits.set(*limit, *value);
            }
        }
        Ok(limits)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The flag of a limit, if it has one.
fn flag(limit: Limit) -> Option<Arg> {
    let row = limit.row();
    let heading = match row.heading {
        Heading::Limits => "Limits",
        Heading::Clients => "Clients",
        Heading::None => return None,
    };
    let value_name = match row.unit {
        Unit::Count => "COUNT",
        Unit::Bytes => "BYTES",
    };
    let (summary, help) = paragraphs(row.help);
    let mut flag = Arg::new(row.key)
        .long(row.name)
        .env(format!("EVENKEEL_{}", row.key.to_uppercase()))
        .help_heading(heading)
        .value_name(value_name)
        .value_parser(move |text: &str| parse(row, text))
        .help(summary)
        .default_values(row.default.map(|default| default.to_string()));
    if let Some(help) = help {
        flag = flag.long_help(help);
    }
    Some(flag)
}

/// The summary of a help text, and all of it if there is more; each paragraph
/// on one line.
fn paragraphs(help: &str) -> (String, Option<String>) {
    let on_one_line = |paragraph: &str| {
        let lines: Vec<&str> = paragraph.lines().map(str::trim).collect();
        lines.join(" ").trim().to_owned()
    };
    let all: Vec<String> = help.split("\n\n").map(on_one_line).collect();
    let summary = all[0].trim_end_matches('.').to_owned();
    (summary, (all.len() > 1).then(|| all.join("\n\n")))
}

/// A value that a limit may have.
fn parse(row: &Row, text: &str) -> Result<usize, String> {
    // As many as semaphores can count.
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
