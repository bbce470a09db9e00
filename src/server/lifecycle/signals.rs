//! The signals that stop the server, and the one by which it reads its files again.

use std::io;
use std::time::Duration;

#[cfg(unix)]
use tokio::signal::unix;
use tokio::time::Instant;

use crate::server::error::Signal;

/// The time after a signal in which another one is the same request to stop. A terminal sends
/// SIGINT to a wrapper and to the server, and the wrapper passes on its own; service managers
/// repeat SIGTERM.
const SAME_REQUEST: Duration = Duration::from_secs(1);

/// Receives signals from its creation on, so that none is lost while the
/// server starts.
pub struct Signals {
    /// The arrival of the last signal that [`Self::next`] returned.
    last: Option<Instant>,
    #[cfg(unix)]
    interrupt: unix::Signal,
    #[cfg(unix)]
    terminate: unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            last: None,
            interrupt: unix::signal(unix::SignalKind::interrupt())?,
            terminate: unix::signal(unix::SignalKind::terminate())?,
        })
    }

    async fn receive(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
        }
    }
}

impl Signals {
    /// The next request to stop.
    pub async fn next(&mut self) -> Signal {
        loop {
            let signal = self.receive().await;
            let now = Instant::now();
            if self.last.is_none_or(|last| now - last >= SAME_REQUEST) {
                self.last = Some(now);
                return signal;
            }
        }
    }
}

/// Receives SIGHUP from its creation on. Without it, the signal would end the process.
pub struct Hangups {
    #[cfg(unix)]
    hangup: unix::Signal,
}

impl Hangups {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            hangup: unix::signal(unix::SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        #[cfg(unix)]
        self.hangup.recv().await;
        #[cfg(not(unix))]
        std::future::pending::<()>().await;
    }
}

#[cfg(not(unix))]
impl Signals {
    pub fn new() -> io::Result<Self> {
        Ok(Self { last: None })
    }

    async fn receive(&mut self) -> Signal {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Signal::Interrupt
    }
}
