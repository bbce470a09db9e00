//! The port from its binding to its end: its services and its threads.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tracing::info;

use super::health::Board;
use super::services;
use crate::account::Account;
use crate::api;
use crate::server::config::Config;
use crate::server::error::Error;
use crate::server::telemetry::Telemetry;
use crate::server::telemetry::counts::Threads;
use crate::server::telemetry::sources::{PortLoad, ReadPort};
use crate::server::transport::calls::{CallLimits, Offered};
use crate::server::transport::connections::{Handshake, Listener};
use crate::server::transport::send_timeout::{self, Answers};
use crate::server::transport::threads::Workers;
use crate::server::transport::tls::Tls;

/// What is offered on a port.
pub(super) struct PortOffer<'a> {
    pub(super) config: &'a Config,
    pub(super) service: &'a api::Service,
    pub(super) limits: CallLimits,
    pub(super) telemetry: &'a Telemetry,
    pub(super) health: &'a Board,
    pub(super) draining: &'a CancellationToken,
}

/// A bound port that is not served yet: connections queue.
pub(super) struct Port {
    limits: CallLimits,
    listener: Listener,
    routers: Vec<Offered>,
    /// The answers on their way from each thread.
    answers: Vec<Answers>,
    threads: Arc<Threads>,
}

impl Port {
    /// Binds the port.
    ///
    /// # Errors
    /// When that is not possible, or the services cannot be set up.
    pub(super) async fn bind(offer: PortOffer<'_>, account: &Arc<Account>) -> Result<Self, Error> {
        let PortOffer { config, .. } = offer;
        let answers: Vec<_> = (0..config.threads()).map(|_| Answers::default()).collect();
        let routers = answers.iter().map(|answers| {
            let observer = offer.telemetry.observer();
            let limits = offer.limits.on_thread(observer, answers);
            let service = offer.service.clone();
            services::router(config, service, limits, offer.health, offer.draining)
        });
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

    /// Its threads, for their metrics.
    pub(super) fn threads(&self) -> &Arc<Threads> {
        &self.threads
    }

    /// Reads what is open on the port.
    pub(super) fn load(&self) -> ReadPort {
        let (connections, limits) = (self.listener.counts(), self.limits.clone());
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

    /// Serves it from now on, encrypted if there is to be TLS.
    ///
    /// # Errors
    /// When threads cannot be started.
    pub(super) fn serve(self, config: &Config, tls: Option<Arc<Tls>>) -> Result<Workers, Error> {
        info!(address = %self.listener.address(), "listening");
        let handshake = Handshake {
            tls,
            preface_timeout: config.security.handshake_timeout,
        };
        let workers = Workers::start(self.routers, self.listener, &handshake, &self.threads)?;
        let send_timeout = config.clients.send_timeout;
        tokio::spawn(send_timeout::run(self.answers, send_timeout));
        Ok(workers)
    }
}
