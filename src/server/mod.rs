//! `evenkeel serve`: configuration, the listener, health, limits and drain.
//! Knows nothing of decisions.

mod admin;
mod arriving;
mod aside;
mod calls;
pub mod config;
mod connections;
mod decisions;
pub mod ends;
mod guard;
mod health;
mod kinds;
mod layout;
pub mod logging;
mod memory;
mod messages;
mod metrics;
mod observe;
mod outgoing;
mod patrol;
mod pieces;
mod reflection;
mod refusals;
mod reload;
mod run;
mod security;
mod signals;
mod slots;
mod stalls;
mod state;
mod streams;
mod sweep;
mod telemetry;
mod tls;
mod traces;
mod weight;
mod workers;

use std::error::Error as StdError;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::service::LayerExt;
use tonic::transport::{self, server::Router};
use tower::ServiceBuilder;
use tower::layer::util::{Identity, Stack};
use tracing::{info, warn};

pub use config::Config;
pub use run::run;
pub use signals::Signal;

use self::aside::Aside;
use self::calls::CallLimits;
use self::connections::{Listener, Welcome};
use self::decisions::Decisions;
use self::health::Board;
use self::logging::Levels;
use self::metrics::{Sources, Threads};
use self::security::Security;
use self::signals::Signals;
use self::stalls::Answers;
use self::telemetry::Telemetry;
use self::workers::Workers;
use crate::account::Account;
use crate::api;
use crate::proto::v1::spread_service_server::SpreadServiceServer;
use crate::snapshot::{Limits, MaxAges, Registry};
use crate::store;

/// How much of a feed may be on its way unread: enough for several batches,
/// so that a feeder never waits for a window to open.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;

/// The same over all streams of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// The largest piece that a client may send at once. A batch in 16 KiB pieces,
/// which is what HTTP/2 starts with, costs twice the reads.
const FRAME_BYTES: u32 = 256 << 10;

/// What a thread offers to its connections.
type Offered = Router<Stack<CallLimits, Identity>>;

/// Any error of a caller's.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Why the server ended other than by a completed drain.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is taken, not this machine's, or not allowed.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The configured address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The state directory cannot be used.
    #[error("{0}")]
    State(store::Error),
    /// What was to be loaded could not be.
    #[error("cannot load: {0}")]
    Preload(BoxError),
    /// Certificates or rules are bad.
    #[error(transparent)]
    Security(#[from] reload::Error),
    /// The runtime's threads could not be started.
    #[error("cannot start threads: {0}")]
    Runtime(io::Error),
    /// Handlers for signals could not be installed.
    #[error("cannot receive signals: {0}")]
    Signals(io::Error),
    /// The services could not be set up, or the listener ended by itself.
    #[error("cannot serve: {0}")]
    Serve(BoxError),
    /// A second signal arrived while the server was draining.
    #[error("stopped by a second signal while draining")]
    Interrupted(Signal),
}

impl Error {
    /// The process's exit code: 143 or 130 for a second signal (SIGTERM or
    /// Ctrl-C), 1 for everything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Interrupted(signal) => signal.exit_code(),
            _ => 1,
        }
    }
}

/// Serves until SIGTERM or Ctrl-C, then drains.
///
/// What the state directory keeps is there before anything is answered.
/// Health is NOT_SERVING before the address is bound and until `preload` is
/// done and all expected snapshots are synced. Draining sets health to
/// NOT_SERVING, goes on answering for the configured pause, ends the streams,
/// accepts no more connections and waits for the calls under way, up to the
/// configured timeout.
///
/// `levels` is what changes the log level, if the caller can.
///
/// The caller should exit the process when this returns, without waiting for
/// the runtime's tasks: calls that did not end in time may still run.
///
/// # Errors
/// When the state directory cannot be used, the address cannot be bound,
/// `preload` fails or a second signal arrives. Calls that did not end in time are no error.
pub async fn serve<P, F, E>(config: Config, levels: Option<Levels>, preload: P) -> Result<(), Error>
where
    P: FnOnce(api::Service) -> F,
    F: Future<Output = Result<(), E>>,
    E: Into<BoxError>,
{
    let mut signals = Signals::new().map_err(Error::Signals)?;
    let counts = Arc::new(security::Counts::default());
    let security = Security::new(&config, &counts)?;
    let draining = CancellationToken::new();
    let health = Board::new(config.expect_snapshot.clone());
    let mut registry = Registry::new(Limits::from(&config.limits), Arc::new(health.clone()))
        .with_max_ages(MaxAges::from(&config.trust))
        .with_account(memory::account(&config.limits));
    let store = state::open(&config.state).await?;
    if let Some(store) = &store {
        registry = registry.with_journal(Arc::clone(store) as _);
    }
    for name in &config.expect_snapshot {
        registry.expect(name);
    }
    let registry = Arc::new(registry);
    if let Some(store) = &store {
        tokio::select! {
            restored = state::restore(store, &registry) => restored?,
            signal = signals.next() => return Err(Error::Interrupted(signal)),
        }
    }
    tokio::spawn(sweep::run(
        Arc::clone(&registry),
        store.clone(),
        config.limits.view_idle,
    ));
    tokio::spawn(ends::run(Arc::clone(&registry)));
    tokio::spawn(patrol::run(
        Arc::clone(&registry),
        config.trust.verify_interval,
    ));
    let service = api::Service::new(Arc::clone(&registry), draining.clone());
    let aside = Aside::start()?;
    let service = service
        .with_load(config.clients.load())
        .with_feeds_on(aside.runtime());
    let decisions = Decisions::start(&config)?;
    let service = decisions.of(service);
    let telemetry = Telemetry::start(&config)?;

    let guard = security.guard.clone();
    let limits = CallLimits::new(&config, guard, registry.account(), aside.handle())?;
    let answers: Vec<_> = (0..config.threads()).map(|_| Answers::default()).collect();
    let routers = answers.iter().map(|answers| {
        let limits = limits.on_thread(telemetry.observer(), answers);
        router(&config, service.clone(), limits, &health, &draining)
    });
    let routers = routers.collect::<Result<_, _>>()?;
    let listener = bind(&config, registry.account()).await?;
    let threads = Arc::new(Threads::default());
    let sources = Sources {
        limits,
        connections: listener.counts(),
        threads: Arc::clone(&threads),
        health: health.clone(),
        registry,
        security: counts,
        decision_log: decisions.log(),
        store: store.as_ref().map(|store| Arc::clone(store.counts())),
    };
    let _admin = telemetry.open_admin(&config, sources, levels)?;
    info!(address = %listener.address(), "listening");
    let welcome = Welcome {
        tls: security.tls,
        patience: config.security.handshake_timeout,
    };
    let server = Workers::start(routers, listener, &welcome, &threads)?;
    tokio::spawn(stalls::run(answers, config.clients.send_timeout));
    tokio::spawn(reload::run(
        security.watched,
        config.security.reload_interval,
    ));

    let signal = tokio::select! {
        loaded = preload(service) => {
            loaded.map_err(|error| Error::Preload(error.into()))?;
            health.started();
            signals.next().await
        }
        signal = signals.next() => signal,
    };

    info!(?signal, "draining");
    let drained = async {
        drain(&config, &health, &draining, server).await?;
        telemetry.stop().await;
        Ok(())
    };
    let ended = tokio::select! {
        drained = drained => drained,
        signal = signals.next() => Err(Error::Interrupted(signal)),
    };
    decisions.close().await;
    if let (Ok(()), Some(store)) = (&ended, store) {
        state::close(store).await;
    }
    ended
}

async fn bind(config: &Config, account: &Arc<Account>) -> Result<Listener, Error> {
    Listener::bind(config.listen, config.limits.max_connections, account)
        .await
        .map_err(|source| Error::Bind {
            address: config.listen,
            source,
        })
}

/// The order matters: balancers stop sending before calls are refused, and
/// connections can only close once their streams have ended.
async fn drain(
    config: &Config,
    health: &Board,
    draining: &CancellationToken,
    server: Workers,
) -> Result<(), Error> {
    health.drain();
    sleep(config.drain.drain_pause).await;
    draining.cancel();
    match timeout(config.drain.drain_timeout, server.stop()).await {
        Ok(stopped) => {
            stopped?;
            info!("drained");
        }
        Err(_) => warn!("cutting off calls that did not end within drain-timeout"),
    }
    Ok(())
}

/// All services behind one listener, and one layer before all of them: what
/// holds for calls holds for whatever is offered.
fn router(
    config: &Config,
    service: api::Service,
    limits: CallLimits,
    health: &Board,
    draining: &CancellationToken,
) -> Result<Offered, Error> {
    let max_message_bytes = config.limits.max_message_bytes;
    let spread = SpreadServiceServer::new(service)
        .max_decoding_message_size(max_message_bytes)
        .max_encoding_message_size(max_message_bytes);

    let (requests, responses) = (draining.clone(), draining.clone());
    let ending = ServiceBuilder::new()
        .map_request(move |request| streams::end_request(&requests, request))
        .map_response(move |response| streams::end_response(&responses, response));
    let reflection_v1 = reflection::v1().map_err(|error| Error::Serve(error.into()))?;
    let reflection_v1alpha = reflection::v1alpha().map_err(|error| Error::Serve(error.into()))?;
    Ok(transport::Server::builder()
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES)
        .max_concurrent_streams(config.clients.max_calls_per_connection)
        .http2_keepalive_interval(Some(config.connections.keepalive_interval))
        .http2_keepalive_timeout(Some(config.connections.keepalive_timeout))
        .layer(limits)
        .add_service(spread)
        .add_service(ending.named_layer(health.server()))
        .add_service(ending.named_layer(reflection_v1))
        .add_service(ending.named_layer(reflection_v1alpha)))
}
