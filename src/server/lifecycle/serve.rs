//! The process of a server: its parts, the order in which it starts and stops them, the signals by
//! which it stops and reads its files again, and its exit code.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{self, Handle};
#[cfg(unix)]
use tokio::signal::unix;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::server::NamedService;
use tonic_reflection::server::Builder;
use tower::util::BoxCloneSyncService;
use tracing::{error, info, warn};

use super::fleet::{self, Membership, Started};
use super::security::{self, Security};
use super::upkeep;
use crate::account::Account;
use crate::api;
use crate::decision_log::{DecisionLog, Writer};
use crate::kubernetes::FeedCounts;
use crate::limits::{Limits, processors};
use crate::proto::v1::FILE_DESCRIPTOR_SET;
use crate::proto::v1::spread_service_server::SpreadServiceServer;
use crate::server::config::{self, Config, StateSettings};
use crate::server::telemetry::health::HealthState;
use crate::server::telemetry::{
    PortCounts, SecurityCounts, SharedLogSource, Sources, Telemetry, logging,
};
use crate::server::transport::calls::{CallLimits, OpenService, Services, ThreadCalls};
use crate::server::transport::connections::Workers;
use crate::server::transport::connections::{ConnectionTerms, Listener};
use crate::server::transport::requests::RequestBody;
use crate::server::{BoxError, Error, Signal};
use crate::snapshot::Registry;
use crate::snapshot::named::MaxAges;
use crate::store::{Store, StoreError};
use crate::tasks::{self, Task};

/// The time that the decision log may take to be written out at the end.
const CLOSE_DECISIONS: Duration = Duration::from_secs(5);

/// The longest wait for the tasks that follow logs. One that has just sent a record waits longer.
const STOP_FOLLOWING: Duration = Duration::from_secs(5);

/// Serves until SIGTERM or Ctrl-C, then drains. SIGHUP has it look at its files at once.
///
/// The admin port is opened first: it shows the health of the server while the server waits for its
/// log. The kept state is restored before anything else is answered. Health is NOT_SERVING before
/// the address is bound and until `preload` is done and all expected snapshots are synced. Draining
/// sets health to NOT_SERVING, continues to answer for the configured pause, ends the streams,
/// accepts no more connections and waits for the calls under way, up to the configured timeout.
///
/// `feeds` are the counts of the feeds that
/// `preload` starts.
///
/// The caller should exit the process when this returns, without waiting for the runtime's tasks:
/// calls that did not end in time may still run.
///
/// # Errors
/// When the state directory cannot be used, the address cannot be bound, `preload` fails or a
/// second signal arrives more than a second later. Calls that did not end in time are no error.
pub async fn serve<P, F, E>(
    config: Config,
    feeds: Vec<Arc<FeedCounts>>,
    preload: P,
) -> Result<(), Error>
where
    P: FnOnce(Started) -> F,
    F: Future<Output = Result<(), E>>,
    E: Into<BoxError>,
{
    let mut signals = Signals::new().map_err(Error::Signals)?;
    let hangups = Hangups::new().map_err(Error::Signals)?;
    let counts = Arc::new(SecurityCounts::default());
    let security = Security::new(&config, &counts).map_err(Error::Unusable)?;
    let health = HealthState::new(config.expect_snapshot.clone());
    let mut telemetry = Telemetry::start(&config, health.clone(), feeds)?;
    let kept = restore(&config, &health, &mut signals).await?;
    let ended = CancellationToken::new();
    let following = kept.keep_up(&config, &ended);

    let draining = CancellationToken::new();
    let beside = api::Beside::new(Some(Handle::current()));
    let decisions = config
        .decision_log
        .settings(&config.fixed)
        .map(DecisionLog::start);
    let (decisions, writer) = decisions.transpose().map_err(Error::Runtime)?.unzip();
    let mut service = api::Service::new(Arc::clone(&kept.registry), draining.clone());
    service.beside = beside.clone();
    service.decision_log = decisions.clone();
    let account = kept.registry.account();
    let port = Arc::new(PortCounts::default());
    let limits = CallLimits::new(&config, security.rules, account, beside, &port)?;
    let calls = ThreadCalls {
        limits: Arc::new(limits),
        observer: telemetry.observer(),
        services: services(&service, &health, config.limits.max_message_bytes)?,
    };
    let listener = Listener::bind(&config, telemetry.calls(), &port).await?;
    telemetry.show(kept.sources(&port, decisions, counts));
    info!(address = %listener.address, "listening");
    let terms = ConnectionTerms::new(security.tls, &config.fixed, &config.limits);
    let workers = Workers::start(config.threads(), &calls, listener, terms, &port)?;
    let interval = config.fixed.reload_interval;
    tasks::spawn(security::reload(security.watched, interval, hangups));

    let started = Started {
        service,
        member: kept.member,
        health: health.clone(),
    };
    let signal = until_told(preload(started), &health, &mut signals).await?;
    info!(?signal, "draining");
    let drained = drain(&config, &health, &draining, workers, &mut telemetry);
    let drained = unless_told(drained, &mut signals).await;
    if let Some(writer) = writer {
        close_decisions(writer).await;
    }
    ended.cancel();
    if let Some(following) = following
        && timeout(STOP_FOLLOWING, following).await.is_err()
    {
        warn!("cutting off what follows the log");
    }
    // The store is closed only when no call is under way any more.
    if let Some(store) = kept.store.filter(|_| drained.is_ok()) {
        close_store(store).await;
    }
    drained
}

/// Returns the result of `work`, unless a signal comes first.
async fn unless_told<T>(
    work: impl Future<Output = Result<T, Error>>,
    signals: &mut Signals,
) -> Result<T, Error> {
    tokio::select! {
        done = work => done,
        signal = signals.next() => Err(Error::Interrupted(signal)),
    }
}

/// The snapshots, with the store or the log that keeps them.
struct KeptSnapshots {
    registry: Arc<Registry>,
    store: Option<Arc<Store>>,
    member: Option<Membership>,
}

/// Joins a fleet, if one is configured, and restores the state that the state directory or the log
/// keeps.
async fn restore(
    config: &Config,
    health: &HealthState,
    signals: &mut Signals,
) -> Result<KeptSnapshots, Error> {
    let shared = config.replication.shared_log();
    let (store, member) = match shared.map_err(|conflict| Error::Unusable(conflict.into()))? {
        Some(log) => {
            if config.state.state_dir.is_some() {
                warn!("the log keeps the state: --state-dir is not used");
            }
            let member = fleet::connect(log, health);
            (None, Some(unless_told(member, signals).await?))
        }
        None => (unless_told(open_store(&config.state), signals).await?, None),
    };
    let limit = config.limits.max_memory_bytes;
    let account = match config.fixed.memory_in_use {
        Some(in_use) => Account::measured(limit, in_use),
        None => Account::new(limit),
    };
    let mut registry = Registry::new(Limits::clone(&config.limits), Arc::new(health.clone()))
        .with_max_ages(MaxAges::from(&config.trust))
        .with_account(account);
    match (&member, &store) {
        (Some(member), _) => registry = registry.with_journal(Arc::clone(&member.replica) as _),
        (None, Some(store)) => registry = registry.with_journal(Arc::clone(store) as _),
        (None, None) => {}
    }
    for name in &config.expect_snapshot {
        registry.expect(name);
    }
    let registry = Arc::new(registry);
    if let Some(store) = &store {
        unless_told(restore_store(store, &registry), signals).await?;
    }
    if let Some(member) = &member {
        member.replica.serve(&registry);
        unless_told(member.catch_up(&registry, health), signals).await?;
    }
    Ok(KeptSnapshots {
        registry,
        store,
        member,
    })
}

impl KeptSnapshots {
    /// Starts the work at intervals, for as long as the runtime lives.
    /// Returns the task that follows the logs until `ended` is cancelled.
    fn keep_up(&self, config: &Config, ended: &CancellationToken) -> Option<Task<()>> {
        let mut following = None;
        let registry = || Arc::clone(&self.registry);
        let idle = config.fixed.view_idle;
        tasks::spawn(upkeep::sweep(registry(), self.store.clone(), idle));
        tasks::spawn(upkeep::end_reservations(registry()));
        if let Some(member) = &self.member {
            let follow = fleet::follow_all(member.clone(), ended.clone());
            following = Some(tasks::spawn(follow));
            tasks::spawn(fleet::keep_small(member.clone()));
        }
        following
    }

    /// Returns the figures that telemetry reads from the snapshots and from the rest of the server.
    fn sources(
        &self,
        port: &Arc<PortCounts>,
        decision_log: Option<DecisionLog>,
        security: Arc<SecurityCounts>,
    ) -> Sources {
        Sources {
            port: Arc::clone(port),
            registry: Arc::clone(&self.registry),
            store: self.store.as_ref().map(|store| Arc::clone(store.counts())),
            shared_log: self.member.as_ref().map(|member| SharedLogSource {
                replica: Arc::clone(&member.replica),
                tails: Arc::clone(&member.tails),
            }),
            security,
            decision_log,
        }
    }
}

/// Becomes healthy once `preload` is done, and waits for the signal to stop.
async fn until_told<E: Into<BoxError>>(
    preload: impl Future<Output = Result<(), E>>,
    health: &HealthState,
    signals: &mut Signals,
) -> Result<Signal, Error> {
    tokio::select! {
        loaded = preload => {
            loaded.map_err(|error| Error::Preload(error.into()))?;
            health.started();
            Ok(signals.next().await)
        }
        signal = signals.next() => Ok(signal),
    }
}

/// Drains the server. The order matters: balancers stop sending before calls are refused, and
/// connections can only close once their streams have ended.
async fn drain(
    config: &Config,
    health: &HealthState,
    draining: &CancellationToken,
    workers: Workers,
    telemetry: &mut Telemetry,
) -> Result<(), Error> {
    health.drain();
    sleep(config.drain.drain_pause).await;
    draining.cancel();
    health.end();
    match timeout(config.drain.drain_timeout, workers.stop()).await {
        Ok(()) => info!("drained"),
        Err(_) => warn!("cutting off calls that did not end within drain-timeout"),
    }
    telemetry.stop().await;
    Ok(())
}

/// Writes out the waiting records of the decision log.
async fn close_decisions(writer: Writer) {
    let closing = tasks::spawn_blocking(move || writer.close());
    if timeout(CLOSE_DECISIONS, closing).await.is_err() {
        warn!("cutting off the decision log");
    }
}

/// The amount by which the priority of threads that do not serve is lower. It is small, because feeds
/// run there, too.
const NICENESS: i32 = 4;

/// Runs `evenkeel serve` to its end and returns the exit code: 0 after a drain, 1 when it cannot
/// serve, 64 when settings do not go together or `RUST_LOG` is bad, 130 or 143 when a second signal
/// cut the drain short. An error is one line on standard error, in the form of the log if that is
/// JSON.
///
/// See [`serve`] for `feeds` and `preload`. Logging must not have been started, and the
/// caller should exit at once: calls that did not end in time may still run.
pub fn run<P, F, E>(config: Config, feeds: Vec<Arc<FeedCounts>>, preload: P) -> ExitCode
where
    P: FnOnce(Started) -> F,
    F: Future<Output = Result<(), E>>,
    E: Into<BoxError>,
{
    let format = config.log.log_format;
    if let Err(conflict) = config.check() {
        logging::fatal(format, &conflict);
        return ExitCode::from(config::BAD_CONFIGURATION);
    }
    let filter = config.log.log_level.as_deref();
    if let Err(error) = logging::init(format, filter) {
        logging::fatal(format, &error);
        return ExitCode::from(config::BAD_CONFIGURATION);
    }
    // Its threads run feeds and decode large messages, beside those that serve.
    let runtime = runtime::Builder::new_multi_thread()
        // Half as many as there are processors decode at once, and others run feeds meanwhile.
        .worker_threads(processors() + 1)
        .enable_all()
        .on_thread_start(api::lower_priority(NICENESS))
        .build();
    let served = runtime.map_err(Error::Runtime).and_then(|runtime| {
        let served = runtime.block_on(serve(config, feeds, preload));
        // Work that did not end in time runs until the process exits: it would panic if it
        // outlived its runtime.
        std::mem::forget(runtime);
        served
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            logging::fatal(format, &error);
            ExitCode::from(error.exit_code())
        }
    }
}

/// Opens the state directory, if one is configured.
pub async fn open_store(settings: &StateSettings) -> Result<Option<Arc<Store>>, Error> {
    let Some(directory) = settings.state_dir.clone() else {
        return Ok(None);
    };
    let durability = settings.durability;
    info!(directory = %directory.display(), ?durability, "opening the state directory");
    let opened = aside(move || Store::open(&directory, durability)).await?;
    Ok(Some(Arc::new(opened.map_err(unusable)?)))
}

/// Restores the state of the directory into a registry.
pub async fn restore_store(store: &Arc<Store>, registry: &Arc<Registry>) -> Result<(), Error> {
    let (store, registry) = (Arc::clone(store), Arc::clone(registry));
    let restored = aside(move || {
        let start = Instant::now();
        let snapshots = store.restore(&registry)?;
        info!(snapshots, took = ?start.elapsed(), "restored");
        Ok(())
    });
    restored.await?.map_err(unusable)
}

/// Writes everything out, once no call is under way any more.
pub async fn close_store(store: Arc<Store>) {
    if let Ok(Err(error)) = aside(move || store.close()).await {
        error!(%error, "the state directory was not closed; the next start checks it");
    }
}

fn unusable(error: StoreError) -> Error {
    Error::Unusable(error.into())
}

/// Runs work that waits for a disk, on a blocking thread.
async fn aside<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let done = tasks::spawn_blocking(run).await;
    done.map_err(Error::serve)
}

/// The time after a signal in which another one is the same request to stop. A terminal sends
/// SIGINT to a wrapper and to the server, and the wrapper passes on its own; service managers
/// repeat SIGTERM.
const SAME_REQUEST: Duration = Duration::from_secs(1);

/// Receives signals from its creation on, so that none is lost while the
/// server starts.
pub struct Signals {
    /// The arrival of the last signal that [`Self::next`] returned.
    last: Option<Instant>,
    #[cfg(unix)]
    interrupt: unix::Signal,
    #[cfg(unix)]
    terminate: unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            last: None,
            interrupt: unix::signal(unix::SignalKind::interrupt())?,
            terminate: unix::signal(unix::SignalKind::terminate())?,
        })
    }

    async fn receive(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
        }
    }
}

impl Signals {
    /// The next request to stop.
    pub async fn next(&mut self) -> Signal {
        loop {
            let signal = self.receive().await;
            let now = Instant::now();
            if self.last.is_none_or(|last| now - last >= SAME_REQUEST) {
                self.last = Some(now);
                return signal;
            }
        }
    }
}

/// Receives SIGHUP from its creation on. Without it, the signal would end the process.
pub struct Hangups {
    #[cfg(unix)]
    hangup: unix::Signal,
}

impl Hangups {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            hangup: unix::signal(unix::SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        #[cfg(unix)]
        self.hangup.recv().await;
        #[cfg(not(unix))]
        std::future::pending::<()>().await;
    }
}

#[cfg(not(unix))]
impl Signals {
    pub fn new() -> io::Result<Self> {
        Ok(Self { last: None })
    }

    async fn receive(&mut self) -> Signal {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Signal::Interrupt
    }
}

/// All services of the port. Reflection also has its former name, v1alpha, which many tools still ask
/// for.
///
/// # Errors
/// When reflection cannot read the protocol.
pub(super) fn services(
    service: &api::Service,
    health: &HealthState,
    max_message_bytes: usize,
) -> Result<Services, Error> {
    let spread = SpreadServiceServer::new(service.clone())
        .max_decoding_message_size(max_message_bytes)
        .max_encoding_message_size(max_message_bytes);
    Ok(Services {
        spread,
        others: vec![
            named(health.server()),
            named(reflection().build_v1().map_err(Error::serve)?),
            named(reflection().build_v1alpha().map_err(Error::serve)?),
        ],
    })
}

fn reflection() -> Builder<'static> {
    Builder::configure()
        .include_reflection_service(false)
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        // A client that knows the protocol only by reflection needs these messages to show the
        // details of an error.
        .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET)
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
