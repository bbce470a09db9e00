//! The port from its binding to its end: its services, behind one layer, and its
//! threads.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tonic::service::LayerExt;
use tonic::transport;
use tower::ServiceBuilder;
use tracing::info;

use super::health::HealthState;
use crate::account::Account;
use crate::api;
use crate::proto::v1::spread_service_server::SpreadServiceServer;
use crate::server::config::Config;
use crate::server::error::Error;
use crate::server::telemetry::Telemetry;
use crate::server::telemetry::counts::Threads;
use crate::server::telemetry::sources::{PortLoad, ReadPort};
use crate::server::transport::calls::{CallLimits, Offered};
use crate::server::transport::closing::{self, Answers};
use crate::server::transport::connections::{Handshake, Listener};
use crate::server::transport::threads::Workers;
use crate::server::transport::tls::Tls;
use crate::server::transport::{endings, reflection};
use crate::tasks;

/// The bytes of a feed that may be on their way unread: enough for several batches, so that a
/// feeder never waits for a window to open.
const STREAM_WINDOW_BYTES: u32 = 512 << 10;

/// The bytes that may be unread over all streams of a connection.
const CONNECTION_WINDOW_BYTES: u32 = STREAM_WINDOW_BYTES;

/// The largest frame that a client may send: as much as is read from a connection in one turn.
/// HTTP/2 starts with frames of 16 KiB, which cost a batch twice the reads.
const FRAME_BYTES: u32 = 64 << 10;

/// The services of a port.
pub(super) struct PortOffer<'a> {
    pub(super) config: &'a Config,
    pub(super) service: &'a api::Service,
    pub(super) limits: CallLimits,
    pub(super) telemetry: &'a Telemetry,
    pub(super) health: &'a HealthState,
    pub(super) draining: &'a CancellationToken,
}

impl PortOffer<'_> {
    /// All services behind one listener, with one layer before all of them, so that the rules for
    /// calls apply to every service.
    fn router(&self, limits: CallLimits) -> Result<Offered, Error> {
        let Self {
            config, draining, ..
        } = *self;
        let max_message_bytes = config.limits.max_message_bytes;
        let spread = SpreadServiceServer::new(self.service.clone())
            .max_decoding_message_size(max_message_bytes)
            .max_encoding_message_size(max_message_bytes);

        let (requests, responses) = (draining.clone(), draining.clone());
        let ending = ServiceBuilder::new()
            .map_request(move |request| endings::end_request(&requests, request))
            .map_response(move |response| endings::end_response(&responses, response));
        let reflection_v1 = reflection::v1().map_err(Error::serve)?;
        let reflection_v1alpha = reflection::v1alpha().map_err(Error::serve)?;
        let max_calls = config.limits.max_calls_per_connection;
        Ok(transport::Server::builder()
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_frame_size(FRAME_BYTES)
            .max_concurrent_streams(u32::try_from(max_calls).ok())
            // A client may cancel all its calls at once. Calls that are cancelled before they are
            // accepted wait only until the connection's turn is over (`transport/turns.rs`).
            .http2_max_pending_accept_reset_streams(Some(max_calls))
            .http2_keepalive_interval(Some(config.fixed.keepalive_interval))
            .http2_keepalive_timeout(Some(config.fixed.keepalive_timeout))
            .layer(limits)
            .add_service(spread)
            .add_service(ending.named_layer(self.health.server()))
            .add_service(ending.named_layer(reflection_v1))
            .add_service(ending.named_layer(reflection_v1alpha)))
    }
}

/// A bound port that is not served yet; connections queue.
pub(super) struct Port {
    limits: CallLimits,
    listener: Listener,
    routers: Vec<Offered>,
    /// The answers on their way from each thread.
    answers: Vec<Arc<Answers>>,
    /// The port's threads, for their metrics.
    pub(super) threads: Arc<Threads>,
}

impl Port {
    /// Binds the port.
    ///
    /// # Errors
    /// When the address cannot be bound, or the services cannot be set up.
    pub(super) async fn bind(offer: PortOffer<'_>, account: &Arc<Account>) -> Result<Self, Error> {
        let PortOffer { config, .. } = offer;
        let answers: Vec<Arc<Answers>> = (0..config.threads()).map(|_| Arc::default()).collect();
        let observer = offer.telemetry.observer();
        let routers = answers
            .iter()
            .map(|answers| offer.router(offer.limits.on_thread(observer.clone(), answers)));
        let routers = routers.collect::<Result<_, _>>()?;
        let max_connections = config.limits.max_connections;
        let refusals = offer.telemetry.refusals();
        let listener = Listener::bind(config.listen, max_connections, account, refusals).await;
        Ok(Self {
            limits: offer.limits,
            listener: listener.map_err(|source| Error::Bind {
                address: config.listen,
                source,
            })?,
            routers,
            answers,
            threads: Arc::default(),
        })
    }

    /// Returns a reader of the port's load.
    pub(super) fn load(&self) -> ReadPort {
        let (connections, limits) = (Arc::clone(&self.listener.counts), self.limits.clone());
        Box::new(move || {
            let kinds = limits.kinds();
            PortLoad {
                calls: kinds.calls.held(),
                feeds: kinds.feeds.held(),
                decision_streams: kinds.decisions.held(),
                watches: kinds.watches.held(),
                reflections: kinds.reflections.held(),
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
        let handshake = Handshake {
            tls,
            preface_timeout: config.fixed.handshake_timeout,
        };
        let workers = Workers::start(self.routers, self.listener, &handshake, &self.threads)?;
        let send_timeout = config.fixed.send_timeout;
        tasks::spawn(closing::close_unread(self.answers, send_timeout));
        Ok(workers)
    }
}
