//! The process, under the names that all Prometheus clients use.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, seconds};

const STARTED: Family = seconds("process_start_time", "When the server started, since 1970");

/// This process.
#[derive(Debug)]
pub(super) struct Process {
    started: SystemTime,
}

impl Process {
    /// Of a server that starts now.
    pub(super) fn new() -> Self {
        Self {
            started: SystemTime::now(),
        }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let started = self.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        STARTED.gauge(&mut encoder, started.as_secs_f64())?;
        #[cfg(target_os = "linux")]
        linux::encode(&mut encoder)?;
        Ok(())
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fmt;

    use procfs::process::{self, LimitValue};
    use procfs::{ProcResult, WithCurrentSystemInfo};
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

    struct ProcessReading {
        cpu: f64,
        resident: u64,
        virtual_size: u64,
        threads: i64,
        fds: usize,
        max_fds: Option<u64>,
    }

    fn read() -> ProcResult<ProcessReading> {
        let process = process::Process::myself()?;
        let stat = process.stat()?;
        let ticks = (stat.utime + stat.stime) as f64;
        Ok(ProcessReading {
            cpu: ticks / procfs::ticks_per_second() as f64,
            resident: stat.rss_bytes().get(),
            virtual_size: stat.vsize,
            threads: stat.num_threads,
            fds: process.fd_count()?,
            max_fds: match process.limits()?.max_open_files.soft_limit {
                LimitValue::Value(limit) => Some(limit),
                LimitValue::Unlimited => None,
            },
        })
    }

    /// Writes what `/proc/self` says; nothing where it cannot be read.
    pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Ok(reading) = read() else { return Ok(()) };
        CPU.counter(encoder, reading.cpu)?;
        RESIDENT.gauge(encoder, reading.resident)?;
        VIRTUAL.gauge(encoder, reading.virtual_size)?;
        if let Some(limit) = memory::limit() {
            LIMIT.gauge(encoder, limit)?;
        }
        FDS.gauge(encoder, reading.fds)?;
        if let Some(limit) = reading.max_fds {
            MAX_FDS.gauge(encoder, limit)?;
        }
        THREADS.gauge(encoder, reading.threads)
    }
}
