//! Certificates, rules and handshakes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, plain, seconds};

const RELOADS: Family = plain(
    "security_reloads",
    "Changed certificates and access rules: in use since (ok), or bad and not in use (failed)",
);
const HANDSHAKES: Family = plain(
    "tls_handshakes_failed",
    "TLS handshakes that failed or took too long",
);
const EXPIRES: Family = seconds(
    "tls_certificate_expiry",
    "When the certificate in use ends, since 1970; absent without TLS",
);

/// What is counted of certificates, rules and handshakes since the server
/// started.
#[derive(Debug, Default)]
pub(in crate::server) struct SecurityCounts {
    pub(in crate::server) reloads: AtomicU64,
    pub(in crate::server) failed_reloads: AtomicU64,
    pub(in crate::server) failed_handshakes: AtomicU64,
    pub(in crate::server) certificate_expires: AtomicI64,
}

impl SecurityCounts {
    /// Changed certificates and rules that are in use since.
    fn reloads(&self) -> u64 {
        self.reloads.load(Ordering::Relaxed)
    }

    /// Changed certificates and rules that were bad; those before them stay in
    /// use.
    fn failed_reloads(&self) -> u64 {
        self.failed_reloads.load(Ordering::Relaxed)
    }

    /// TLS handshakes that failed or took too long.
    fn failed_handshakes(&self) -> u64 {
        self.failed_handshakes.load(Ordering::Relaxed)
    }

    /// When the server's certificate ends, in seconds since 1970; `None`
    /// without TLS.
    fn certificate_expires(&self) -> Option<i64> {
        let at = self.certificate_expires.load(Ordering::Relaxed);
        (at != 0).then_some(at)
    }
}

/// Tells them.
#[derive(Debug)]
pub(super) struct SecurityMetrics(pub(super) Arc<SecurityCounts>);

impl Collector for SecurityMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = &self.0;
        let reloads = [
            ("ok", counts.reloads()),
            ("failed", counts.failed_reloads()),
        ];
        let reloads = reloads.map(|(result, count)| ([("result", result)], count));
        RELOADS.counters(&mut encoder, reloads)?;
        HANDSHAKES.counter(&mut encoder, counts.failed_handshakes())?;
        match counts.certificate_expires() {
            Some(at) => EXPIRES.gauge(&mut encoder, at),
            None => Ok(()),
        }
    }
}
