//! The origin of the history of a snapshot.

use std::time::SystemTime;

use uuid::Uuid;

/// The identity of the history of a snapshot.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The epoch.
    pub epoch: String,
    /// The time when it began.
    pub created: SystemTime,
}

impl Origin {
    /// The origin of a history that begins at this time.
    pub fn at(created: SystemTime) -> Self {
        Self {
            epoch: Uuid::new_v4().to_string(),
            created,
        }
    }
}
