//! The addresses of the nats-servers of a fleet, and the errors of connecting to them.

use std::path::PathBuf;

use super::version::TooOld;
use crate::log::Error;
use crate::visible;

/// The addresses of the nats-servers, and the credentials to connect with.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Addresses: `nats://host:port`, or `tls://host:port` for TLS. One server that can be reached
    /// is enough: it names the others.
    pub servers: Vec<String>,
    /// A credentials file of NATS, or a file with the seed of an nkey.
    pub credentials: Option<PathBuf>,
    /// Authorities of the servers' certificates, in PEM; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// The certificate to present and its key, in PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// The reason why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// An address is not valid.
    #[error("{0:?} is no address of a nats-server: {1}")]
    BadAddress(String, String),
    /// A file cannot be read, or its content is wrong.
    #[error("{0}: {1}")]
    BadFile(String, String),
    /// A server is too old.
    #[error(transparent)]
    TooOld(#[from] TooOld),
    /// A server takes only messages that are too small for a record.
    #[error(
        "the nats-server {} takes messages of at most {most} bytes; set its max_payload to {needed} or more",
        visible::brief(server)
    )]
    SmallPayload {
        /// The name of the server.
        server: String,
        /// The bytes of its largest message.
        most: usize,
        /// The bytes that are needed.
        needed: usize,
    },
    /// A server does not speak TLS, which its address asks for.
    #[error("{0} speaks no TLS: use nats:// for it, or give that nats-server a certificate")]
    PlainPort(String),
    /// A server runs without JetStream, or has turned it off for now: its disk may be full.
    #[error("the nats-server {} runs without JetStream", visible::brief(.0))]
    NoJetStream(String),
    /// The servers refuse the credentials.
    #[error("the nats-servers refuse the credentials: {}", visible::brief(.0))]
    Refused(String),
    /// A stream of the fleet cannot be used as it is.
    #[error("{}", visible::brief(.0))]
    BadStream(String),
    /// Nothing is kept for a fleet that may not be made.
    #[error("no fleet {fleet} is kept on these nats-servers{}", known(others))]
    NoFleet {
        /// The name of the fleet.
        fleet: String,
        /// The names of the fleets that are kept there.
        others: String,
    },
    /// No server can be reached, or not yet.
    #[error("no nats-server can be reached: {}", visible::brief(.0))]
    Unreachable(String),
}

fn known(others: &str) -> String {
    match others.is_empty() {
        true => String::new(),
        false => format!("; there is {}", visible::brief(others)),
    }
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
