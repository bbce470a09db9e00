//! The load of the server: calls, connections, threads, and their limits.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, plain, seconds};
use crate::limits::{Limit, Limits};
use crate::server::telemetry::counts::Refusals;
use crate::server::telemetry::sources::{PortLoad, Sources};

const READY: Family = plain("ready", "Whether health says SERVING: 1 or 0");
const IN_FLIGHT: Family = plain("calls_in_flight", "Calls under way, without feeds");
const FEEDS: Family = plain("open_feeds", "Feeds open now");
const DECISIONS: Family = plain("open_decision_streams", "Streams of questions open now");
const WATCHES: Family = plain("open_health_watches", "Health watches open now");
const REFLECTIONS: Family = plain("open_reflection_streams", "Reflection streams open now");
const OPEN: Family = plain("open_connections", "Connections open now");
const ACCEPTED: Family = plain("connections_accepted", "Connections accepted");
const REFUSED: Family = plain(
    "connections_refused",
    "Connections closed at once, over max-connections",
);
const BUSY: Family = seconds(
    "thread_busy",
    "Time that a serving thread was not idle; 1 per second is saturation",
);
const REFUSALS: Family = plain(
    "limit_refusals",
    "Calls and connections refused for a limit, by the limit's name",
);
const LIMIT: Family = plain("limit", "Configured limits on what clients can make grow");

/// Writes the load of the server's parts.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    (port, sources): (&PortLoad, &Sources),
    refusals: &Refusals,
    limits: &Limits,
) -> fmt::Result {
    READY.gauge(encoder, u32::from(sources.health.unready().is_empty()))?;
    IN_FLIGHT.gauge(encoder, port.calls)?;
    FEEDS.gauge(encoder, port.feeds)?;
    DECISIONS.gauge(encoder, port.decision_streams)?;
    WATCHES.gauge(encoder, port.watches)?;
    REFLECTIONS.gauge(encoder, port.reflections)?;
    OPEN.gauge(encoder, port.connections)?;
    ACCEPTED.counter(encoder, port.accepted)?;
    REFUSED.counter(encoder, refusals.count(Limit::Connections))?;
    let busy = sources.threads.busy().into_iter();
    let busy = busy.map(|(index, busy)| ([("thread", index.to_string())], busy));
    BUSY.counters(encoder, busy)?;
    // Limits without refusals are listed, too: rates need a zero to start from.
    let refused = Limit::refusing().map(|limit| ([("limit", limit.name())], refusals.count(limit)));
    REFUSALS.counters(encoder, refused)?;
    let all = Limit::ALL.iter();
    let all = all.map(|limit| ([("limit", limit.name())], limits.get(*limit)));
    LIMIT.gauges(encoder, all)
}
