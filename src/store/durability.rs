//! What an acknowledged update survives.

/// What an acknowledged update survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "server", derive(clap::ValueEnum))]
pub enum Durability {
    /// A stop of the server. The store writes at least once a second; a killed
    /// process may lose that much.
    None,
    /// A killed process, but not a power cut: the system writes when it sees
    /// fit.
    Relaxed,
    /// A power cut: an update is on the disk before it is acknowledged.
    Full,
}
