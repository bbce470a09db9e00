//! The process, under the names that all Prometheus clients use.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, seconds};

const STARTED: Family = seconds("process_start_time", "When the server started, since 1970");

/// This process, since it started as a server.
#[derive(Debug)]
pub(super) struct ProcessMetrics(pub(super) SystemTime);

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let started = self.0.duration_since(UNIX_EPOCH).unwrap_or_default();
        STARTED.gauge(&mut encoder, started.as_secs_f64())?;
        #[cfg(target_os = "linux")]
        linux::encode(&mut encoder)?;
        Ok(())
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fmt;

    use procfs::WithCurrentSystemInfo;
    use procfs::process::{LimitValue, Process};
    use prometheus_client::encoding::DescriptorEncoder;

    use crate::server::config::memory;
    use crate::server::telemetry::metrics::family::{Family, bytes, plain, seconds};

    const CPU: Family = seconds("process_cpu", "CPU time used, in user and system mode");
    const RESIDENT: Family = bytes("process_resident_memory", "Resident set");
    const VIRTUAL: Family = bytes("process_virtual_memory", "Address space");
    const LIMIT: Family = bytes(
        "process_memory_limit",
        "Memory that the process may use before its container is killed; absent without a limit",
    );
    const FDS: Family = plain("process_open_fds", "File descriptors open now");
    const MAX_FDS: Family = plain("process_max_fds", "File descriptors that may be open");
    const THREADS: Family = plain("process_threads", "Threads of the process");

    /// Writes the figures of `/proc/self`; nothing where it cannot be read.
    pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let read =
            Process::myself().and_then(|own| Ok((own.stat()?, own.fd_count()?, own.limits()?)));
        let Ok((stat, fds, limits)) = read else {
            return Ok(());
        };
        let ticks = (stat.utime + stat.stime) as f64;
        CPU.counter(encoder, ticks / procfs::ticks_per_second() as f64)?;
        RESIDENT.gauge(encoder, stat.rss_bytes().get())?;
        VIRTUAL.gauge(encoder, stat.vsize)?;
        if let Some(limit) = memory::limit() {
            LIMIT.gauge(encoder, limit)?;
        }
        FDS.gauge(encoder, fds)?;
        if let LimitValue::Value(limit) = limits.max_open_files.soft_limit {
            MAX_FDS.gauge(encoder, limit)?;
        }
        THREADS.gauge(encoder, stat.num_threads)
    }
}
