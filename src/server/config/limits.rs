//! The flags of the limits that people set, and of rules that apply to all snapshots.

use std::ops::{Deref, DerefMut};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use tokio::sync::Semaphore;

use crate::limits::{Limit, Limits, NodeNames, Row, Unit};

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

/// The flags of the limits, and their values.
#[derive(Debug, Clone)]
pub struct LimitSettings(Limits);

impl Deref for LimitSettings {
    type Target = Limits;

    fn deref(&self) -> &Limits {
        &self.0
    }
}

impl DerefMut for LimitSettings {
    fn deref_mut(&mut self) -> &mut Limits {
        &mut self.0
    }
}

impl Args for LimitSettings {
    fn augment_args(command: Command) -> Command {
        let flags = settable().map(flag);
        RuleSettings::augment_args(command.next_help_heading("Limits").args(flags))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LimitSettings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut limits = RuleSettings::from_arg_matches(matches)?.with(Limits {
            max_memory_bytes: usual_limit(),
            ..Limits::default()
        });
        let unexpected = |error| clap::Error::raw(ErrorKind::InvalidValue, error);
        for limit in settable() {
            let value = matches.try_get_one::<usize>(limit.row().key);
            if let Some(value) = value.map_err(unexpected)? {
                limits.set(limit, *value);
            }
        }
        Ok(Self(limits))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns the limits that people set.
fn settable() -> impl Iterator<Item = Limit> {
    let all = Limit::ALL.iter().copied();
    all.filter(|limit| limit.row().settable)
}

/// Returns the flag of a limit. Its help is that of the table.
fn flag(limit: Limit) -> Arg {
    let row = limit.row();
    let value_name = match row.unit {
        Unit::Count => "COUNT",
        Unit::Bytes => "BYTES",
    };
    let lines: Vec<&str> = row.help.lines().map(str::trim).collect();
    let help = lines.join("\n").trim().to_owned();
    let (summary, _) = help.split_once("\n\n").unwrap_or((&help, ""));
    Arg::new(row.key)
        .long(row.name)
        .help(summary.trim_end_matches('.').to_owned())
        .long_help(help)
        .value_name(value_name)
        .value_parser(move |text: &str| parse(row, text))
        .default_values(row.default.map(|default| default.to_string()))
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

/// The least that the account allows by default, however small the machine.
const FLOOR: usize = 64 << 20;

/// The default limit of the memory that clients can make the server hold: three quarters of the
/// memory. The last quarter is for the waste of allocators, stacks of threads and the program
/// itself. There is no limit if the size of the memory is unknown.
fn usual_limit() -> usize {
    let Some(there_is) = memory_limit().or_else(machine) else {
        return usize::MAX;
    };
    let share = usize::try_from(there_is / 4 * 3).unwrap_or(usize::MAX);
    share.max(FLOOR)
}

/// Returns the memory that the process's control groups allow, of version 2 or 1, if they have a
/// limit.
#[cfg(target_os = "linux")]
pub fn memory_limit() -> Option<u64> {
    use std::path::Path;

    let read = |file: &Path| {
        let text = std::fs::read_to_string(file).ok()?;
        let limit = text.trim().parse::<u64>().ok()?;
        // Version 1 reports a larger value when there is no limit.
        (limit < i64::MAX as u64 / 2).then_some(limit)
    };
    // The limits of the groups above a group bind it, too. In a container the process's group is
    // the root.
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"));
    let root = Path::new("/sys/fs/cgroup");
    let group = root.join(own.unwrap_or_default());
    let groups = group
        .ancestors()
        .take_while(|group| group.starts_with(root));
    let limits = groups.filter_map(|group| read(&group.join("memory.max")));
    limits
        .chain(read(&root.join("memory/memory.limit_in_bytes")))
        .min()
}

/// Returns no limit: control groups are unknown on this system.
#[cfg(not(target_os = "linux"))]
pub fn memory_limit() -> Option<u64> {
    None
}

/// The memory of the machine.
#[cfg(target_os = "linux")]
fn machine() -> Option<u64> {
    use procfs::Current;
    Some(procfs::Meminfo::current().ok()?.mem_total)
}

/// The memory of the machine: unknown on this system.
#[cfg(not(target_os = "linux"))]
fn machine() -> Option<u64> {
    None
}
