//! The kinds of calls on the port, by path, and the limits of each.

use crate::api::slots::CallSlots;
use crate::limits::{Limit, Limits};

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

    /// Returns whether the call stays open for as long as its client likes.
    pub fn stays_open(self) -> bool {
        self.is_stream() || self == Self::Watch
    }

    /// Returns whether the client may pause between messages for as long as it likes.
    pub fn may_pause(self) -> bool {
        matches!(self, Self::Feed | Self::Decisions)
    }
}

/// The slots of all kinds.
#[derive(Clone)]
pub struct Kinds {
    pub calls: CallSlots,
    pub feeds: CallSlots,
    pub decisions: CallSlots,
    pub checks: CallSlots,
    pub watches: CallSlots,
    pub reflections: CallSlots,
    max_message_bytes: usize,
}

impl Kinds {
    pub fn new(limits: &Limits) -> Self {
        let slots = |limit| CallSlots::new(limit, limits);
        Self {
            calls: slots(Limit::ConcurrentCalls),
            feeds: slots(Limit::Feeds),
            decisions: slots(Limit::DecisionStreams),
            checks: slots(Limit::HealthChecks),
            watches: slots(Limit::HealthWatches),
            reflections: slots(Limit::ReflectionStreams),
            max_message_bytes: limits.max_message_bytes,
        }
    }

    /// The slots of a kind.
    pub fn slots(&self, kind: CallKind) -> &CallSlots {
        match kind {
            CallKind::Call => &self.calls,
            CallKind::Feed => &self.feeds,
            CallKind::Decisions => &self.decisions,
            CallKind::Check => &self.checks,
            CallKind::Watch => &self.watches,
            CallKind::Reflection => &self.reflections,
        }
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
