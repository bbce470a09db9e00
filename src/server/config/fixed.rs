//! Settings that are the same for every server, with the reason for each value.

use std::time::Duration;

/// Settings that have no flag: no cluster and no machine needs other values. A program that embeds
/// the server may set others.
#[derive(Debug, Clone)]
pub struct FixedSettings {
    /// The time that a request may take to arrive. For a stream: its first message, and then each
    /// message from its first byte to its last. A reflection stream that is silent for so long is
    /// ended; a feed may be silent.
    ///
    /// A message of 64 MiB arrives in it at 18 Mbit/s.
    pub receive_timeout: Duration,
    /// The time for which a client may read on in none of its answers. After that its connection is
    /// closed, because HTTP/2 has no milder way to take an answer back. At the latest it reads on
    /// when it has read 256 KiB of an answer.
    ///
    /// A client that stops for garbage collection or in a debugger reads on within it.
    pub send_timeout: Duration,
    /// The time that a client may take for the TLS handshake, and again for the HTTP/2 preface.
    ///
    /// Each is two round trips.
    pub handshake_timeout: Duration,
    /// The time for which a connection is silent before it is pinged.
    ///
    /// Load balancers drop connections that are idle for a minute or more.
    pub keepalive_interval: Duration,
    /// The time that a client may take to answer a ping before its connection is closed.
    pub keepalive_timeout: Duration,
    /// The time after which views that were not used are dropped, because every change of their
    /// pods and nodes has to update them.
    ///
    /// Workloads that are deployed now and then find theirs again.
    pub view_idle: Duration,
    /// The time between two checks for changes of certificates, keys and access rules.
    ///
    /// A check reads some small files.
    pub reload_interval: Duration,
    /// The number of snapshots with their own label in the metrics: the expected ones, then the
    /// largest. The others share the label "(others)".
    ///
    /// A scrape of so many has some 1,500 lines.
    pub metrics_snapshots: usize,
    /// Returns the bytes that the allocator of the process has given out. Without it only the limits
    /// by number hold.
    ///
    /// The program sets it, because it chooses the allocator.
    pub memory_in_use: Option<fn() -> usize>,
    /// The size of a file of the decision log at which a new one begins.
    ///
    /// Editors and `grep` read such a file.
    pub decision_log_bytes: usize,
    /// The number of files of the decision log that are kept, with the current one.
    ///
    /// Together they take half a gigabyte.
    pub decision_log_files: usize,
}

impl Default for FixedSettings {
    fn default() -> Self {
        Self {
            receive_timeout: Duration::from_secs(30),
            send_timeout: Duration::from_secs(60),
            handshake_timeout: Duration::from_secs(10),
            keepalive_interval: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(20),
            view_idle: Duration::from_secs(600),
            reload_interval: Duration::from_secs(5),
            metrics_snapshots: 50,
            memory_in_use: None,
            decision_log_bytes: 100 << 20,
            decision_log_files: 5,
        }
    }
}
