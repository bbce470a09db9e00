//! `grpc.health.v1`: tells whether the server and its snapshots may be sent calls.
//!
//! tonic's own implementation answers NOT_FOUND to a `Watch` of a name that it does not know. The
//! protocol wants SERVICE_UNKNOWN and an open stream, because the name may become known.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
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
use crate::server::telemetry::sources::Readiness;
use crate::server::transport::identity::Visitor;
use crate::server::transport::kinds::MAX_NAME_REQUEST_BYTES;
use crate::snapshot;

/// The state of health, shared by the service, the registry that reports snapshots and the server
/// that starts and drains.
///
/// It knows the names `""` and `evenkeel.v1.SpreadService`, which mean the whole server, and the
/// name of every snapshot.
#[derive(Clone)]
pub struct HealthState(Arc<Mutex<HealthStatuses>>);

/// The statuses and their watches: a change wakes only the watches of its name.
struct HealthStatuses {
    facts: Facts,
    /// The watched statuses, by name. Watches end when these are dropped.
    watches: HashMap<String, watch::Sender<ServingStatus>>,
    /// True if no watch goes on any more.
    has_ended: bool,
}

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
}

impl Facts {
    /// The status of `name` for a watch.
    fn watched(&self, name: &str) -> ServingStatus {
        self.status(name).unwrap_or(ServingStatus::ServiceUnknown)
    }

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
        Self(Arc::new(Mutex::new(HealthStatuses {
            facts,
            watches: HashMap::new(),
            has_ended: false,
        })))
    }

    /// The gRPC service.
    pub fn server(&self) -> HealthServer<Self> {
        HealthServer::new(self.clone()).max_decoding_message_size(MAX_NAME_REQUEST_BYTES)
    }

    /// Records the condition that has to end before the server can start; `None` if it waits for
    /// nothing any more.
    pub fn waits_for(&self, what: Option<String>) {
        self.change(None, |facts| facts.waits_for = what);
    }

    /// Records that the feed of a snapshot in this server is refused, and why; `None` if it is not
    /// any more.
    pub fn refused(&self, snapshot: &str, why: Option<String>) {
        self.change(None, |facts| match why {
            Some(why) => drop(facts.refused.insert(snapshot.to_owned(), why)),
            None => drop(facts.refused.remove(snapshot)),
        });
    }

    /// Records that the server listens and has loaded its files.
    pub fn started(&self) {
        self.change(None, |facts| facts.started = true);
    }

    /// Records that the server is about to stop: everything is NOT_SERVING from here on.
    pub fn drain(&self) {
        self.change(None, |facts| facts.draining = true);
    }

    /// Ends all watches: a connection does not end before its streams.
    pub fn end(&self) {
        let mut watched = self.0.lock();
        watched.has_ended = true;
        watched.watches.clear();
    }

    /// Applies a change of one snapshot or of the server, and wakes the watches
    /// that it affects. Never waits for them.
    fn change(&self, snapshot: Option<&str>, change: impl FnOnce(&mut Facts)) {
        let mut watched = self.0.lock();
        let was_ready = watched.facts.ready();
        change(&mut watched.facts);
        let is_ready = watched.facts.ready();
        match (was_ready, is_ready) {
            (false, true) => info!("ready"),
            (true, false) => info!("not ready"),
            _ => {}
        }
        match snapshot {
            None => watched.watches.keys().for_each(|name| watched.tell(name)),
            Some(name) => watched.tell(name),
        }
        if was_ready != is_ready {
            watched.tell("");
            watched.tell(SERVICE);
        }
    }

    /// The status of `name` at once and then whenever it changes. Statuses that follow each other
    /// faster than the client reads are skipped.
    fn statuses(&self, name: String, visitor: Option<Visitor>) -> Statuses {
        let mut watched = self.0.lock();
        let status = watched.facts.watched(&name);
        let changes = match watched.watches.get(&name) {
            Some(sender) => sender.subscribe(),
            None => {
                let (sender, changes) = watch::channel(status);
                // Watches of other names may have ended since.
                watched.watches.retain(|_, sender| !sender.is_closed());
                if !watched.has_ended {
                    watched.watches.insert(name.clone(), sender);
                }
                changes
            }
        };
        let mut sent = None;
        let statuses = WatchStream::new(changes).filter_map(move |status| {
            let status = match may_see(visitor.as_ref(), &name) {
                true => status,
                false => ServingStatus::ServiceUnknown,
            };
            // The status may have changed and changed back.
            let is_new = sent.replace(status) != Some(status);
            is_new.then(|| Ok(response(status)))
        });
        let end = tokio_stream::once(Err(api::Error::Draining.into()));
        Box::pin(statuses.chain(end))
    }
}

impl HealthStatuses {
    /// Wakes the watches of `name`, if its status has changed.
    fn tell(&self, name: &str) {
        if let Some(sender) = self.watches.get(name) {
            let status = self.facts.watched(name);
            sender.send_if_modified(|told| std::mem::replace(told, status) != status);
        }
    }
}

/// The statuses that a watch sends.
type Statuses = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

impl Readiness for HealthState {
    fn unready(&self) -> Vec<String> {
        let facts = &self.0.lock().facts;
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

    /// Stale snapshots do not make the server unready, because all servers with the same feed would
    /// become unready at once.
    fn stale(&self) -> Vec<String> {
        self.0.lock().facts.stale.iter().cloned().collect()
    }
}

impl snapshot::Observer for HealthState {
    fn snapshot_changed(&self, name: &str, synced: bool) {
        self.change(Some(name), |facts| {
            if facts.synced.insert(name.into(), synced) != Some(synced) {
                info!(snapshot = name, synced, "snapshot health changed");
            }
        });
    }

    fn snapshot_stale(&self, name: &str, stale: bool) {
        self.change(Some(name), |facts| {
            match stale {
                true => facts.stale.insert(name.into()),
                false => facts.stale.remove(name),
            };
            match stale {
                true => warn!(snapshot = name, "snapshot is stale: its feed is silent"),
                false => info!(snapshot = name, "snapshot is fed again"),
            }
        });
    }

    fn snapshot_deleted(&self, name: &str) {
        self.change(Some(name), |facts| {
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
        let visitor = request.extensions().get::<Visitor>().cloned();
        let name = request.into_inner().service;
        let status = self.0.lock().facts.status(&name);
        let status = status.filter(|_| may_see(visitor.as_ref(), &name));
        match status {
            Some(status) => Ok(Response::new(response(status))),
            None => Err(Status::not_found(format!(
                "no service or snapshot is named {name:?}"
            ))),
        }
    }

    type WatchStream = Statuses;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Statuses>, Status> {
        let visitor = request.extensions().get::<Visitor>().cloned();
        let name = request.into_inner().service;
        Ok(Response::new(self.statuses(name, visitor)))
    }
}

/// Returns whether a visitor may know of a name. The name of a snapshot that it may not read is
/// answered like an unknown name.
fn may_see(visitor: Option<&Visitor>, name: &str) -> bool {
    let is_open = name.is_empty() || name == SERVICE;
    is_open || visitor.is_none_or(|visitor| visitor.may_see(name))
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: status.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    use super::*;
    use crate::snapshot::Observer;

    /// Counts how often a waiting watch is woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The statuses that a watch must send now.
    fn told(watch: &mut Statuses, waker: &Waker) -> Vec<ServingStatus> {
        let mut context = Context::from_waker(waker);
        let mut all = Vec::new();
        while let Poll::Ready(Some(next)) = Pin::new(&mut *watch).poll_next(&mut context) {
            all.push(next.expect("statuses are no errors").status());
        }
        all
    }

    #[test]
    fn a_change_wakes_those_whom_it_is_about() {
        use ServingStatus::{NotServing, ServiceUnknown, Serving};
        let health = HealthState::new(["expected".to_owned()]);
        health.started();
        let names = ["", SERVICE, "expected", "other", "never"];
        let mut watches = names.map(|name| health.statuses(name.to_owned(), None));
        let woken = names.map(|_| Arc::new(Woken::default()));
        let mut after = |change: &dyn Fn()| {
            change();
            let counts = woken
                .each_ref()
                .map(|woken| woken.0.swap(0, Ordering::Relaxed));
            let told: Vec<_> = std::iter::zip(&mut watches, &woken)
                .map(|(watch, woken)| told(watch, &Waker::from(Arc::clone(woken))))
                .collect();
            (counts, told)
        };
        let (_, first) = after(&|| {});
        let unknown = || vec![ServiceUnknown];
        let not = || vec![NotServing];
        assert_eq!(first, [not(), not(), unknown(), unknown(), unknown()]);
        // The new snapshots have no watch.
        let (woken, told) = after(&|| {
            for number in 0..50 {
                health.snapshot_changed(&format!("s{number}"), true);
            }
        });
        assert_eq!((woken, told.concat()), ([0; 5], vec![]));
        let (woken, told) = after(&|| health.snapshot_changed("other", true));
        assert_eq!((woken, told.concat()), ([0, 0, 0, 1, 0], vec![Serving]));
        let (woken, told) = after(&|| health.snapshot_changed("expected", true));
        assert_eq!((woken, told.concat()), ([1, 1, 1, 0, 0], vec![Serving; 3]));
        let (woken, told) = after(&|| {
            health.snapshot_stale("other", true);
            health.snapshot_stale("other", false);
        });
        assert_eq!((woken[3], told.concat()), (1, vec![]));
        let (woken, told) = after(&|| health.drain());
        assert_eq!(
            (woken, told.concat()),
            ([1, 1, 1, 1, 0], vec![NotServing; 4])
        );
        // Names that nobody watches any more are forgotten with the next one.
        drop(watches);
        let again = health.statuses("another".to_owned(), None);
        assert_eq!(health.0.lock().watches.len(), 1);
        health.end();
        for mut watch in [again, health.statuses("late".to_owned(), None)] {
            let mut context = Context::from_waker(Waker::noop());
            let mut last = None;
            while let Poll::Ready(Some(next)) = watch.as_mut().poll_next(&mut context) {
                last = next.err().map(|status| status.code());
            }
            assert_eq!(last, Some(tonic::Code::Unavailable));
        }
    }
}
