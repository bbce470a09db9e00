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
    /// Answers /metrics, /livez, /readyz, /debug/snapshot and
    /// /debug/log-level from a thread of its own, in plain HTTP and without
    /// authentication: it tells names and sizes of snapshots, never what is in
    /// them, and only callers on this machine may change anything. The address
    /// that was bound is logged as "admin listening".
    #[arg(long, env = "EVENKEEL_ADMIN_LISTEN", value_name = "ADDRESS")]
    pub admin_listen: Option<SocketAddr>,

    /// Snapshots that have a label of their own in the metrics.
    ///
    /// Those named by --expect-snapshot come first, then the largest; the rest
    /// are summed up as "(others)".
    #[arg(
        long,
        env = "EVENKEEL_METRICS_SNAPSHOTS",
        value_name = "COUNT",
        default_value_t = 50,
        value_parser = count
    )]
    pub metrics_snapshots: usize,
}
