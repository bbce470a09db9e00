//! Where the server keeps its state.

use std::path::PathBuf;

use crate::store::Durability;

/// What survives a restart.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "State")]
pub struct StateSettings {
    /// Directory that the state is kept in; without one it is in memory only.
    ///
    /// Created if need be, and read back at the start, before the server is
    /// serving. It belongs to one server at a time. One that is damaged or
    /// holds other files is refused, and the server exits with 1.
    #[arg(long, env = "EVENKEEL_STATE_DIR", value_name = "DIRECTORY")]
    pub state_dir: Option<PathBuf>,

    /// What an acknowledged update survives; means something with --state-dir.
    ///
    /// none: a stop of the server; a killed process may lose the last second.
    /// relaxed: a killed process, not a power cut. full: a power cut, because
    /// it is on the disk before it is acknowledged.
    #[arg(
        long,
        env = "EVENKEEL_DURABILITY",
        value_name = "LEVEL",
        value_enum,
        default_value_t = Durability::Relaxed
    )]
    pub durability: Durability,
}
