//! The port from its binding to its end: its services, behind one layer, and its
//! threads.

use std::sync::Arc;

use tonic::server::NamedService;
use tower::util::BoxCloneSyncService;
use tracing::info;

use super::health::HealthState;
use crate::api;
use crate::proto::v1::spread_service_server::SpreadServiceServer;
use crate::server::config::Config;
use crate::server::error::Error;
use crate::server::telemetry::Telemetry;
use crate::server::telemetry::counts::Threads;
use crate::server::telemetry::sources::{PortLoad, ReadPort};
use crate::server::transport::calls::{CallLimits, OpenService, Services, ThreadCalls};
use crate::server::transport::connections::{ConnectionTerms, Listener};
use crate::server::transport::kinds::CallKind;
use crate::server::transport::reflection;
use crate::server::transport::requests::RequestBody;
use crate::server::transport::threads::Workers;
use crate::server::transport::tls::Tls;

/// The services of a port.
pub(super) struct PortOffer<'a> {
    pub(super) config: &'a Config,
    pub(super) service: &'a api::Service,
    pub(super) limits: CallLimits,
    pub(super) telemetry: &'a Telemetry,
    pub(super) health: &'a HealthState,
}

impl PortOffer<'_> {
    /// All services of the port.
    fn services(&self) -> Result<Services, Error> {
        let max_message_bytes = self.config.limits.max_message_bytes;
        let spread = SpreadServiceServer::new(self.service.clone())
            .max_decoding_message_size(max_message_bytes)
            .max_encoding_message_size(max_message_bytes);
        Ok(Services {
            spread,
            others: vec![
                named(self.health.server()),
                named(reflection::v1().map_err(Error::serve)?),
                named(reflection::v1alpha().map_err(Error::serve)?),
            ],
        })
    }
}

/// A service with its name.
fn named<S>(service: S) -> (&'static str, OpenService)
where
    S: tower::Service<
            http::Request<RequestBody>,
            Response = http::Response<tonic::body::Body>,
            Error = std::convert::Infallible,
            Future: Send,
        >,
    S: NamedService + Clone + Send + Sync + 'static,
{
    (S::NAME, BoxCloneSyncService::new(service))
}

/// A bound port that is not served yet; connections queue.
pub(super) struct Port {
    limits: Arc<CallLimits>,
    listener: Listener,
    /// The calls of each thread.
    calls: Vec<ThreadCalls>,
    /// The port's threads, for their metrics.
    pub(super) threads: Arc<Threads>,
}

impl Port {
    /// Binds the port.
    ///
    /// # Errors
    /// When the address cannot be bound, or the services cannot be set up.
    pub(super) async fn bind(offer: PortOffer<'_>) -> Result<Self, Error> {
        let services = offer.services()?;
        let PortOffer { config, .. } = offer;
        let limits = Arc::new(offer.limits);
        let calls = || ThreadCalls {
            limits: Arc::clone(&limits),
            observer: offer.telemetry.observer(),
            services: services.clone(),
        };
        let calls = (0..config.threads()).map(|_| calls()).collect();
        let max_connections = config.limits.max_connections;
        let refusals = offer.telemetry.refusals();
        let listener = Listener::bind(config.listen, max_connections, refusals).await;
        Ok(Self {
            listener: listener.map_err(|source| Error::Bind {
                address: config.listen,
                source,
            })?,
            limits,
            calls,
            threads: Arc::default(),
        })
    }

    /// Returns a reader of the port's load.
    pub(super) fn load(&self) -> ReadPort {
        let (connections, limits) = (Arc::clone(&self.listener.counts), self.limits.clone());
        Box::new(move || {
            let kinds = limits.kinds();
            PortLoad {
                calls: kinds.open(CallKind::Call),
                feeds: kinds.open(CallKind::Feed),
                decision_streams: kinds.open(CallKind::Decisions),
                watches: kinds.open(CallKind::Watch),
                reflections: kinds.open(CallKind::Reflection),
                connections: connections.open(),
                accepted: connections.accepted(),
            }
        })
    }

    /// Serves the port from now on, encrypted if there is TLS.
    ///
    /// # Errors
    /// When threads cannot be started.
    pub(super) fn serve(self, config: &Config, tls: Option<Arc<Tls>>) -> Result<Workers, Error> {
        info!(address = %self.listener.address, "listening");
        let terms = ConnectionTerms::new(tls, &config.fixed, &config.limits);
        Workers::start(self.calls, self.listener, terms, &self.threads)
    }
}
