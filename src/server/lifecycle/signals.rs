//! The signals that stop the server.

use std::io;

#[cfg(unix)]
use tokio::signal::unix;

use crate::server::error::Signal;

/// Receives signals from its creation on, so that none is lost while the
/// server starts.
pub struct Signals {
    #[cfg(unix)]
    interrupt: unix::Signal,
    #[cfg(unix)]
    terminate: unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: unix::signal(unix::SignalKind::interrupt())?,
            terminate: unix::signal(unix::SignalKind::terminate())?,
        })
    }

    /// The next signal.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    pub fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    /// The next signal.
    pub async fn next(&mut self) -> Signal {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Signal::Interrupt
    }
}
