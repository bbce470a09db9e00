//! Where the server keeps its state.

use std::path::PathBuf;

use crate::store::Durability;

/// What survives a restart.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "State")]
pub struct StateSettings {
    /// Directory for the state. Without one the state is only in memory.
    ///
    /// The server creates it if necessary, and reads the state before it
    /// serves. A directory belongs to one server at a time. If it is damaged
    /// or holds other files, the server refuses it and exits with 1. With --log
    /// it shortens the start: the log keeps the state.
    #[arg(long, env = "EVENKEEL_STATE_DIR", value_name = "DIRECTORY")]
    pub state_dir: Option<PathBuf>,

    /// What an acknowledged update survives, with --state-dir.
    ///
    /// none: a stop of the server; a killed process may lose the last second.
    /// relaxed: also a killed process, but no power cut. full: also a power
    /// cut, because an update is on the disk before it is acknowledged.
    #[arg(
        long,
        env = "EVENKEEL_DURABILITY",
        value_name = "LEVEL",
        value_enum,
        default_value_t = Durability::Relaxed
    )]
    pub durability: Durability,
}
