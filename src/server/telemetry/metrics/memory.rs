//! The account of what clients make grow.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, bytes, plain};
use crate::account::{Account, Part};

const ACCOUNTED: Family = bytes(
    "accounted_memory",
    "Memory that clients made the process hold, by part; the sum stays within max-memory-bytes",
);
const REFUSED: Family = plain(
    "memory_refusals",
    "Requests refused because of max-memory-bytes",
);

/// The account of the process.
#[derive(Debug)]
pub(super) struct Memory(pub(super) Arc<Account>);

impl Collector for Memory {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let parts = Part::ALL.map(|part| ([("part", part.as_str())], self.0.used_by(part)));
        ACCOUNTED.gauges(&mut encoder, parts)?;
        REFUSED.counter(&mut encoder, self.0.refused() as u64)
    }
}
