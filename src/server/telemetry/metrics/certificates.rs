//! Certificates, rules and handshakes.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, plain, seconds};
use crate::server::telemetry::counts::SecurityCounts;

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

/// The counts of a server.
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
