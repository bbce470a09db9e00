//! Limits on the memory and work that clients can cause.

mod table;

use std::sync::LazyLock;
use std::{fmt, thread};

pub use table::{Limit, Limits, Over, Row, Unit};

/// The error that a limit is exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// The limit.
    pub limit: Limit,
    /// The limit's value.
    pub most: usize,
    /// The count that the request would have led to, if it is known.
    pub actual: Option<usize>,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { name, of, .. } = self.limit.row();
        write!(f, "{of}: ")?;
        if let Some(actual) = self.actual {
            write!(f, "{actual}, ")?;
        }
        write!(f, "over {name} of {}", self.most)
    }
}

impl std::error::Error for Exceeded {}

impl Limits {
    /// Checks that a number is not above a limit.
    ///
    /// # Errors
    /// When the number is larger than the limit.
    pub fn check(&self, limit: Limit, actual: usize) -> Result<(), Exceeded> {
        let most = self.get(limit);
        if actual <= most {
            return Ok(());
        }
        Err(Exceeded {
            limit,
            most,
            actual: Some(actual),
        })
    }
}

/// The rule for names of nodes. It applies to new nodes, and to the nodes that new pods name. Nodes
/// that are already stored stay, and can be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NodeNames {
    /// Names as in Kubernetes: DNS subdomains.
    #[default]
    Dns,
    /// Any text of 1 to 253 bytes without control characters and `/`, such as
    /// `host_01`.
    Any,
}

impl NodeNames {
    /// The names of the two rules in settings.
    pub const NAMES: [&str; 2] = ["dns", "any"];

    /// Returns the rule with this name, or `None` if no rule has it.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "dns" => Some(Self::Dns),
            "any" => Some(Self::Any),
            _ => None,
        }
    }
}

static PROCESSORS: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));

/// Returns the number of processors for this process, at least 1. The number is read only once. It
/// comes from files of the control group, and reading those takes a thousand times as long as the
/// rest of what most callers do.
pub fn processors() -> usize {
    *PROCESSORS
}
