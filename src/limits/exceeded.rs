//! Too much for a limit.

use std::fmt;

use super::{Limit, Row};

/// Too much for a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// Which.
    pub limit: Limit,
    /// Its value.
    pub most: usize,
    /// What there would be, if that is known.
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
