//! `evenkeel serve`: the settings, the port, what the server tells of itself,
//! and its life from start to drain. Knows nothing of decisions.
//!
//! Data flows one way: `lifecycle` puts the parts together and ends them,
//! `transport` takes calls, `telemetry` counts and shows, `config` says what
//! is wanted. Each uses those after it.

pub mod config;
mod error;
mod lifecycle;
mod telemetry;
mod transport;

pub use config::Config;
pub use error::{BoxError, Error, Signal};
pub use lifecycle::ends;
pub use lifecycle::run::run;
pub use lifecycle::serve::serve;
pub use telemetry::logging;
