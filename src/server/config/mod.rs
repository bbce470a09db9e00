//! The settings of `evenkeel serve`: one definition each, for the flag, the
//! environment variable and the key of the TOML file.

mod file;
pub(super) mod limits;
mod replication;
mod settings;
pub(super) mod telemetry;

pub use file::{SettingsFileError, apply_file};
pub use limits::RuleSettings;
pub use replication::{ReplicationSettings, SharedLog};
pub use settings::{
    ClientAuth, Config, Conflict, DrainSettings, FixedSettings, SecuritySettings, StateSettings,
};
pub use telemetry::{LogFormat, TraceSettings};

/// Exit code for bad configuration: `EX_USAGE` of sysexits.h.
pub const BAD_CONFIGURATION: u8 = 64;
