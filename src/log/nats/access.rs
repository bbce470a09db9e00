//! Where the nats-servers of a fleet are, and why there is no connection to them.

use std::path::PathBuf;

use super::version::TooOld;
use crate::log::Error;
use crate::visible;

/// The addresses of the nats-servers, and the proof of who connects.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Addresses: `nats://host:port`, or `tls://host:port` for TLS. One that can be
    /// reached is enough, it tells the others.
    pub servers: Vec<String>,
    /// A credentials file of NATS, or a file with the seed of an nkey.
    pub credentials: Option<PathBuf>,
    /// Authorities of the servers' certificates, in PEM; without it those of
    /// the system.
    pub ca: Option<PathBuf>,
    /// The certificate to present and its key, in PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// The reason why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// An address cannot be right.
    #[error("{0:?} is no address of a nats-server: {1}")]
    BadAddress(String, String),
    /// A file cannot be read, or holds something else.
    #[error("{0}: {1}")]
    BadFile(String, String),
    /// A server is too old.
    #[error(transparent)]
    TooOld(#[from] TooOld),
    /// A server keeps no streams, or not at present: its disk may be full.
    #[error("the nats-server {} runs without JetStream", visible::brief(.0))]
    NoJetStream(String),
    /// The servers know nobody with these credentials.
    #[error("the nats-servers refuse the credentials: {}", visible::brief(.0))]
    Refused(String),
    /// A stream of the fleet is not as needed.
    #[error("{}", visible::brief(.0))]
    BadStream(String),
    /// No server can be reached, or not yet.
    #[error("no nats-server can be reached: {}", visible::brief(.0))]
    Unreachable(String),
}

impl ConnectError {
    /// Returns whether trying again may help.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::NoJetStream(_) | Self::Unreachable(_))
    }
}

impl From<Error> for ConnectError {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(text) | Error::Full(text) => Self::BadStream(text),
            error => Self::Unreachable(error.to_string()),
        }
    }
}
