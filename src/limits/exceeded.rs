//! Too much for a limit.

use std::fmt;

use super::table::{Limit, Limits, Row};

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

impl Limits {
    /// Checks a number against a limit.
    ///
    /// # Errors
    /// When it is larger.
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
