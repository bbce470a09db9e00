//! The error that a limit is exceeded.

use std::fmt;

use super::table::{Limit, Limits, Row};

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
