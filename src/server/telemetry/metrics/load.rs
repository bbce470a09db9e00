//! How busy the server is: calls, connections, threads, and their limits.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::calls::Calls;
use super::family::{Family, plain, seconds};
use crate::limits::{Limit, Limits};
use crate::server::telemetry::counts::Threads;
use crate::server::telemetry::sources::{ReadPort, Readiness};

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

/// What the server's parts say of themselves.
pub(super) struct Load {
    pub(super) health: Arc<dyn Readiness>,
    pub(super) port: ReadPort,
    pub(super) noted: Arc<Calls>,
    pub(super) threads: Arc<Threads>,
    pub(super) limits: Limits,
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Load").finish_non_exhaustive()
    }
}

impl Load {
    /// All limits with their values.
    fn limits(&self) -> impl Iterator<Item = ([(&'static str, &'static str); 1], usize)> {
        let all = Limit::ALL.iter();
        all.map(|limit| ([("limit", limit.name())], self.limits.get(*limit)))
    }

    /// What was refused for each limit that refuses, from 0 on: rates need a
    /// zero to start from.
    fn refusals(&self) -> impl Iterator<Item = ([(&'static str, &'static str); 1], u64)> {
        let refusals = self.noted.refusals();
        Limit::refusing().map(|limit| ([("limit", limit.name())], refusals.count(limit)))
    }
}

impl Collector for Load {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        READY.gauge(&mut encoder, u32::from(self.health.unready().is_empty()))?;
        let port = (self.port)();
        IN_FLIGHT.gauge(&mut encoder, port.calls)?;
        FEEDS.gauge(&mut encoder, port.feeds)?;
        DECISIONS.gauge(&mut encoder, port.decision_streams)?;
        WATCHES.gauge(&mut encoder, port.watches)?;
        REFLECTIONS.gauge(&mut encoder, port.reflections)?;
        OPEN.gauge(&mut encoder, port.connections)?;
        ACCEPTED.counter(&mut encoder, port.accepted)?;
        REFUSED.counter(
            &mut encoder,
            self.noted.refusals().count(Limit::Connections),
        )?;
        let busy = self.threads.busy().into_iter();
        let busy = busy.map(|(index, busy)| ([("thread", index.to_string())], busy));
        BUSY.counters(&mut encoder, busy)?;
        REFUSALS.counters(&mut encoder, self.refusals())?;
        LIMIT.gauges(&mut encoder, self.limits())
    }
}
