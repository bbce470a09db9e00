//! The condition of a snapshot's log, which says whether it can be followed.

use evenkeel_core::snapshot::JournalError;

/// The condition of a log, which says if it can be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The log can be followed.
    Following,
    /// The log does not keep the next record any more.
    Behind,
    /// The log ends with this sequence, before what was read of it.
    Ahead(u64),
    /// The log is gone, and no record has closed it. The snapshot answers from what was read until
    /// there is a log again.
    Gone,
    /// The log does not continue what was read, or the records that were read do not fit: the
    /// snapshot answers nothing before it was read anew.
    Quarantined(String),
    /// A later version has written to the log. Holds the sign of that.
    Later(String),
}

impl Condition {
    /// Checks that the log can be followed.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub fn check(&self) -> Result<(), JournalError> {
        match self {
            Self::Following => Ok(()),
            _ => Err(self.refusal()),
        }
    }

    /// Returns the error for callers that want to change the snapshot.
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

    /// Returns the fault, in words for people.
    pub fn trouble(&self) -> Option<String> {
        match self {
            Self::Following => None,
            // A leader that was cut off also reports an older end, for some seconds.
            Self::Ahead(_) => None,
            Self::Behind => Some("what comes next is no longer in the log".to_owned()),
            Self::Gone => Some("the log is gone: somebody has deleted it".to_owned()),
            Self::Quarantined(why) => Some(why.clone()),
            Self::Later(why) => Some(format!("{why}: a later version has written to the log")),
        }
    }
}
