//! `evenkeel serve`: the settings, the port, telemetry, and the lifecycle from
//! start to drain. It knows nothing of decisions.
//!
//! Data flows one way: `lifecycle` starts and stops the parts, `transport`
//! takes calls, `telemetry` counts and shows, `config` has the settings. Each
//! uses only those after it.

pub mod config;
mod error;
mod lifecycle;
mod telemetry;
mod transport;

pub use config::{Config, ReplicationSettings};
pub use error::{BoxError, Error, Signal};
pub use lifecycle::fleet::Started;
pub use lifecycle::serve::{run, serve};
pub use lifecycle::upkeep::end_reservations;
pub use telemetry::logging;
