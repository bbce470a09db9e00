//! `grpc.health.v1`: tells whether the server and its snapshots may be sent calls.
//!
//! tonic's own implementation answers NOT_FOUND to a `Watch` of a name that it does not know. The
//! protocol wants SERVICE_UNKNOWN and an open stream, because the name may become known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::stream::{BoxStream, try_unfold};
use tokio::sync::watch;
use tonic::server::NamedService;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tracing::{info, warn};

use crate::access::Visitor;
use crate::api;
use crate::proto::v1::spread_service_server::SpreadServiceServer;
use crate::snapshot;

/// The state of health, shared by the service, the registry that reports snapshots and the server
/// that starts and drains.
///
/// It knows the names `""` and `evenkeel.v1.SpreadService`, which mean the whole server, and the
/// name of every snapshot.
#[derive(Clone)]
pub struct HealthState(Arc<watch::Sender<Facts>>);

/// The facts from which statuses follow.
#[derive(Default)]
struct Facts {
    started: bool,
    draining: bool,
    /// The condition that the server waits for before it has started.
    waits_for: Option<String>,
    /// Snapshots without which the server is not ready.
    expected: BTreeSet<String>,
    /// The existing snapshots, and whether each is synced.
    synced: BTreeMap<String, bool>,
    /// The snapshots that are older than their maximum age.
    stale: BTreeSet<String>,
    /// The snapshots whose feed in this server is refused, and why.
    refused: BTreeMap<String, String>,
    /// True if no watch goes on any more.
    has_ended: bool,
}

impl Facts {
    /// The status of `name`, or none when it is unknown.
    fn status(&self, name: &str) -> Option<ServingStatus> {
        let serving = if name.is_empty() || name == SERVICE {
            self.ready()
        } else {
            *self.synced.get(name)? && !self.stale.contains(name) && !self.draining
        };
        Some(match serving {
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        })
    }

    fn ready(&self) -> bool {
        let is_fed = self.unsynced().next().is_none() && self.refused.is_empty();
        self.started && !self.draining && is_fed
    }

    /// The expected snapshots that answer no decisions yet.
    fn unsynced(&self) -> impl Iterator<Item = &String> {
        let unsynced = |name: &&String| self.synced.get(*name) != Some(&true);
        self.expected.iter().filter(unsynced)
    }
}

const SERVICE: &str = <SpreadServiceServer<api::Service> as NamedService>::NAME;

impl HealthState {
    /// The health of a server that has not started.
    pub fn new(expected: impl IntoIterator<Item = String>) -> Self {
        let facts = Facts {
            expected: expected.into_iter().collect(),
            ..Facts::default()
        };
        Self(Arc::new(watch::Sender::new(facts)))
    }

    /// The gRPC service.
    pub fn server(&self) -> HealthServer<Self> {
        HealthServer::new(self.clone())
    }

    /// Records the condition that has to end before the server can start; `None` if it waits for
    /// nothing any more.
    pub fn waits_for(&self, what: Option<String>) {
        self.change(|facts| facts.waits_for = what);
    }

    /// Records that the feed of a snapshot in this server is refused, and why; `None` if it is not
    /// any more.
    pub fn refused(&self, snapshot: &str, why: Option<String>) {
        self.change(|facts| match why {
            Some(why) => drop(facts.refused.insert(snapshot.to_owned(), why)),
            None => drop(facts.refused.remove(snapshot)),
        });
    }

    /// Records that the server listens and has loaded its files.
    pub fn started(&self) {
        self.change(|facts| facts.started = true);
    }

    /// Records that the server is about to stop: everything is NOT_SERVING from here on.
    pub fn drain(&self) {
        self.change(|facts| facts.draining = true);
    }

    /// Ends all watches: a connection does not end before its streams.
    pub fn end(&self) {
        self.change(|facts| facts.has_ended = true);
    }

    /// The reasons why the server is not ready; none when it is.
    pub(super) fn unready(&self) -> Vec<String> {
        let facts = self.0.borrow();
        let mut reasons = Vec::new();
        if !facts.started {
            reasons.push("loading".to_owned());
            reasons.extend(facts.waits_for.clone());
        }
        let unsynced = facts.unsynced();
        reasons.extend(unsynced.map(|name| format!("snapshot {name} is not synced")));
        let refused = facts.refused.iter();
        reasons.extend(refused.map(|(name, why)| format!("feed of snapshot {name}: {why}")));
        if facts.draining {
            reasons.push("draining".to_owned());
        }
        reasons
    }

    /// The snapshots that are older than their maximum age.
    ///
    /// They do not make the server unready, because all servers with the same feed would
    /// become unready at once.
    pub(super) fn stale(&self) -> Vec<String> {
        self.0.borrow().stale.iter().cloned().collect()
    }

    /// Applies a change, and wakes all watches. Never waits for them.
    fn change(&self, change: impl FnOnce(&mut Facts)) {
        self.0.send_modify(|facts| {
            let was_ready = facts.ready();
            change(facts);
            match (was_ready, facts.ready()) {
                (false, true) => info!("ready"),
                (true, false) => info!("not ready"),
                _ => {}
            }
        });
    }

    /// The status of a name at once and then whenever it changes. Statuses that follow each other
    /// faster than the client reads are skipped.
    fn statuses(&self, asked: AskedName) -> Statuses {
        let asked = Arc::new(asked);
        let begun = (self.0.subscribe(), None);
        Box::pin(try_unfold(begun, move |(mut facts, sent)| {
            let asked = Arc::clone(&asked);
            async move {
                let status = |facts: &Facts| {
                    let status = asked.status(facts);
                    status.unwrap_or(ServingStatus::ServiceUnknown)
                };
                let is_next = |facts: &Facts| facts.has_ended || Some(status(facts)) != sent;
                let next = match facts.wait_for(is_next).await {
                    Ok(facts) if !facts.has_ended => status(&facts),
                    _ => return Err(api::Error::Draining.into()),
                };
                Ok(Some((response(next), (facts, Some(next)))))
            }
        }))
    }
}

/// A name that a visitor asks about; `None` where visitors are not told apart.
struct AskedName {
    name: String,
    visitor: Option<Visitor>,
}

impl AskedName {
    fn of(request: Request<HealthCheckRequest>) -> Self {
        Self {
            visitor: request.extensions().get().cloned(),
            name: request.into_inner().service,
        }
    }

    /// The status of the name, or none when it is unknown. The name of a snapshot that the visitor may
    /// not read is answered like an unknown name.
    fn status(&self, facts: &Facts) -> Option<ServingStatus> {
        let is_open = self.name.is_empty() || self.name == SERVICE;
        let sees = |visitor: &Visitor| visitor.may_see(&self.name);
        let may_see = is_open || self.visitor.as_ref().is_none_or(sees);
        facts.status(&self.name).filter(|_| may_see)
    }
}

/// The statuses that a watch sends.
type Statuses = BoxStream<'static, Result<HealthCheckResponse, Status>>;

impl snapshot::named::Observer for HealthState {
    fn snapshot_changed(&self, name: &str, synced: bool) {
        if self.0.borrow().synced.get(name) == Some(&synced) {
            return;
        }
        self.change(|facts| {
            facts.synced.insert(name.into(), synced);
        });
        info!(snapshot = name, synced, "snapshot health changed");
    }

    fn snapshot_stale(&self, name: &str, stale: bool) {
        self.change(|facts| {
            match stale {
                true => facts.stale.insert(name.into()),
                false => facts.stale.remove(name),
            };
        });
        match stale {
            true => warn!(snapshot = name, "snapshot is stale: its feed is silent"),
            false => info!(snapshot = name, "snapshot is fed again"),
        }
    }

    fn snapshot_deleted(&self, name: &str) {
        self.change(|facts| {
            facts.stale.remove(name);
            if facts.synced.remove(name).is_some() {
                info!(snapshot = name, "snapshot deleted");
            }
        });
    }
}

#[tonic::async_trait]
impl Health for HealthState {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let asked = AskedName::of(request);
        match asked.status(&self.0.borrow()) {
            Some(status) => Ok(Response::new(response(status))),
            None => Err(Status::not_found(format!(
                "no service or snapshot is named {:?}",
                asked.name
            ))),
        }
    }

    type WatchStream = Statuses;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Statuses>, Status> {
        Ok(Response::new(self.statuses(AskedName::of(request))))
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: status.into(),
    }
}
