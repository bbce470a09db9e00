//! Whether the log of a snapshot can be followed.

use crate::snapshot::JournalError;

/// The condition of a log, which says if it can be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// It can.
    Following,
    /// The next record is not kept any more.
    Behind,
    /// The log ends with this sequence, before what was read of it.
    Ahead(u64),
    /// There is no log any more, and nobody has closed it. What was read of it answers
    /// until there is one again.
    Gone,
    /// The log does not continue what was read, or the records that were read do not fit: nothing
    /// is answered before it was read anew.
    Quarantined(String),
    /// A later version has written to it: why that is seen.
    Later(String),
}

impl Condition {
    /// That the log can be followed.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn check(&self) -> Result<(), JournalError> {
        match self {
            Self::Following => Ok(()),
            _ => Err(self.refusal()),
        }
    }

    /// Returns what those are told who want to change the snapshot.
    pub fn refusal(&self) -> JournalError {
        let trouble = self.told();
        match self {
            Self::Quarantined(_) => JournalError::Untrusted(trouble),
            _ => JournalError::Unreachable(trouble),
        }
    }

    /// Returns the reason why the log is not followed.
    pub fn told(&self) -> String {
        match self {
            Self::Ahead(last) => format!("it is said to end at {last}, before what was read"),
            _ => self.trouble().unwrap_or_default(),
        }
    }

    /// Returns what is wrong, for people.
    pub fn trouble(&self) -> Option<String> {
        match self {
            Self::Following => None,
            // A leader that was cut off says so too, for some seconds.
            Self::Ahead(_) => None,
            Self::Behind => Some("what comes next is no longer in the log".to_owned()),
            Self::Gone => Some("the log is gone: somebody has deleted it".to_owned()),
            Self::Quarantined(why) => Some(why.clone()),
            Self::Later(why) => Some(format!("{why}: a later version has written to the log")),
        }
    }
}
