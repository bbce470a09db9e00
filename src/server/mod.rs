//! `evenkeel serve`: the settings, the port, telemetry, and the lifecycle from
//! start to drain. It knows nothing of decisions.
//!
//! Data flows one way: `lifecycle` starts and stops the parts, `transport`
//! takes calls, `telemetry` counts and shows, `config` has the settings. Each
//! uses only those after it.

pub mod config;
mod lifecycle;
mod telemetry;
mod transport;

use std::error::Error as StdError;
use std::io;
use std::net::SocketAddr;

pub use config::{Config, ReplicationSettings};
pub use lifecycle::fleet::Started;
pub use lifecycle::serve::{run, serve};
pub use lifecycle::upkeep::end_reservations;
pub use telemetry::logging;

/// Any error of a caller.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// The reason why the server ended other than by a completed drain.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is taken, not this machine's, or not allowed.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The configured address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The state directory, the log that the server shares with others, certificates or rules cannot
    /// be used.
    #[error("{0}")]
    Unusable(BoxError),
    /// The files to load could not be loaded.
    #[error("cannot load: {0}")]
    Preload(BoxError),
    /// The runtime's threads could not be started.
    #[error("cannot start threads: {0}")]
    Runtime(io::Error),
    /// Handlers for signals could not be installed.
    #[error("cannot receive signals: {0}")]
    Signals(io::Error),
    /// The services could not be set up, or the listener ended by itself.
    #[error("cannot serve: {0}")]
    Serve(BoxError),
    /// A second signal arrived while the server was draining.
    #[error("stopped by a second signal while draining")]
    Interrupted(Signal),
}

impl Error {
    /// The error that the server cannot serve, for this cause.
    pub(super) fn serve(cause: impl Into<BoxError>) -> Self {
        Self::Serve(cause.into())
    }

    /// The process's exit code: 143 or 130 for a second signal (SIGTERM or
    /// Ctrl-C), 1 for everything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Interrupted(signal) => signal.exit_code(),
            _ => 1,
        }
    }
}

/// A signal that asks the server to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT, which Ctrl-C sends.
    Interrupt,
    /// SIGTERM, which service managers send.
    Terminate,
}

impl Signal {
    /// The exit code that shells report for a process that the signal ended: 128 and the signal's
    /// number.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}
