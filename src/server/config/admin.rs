//! The admin port: metrics, probes over HTTP, and what helps to debug.

use std::net::SocketAddr;

use super::values::count;

/// The admin port.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Operation")]
pub struct AdminSettings {
    /// Address and port to serve metrics and probes on over HTTP; port 0
    /// takes a free one. Off by default.
    ///
    /// It answers /metrics, /livez, /readyz, /debug/snapshot and
    /// /debug/log-level on its own thread, in plain HTTP and without
    /// authentication. It shows names and sizes of snapshots, never their
    /// contents. Only callers on this machine can change anything. The bound
    /// address is logged as "admin listening".
    #[arg(long, env = "EVENKEEL_ADMIN_LISTEN", value_name = "ADDRESS")]
    pub admin_listen: Option<SocketAddr>,

    /// Snapshots with their own label in the metrics.
    ///
    /// Those of --expect-snapshot come first, then the largest. The others
    /// share the label "(others)".
    #[arg(
        long,
        env = "EVENKEEL_METRICS_SNAPSHOTS",
        value_name = "COUNT",
        default_value_t = 50,
        value_parser = count
    )]
    pub metrics_snapshots: usize,
}
