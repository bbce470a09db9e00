//! Where the history of a snapshot begins.

use std::time::SystemTime;

use uuid::Uuid;

/// What identifies the history of a snapshot.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Its epoch.
    pub epoch: String,
    /// When it began.
    pub created: SystemTime,
}

impl Origin {
    /// Of a history that begins then.
    pub fn at(created: SystemTime) -> Self {
        Self {
            epoch: Uuid::new_v4().to_string(),
            created,
        }
    }
}
