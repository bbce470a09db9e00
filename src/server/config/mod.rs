//! The settings of `evenkeel serve`: one definition each, for the flag, the
//! environment variable and the key of the TOML file.

mod admin;
mod clients;
mod conflict;
mod decision_log;
mod file;
mod limits;
pub(super) mod log;
pub(super) mod memory;
mod replication;
mod security;
mod settings;
mod state;
mod traces;
mod trust;
mod values;
mod views;

pub use admin::AdminSettings;
pub use clients::ClientSettings;
pub use conflict::Conflict;
pub use file::{SettingsFileError, apply_file};
pub use limits::NodeNamesSetting;
pub use log::LogFormat;
pub use replication::{LogConflict, ReplicationSettings, SharedLog};
pub use security::{ClientAuth, SecuritySettings};
pub use settings::{Config, ConnectionSettings, DrainSettings};
pub use state::StateSettings;
pub use traces::TraceSettings;

/// Exit code for bad configuration: `EX_USAGE` of sysexits.h.
pub const BAD_CONFIGURATION: u8 = 64;
