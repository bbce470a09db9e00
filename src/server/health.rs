//! `grpc.health.v1`: who may be sent calls.
//!
//! tonic's own implementation answers NOT_FOUND to a `Watch` of a name that
//! it does not know; the protocol wants SERVICE_UNKNOWN and an open stream,
//! because the name may become known.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};
use tonic::server::NamedService;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tracing::{info, warn};

use crate::api;
use crate::proto::v1::spread_service_server::SpreadServiceServer;
use crate::snapshot;

/// Longest request that is read: no name is longer than a string may be by
/// default, and clients of any kind may call.
const MAX_REQUEST_BYTES: usize = 8 << 10;

/// What health says, shared by the service, the registry that reports
/// snapshots and the server that starts and drains.
///
/// Knows the names `""` and `evenkeel.v1.SpreadService`, which mean the whole
/// server, and the name of every snapshot.
#[derive(Clone)]
pub(super) struct Board {
    facts: Arc<watch::Sender<Arc<Facts>>>,
}

/// What statuses follow from.
#[derive(Clone)]
struct Facts {
    started: bool,
    draining: bool,
    /// Snapshots without which the server is not ready.
    expected: BTreeSet<String>,
    /// The snapshots there are, and whether they are synced.
    synced: BTreeMap<String, bool>,
    /// Those of them that are older than they may get.
    stale: BTreeSet<String>,
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
        self.started && !self.draining && self.unsynced().next().is_none()
    }

    /// The expected snapshots that answer no decisions yet.
    fn unsynced(&self) -> impl Iterator<Item = &String> {
        let unsynced = |name: &&String| self.synced.get(*name) != Some(&true);
        self.expected.iter().filter(unsynced)
    }
}

const SERVICE: &str = <SpreadServiceServer<api::Service> as NamedService>::NAME;

impl Board {
    /// A board of a server that has not started.
    pub(super) fn new(expected: impl IntoIterator<Item = String>) -> Self {
        let facts = Facts {
            started: false,
            draining: false,
            expected: expected.into_iter().collect(),
            synced: BTreeMap::new(),
            stale: BTreeSet::new(),
        };
        Self {
            facts: Arc::new(watch::Sender::new(Arc::new(facts))),
        }
    }

    /// The gRPC service.
    pub(super) fn server(&self) -> HealthServer<Self> {
        HealthServer::new(self.clone()).max_decoding_message_size(MAX_REQUEST_BYTES)
    }

    /// The server listens and has loaded what it was told to load.
    pub(super) fn started(&self) {
        self.change(|facts| !std::mem::replace(&mut facts.started, true));
    }

    /// Why the server is not ready; nothing when it is.
    pub(super) fn unready(&self) -> Vec<String> {
        let facts = self.facts.borrow().clone();
        let mut reasons = Vec::new();
        if !facts.started {
            reasons.push("loading".to_owned());
        }
        let unsynced = facts.unsynced();
        reasons.extend(unsynced.map(|name| format!("snapshot {name} is not synced")));
        if facts.draining {
            reasons.push("draining".to_owned());
        }
        reasons
    }

    /// The snapshots that are older than they may get. They do not make the
    /// server unready: all servers that one feed serves would be at once.
    pub(super) fn stale(&self) -> Vec<String> {
        self.facts.borrow().stale.iter().cloned().collect()
    }

    /// The server is about to stop: everything is NOT_SERVING from here on.
    pub(super) fn drain(&self) {
        self.change(|facts| !std::mem::replace(&mut facts.draining, true));
    }

    /// Applies `change`, which says whether it changed anything, and wakes
    /// the watchers if so. Never waits for them.
    fn change(&self, change: impl FnOnce(&mut Facts) -> bool) {
        self.facts.send_if_modified(|facts| {
            let was_ready = facts.ready();
            let changed = change(Arc::make_mut(facts));
            match (was_ready, facts.ready()) {
                (false, true) => info!("ready"),
                (true, false) => info!("not ready"),
                _ => {}
            }
            changed
        });
    }
}

impl snapshot::Observer for Board {
    fn snapshot_changed(&self, name: &str, synced: bool) {
        self.change(|facts| {
            let changed = facts.synced.insert(name.into(), synced) != Some(synced);
            if changed {
                info!(snapshot = name, synced, "snapshot health changed");
            }
            changed
        });
    }

    fn snapshot_stale(&self, name: &str, stale: bool) {
        self.change(|facts| {
            let changed = match stale {
                true => facts.stale.insert(name.into()),
                false => facts.stale.remove(name),
            };
            match stale {
                true => warn!(snapshot = name, "snapshot is stale: its feed is silent"),
                false => info!(snapshot = name, "snapshot is fed again"),
            }
            changed
        });
    }

    fn snapshot_deleted(&self, name: &str) {
        self.change(|facts| {
            facts.stale.remove(name);
            let changed = facts.synced.remove(name).is_some();
            if changed {
                info!(snapshot = name, "snapshot deleted");
            }
            changed
        });
    }
}

#[tonic::async_trait]
impl Health for Board {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let name = request.into_inner().service;
        let status = self.facts.borrow().status(&name);
        match status {
            Some(status) => Ok(Response::new(response(status))),
            None => Err(Status::not_found(format!(
                "no service or snapshot is named {name:?}"
            ))),
        }
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    /// The status at once and then whenever it changes. Statuses that follow
    /// each other faster than the client reads are skipped.
    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let name = request.into_inner().service;
        let mut sent = None;
        let statuses = WatchStream::new(self.facts.subscribe()).filter_map(move |facts| {
            let status = facts.status(&name).unwrap_or(ServingStatus::ServiceUnknown);
            (sent.replace(status) != Some(status)).then(|| Ok(response(status)))
        });
        Ok(Response::new(Box::pin(statuses)))
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: status.into(),
    }
}
