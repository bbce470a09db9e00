//! The kinds of calls on the port, by path, and the limits of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::api;
use crate::api::slots::{CallSlot, CallSlots, CallerKey};
use crate::limits::{Limit, Limits};
use crate::server::telemetry::counts::PortCounts;

/// The largest request of health and reflection. They hold names, and the longest name has some
/// hundred bytes.
pub const MAX_NAME_REQUEST_BYTES: usize = 8 << 10;

/// The kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// One request to `SpreadService`.
    Call,
    /// A stream of batches.
    Feed,
    /// A stream of questions.
    Decisions,
    /// A health check.
    Check,
    /// A health watch.
    Watch,
    /// A stream of questions about the protocol.
    Reflection,
}

impl CallKind {
    /// The kind of the calls of a path, such as
    /// `/evenkeel.v1.SpreadService/Filter`.
    pub fn of(path: &str) -> Self {
        let path = path.strip_prefix('/').unwrap_or(path);
        let (service, method) = path.split_once('/').unwrap_or((path, ""));
        match (service, method) {
            ("grpc.health.v1.Health", "Watch") => Self::Watch,
            ("grpc.health.v1.Health", _) => Self::Check,
            (service, _) if service.starts_with("grpc.reflection.") => Self::Reflection,
            (_, "StreamSnapshot") => Self::Feed,
            (_, "Decide") => Self::Decisions,
            _ => Self::Call,
        }
    }

    /// Returns whether this is a call of `SpreadService`, or of an unknown service.
    pub fn is_spread(self) -> bool {
        matches!(self, Self::Call | Self::Feed | Self::Decisions)
    }

    /// Returns whether the client may send more than one message.
    pub fn is_stream(self) -> bool {
        matches!(self, Self::Feed | Self::Decisions | Self::Reflection)
    }
}

/// The slots of all kinds.
pub struct Kinds {
    calls: CallSlots,
    /// The slots of calls that stay open.
    streams: CallSlots,
    /// The slots of health checks, which no other call can take.
    checks: CallSlots,
    counts: Arc<PortCounts>,
    max_message_bytes: usize,
}

impl Kinds {
    pub fn new(limits: &Limits, counts: &Arc<PortCounts>) -> Self {
        let slots = |limit| CallSlots::new(limit, limits);
        Self {
            calls: slots(Limit::ConcurrentCalls),
            streams: slots(Limit::Streams),
            checks: slots(Limit::HealthChecks),
            counts: Arc::clone(counts),
            max_message_bytes: limits.max_message_bytes,
        }
    }

    /// Takes a slot for a call, until it is dropped.
    ///
    /// # Errors
    /// [`api::Error::OverLimit`].
    pub fn take(&self, kind: CallKind, who: &CallerKey) -> Result<KindSlot, api::Error> {
        let slots = match kind {
            CallKind::Call => &self.calls,
            CallKind::Check => &self.checks,
            _ => &self.streams,
        };
        let slot = slots.take(who)?;
        count(kind, &self.counts).fetch_add(1, Ordering::Relaxed);
        Ok(KindSlot {
            kind,
            counts: Arc::clone(&self.counts),
            _slot: slot,
        })
    }

    /// Returns the largest length of a message of a kind.
    pub fn max_message_bytes(&self, kind: CallKind) -> usize {
        match kind {
            CallKind::Call | CallKind::Feed | CallKind::Decisions => self.max_message_bytes,
            CallKind::Check | CallKind::Watch | CallKind::Reflection => {
                MAX_NAME_REQUEST_BYTES.min(self.max_message_bytes)
            }
        }
    }
}

/// A slot that a call of a kind holds.
pub struct KindSlot {
    kind: CallKind,
    counts: Arc<PortCounts>,
    _slot: CallSlot,
}

impl Drop for KindSlot {
    fn drop(&mut self) {
        count(self.kind, &self.counts).fetch_sub(1, Ordering::Relaxed);
    }
}

/// The number of calls of a kind under way.
fn count(kind: CallKind, counts: &PortCounts) -> &AtomicUsize {
    match kind {
        CallKind::Call => &counts.calls,
        CallKind::Feed => &counts.feeds,
        CallKind::Decisions => &counts.decision_streams,
        CallKind::Check => &counts.checks,
        CallKind::Watch => &counts.watches,
        CallKind::Reflection => &counts.reflections,
    }
}
