//! The parts of a server, and the order in which it starts and stops them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::health::HealthState;
use super::joining::{self, Membership, Started};
use super::security::{self, Security};
use super::signals::{Hangups, Signals};
use super::{ends, fleet, port, state, upkeep};
use crate::account::Account;
use crate::api;
use crate::decision_log::{DecisionLog, Writer};
use crate::kubernetes::FeedCounts;
use crate::limits::Limits;
use crate::server::config::Config;
use crate::server::error::{BoxError, Error, Signal};
use crate::server::telemetry::Telemetry;
use crate::server::telemetry::counts::{PortCounts, SecurityCounts};
use crate::server::telemetry::sources::{SharedLogSource, Sources};
use crate::server::transport::calls::{CallLimits, ThreadCalls};
use crate::server::transport::connections::{ConnectionTerms, Listener};
use crate::server::transport::decoders::Decoders;
use crate::server::transport::threads::Workers;
use crate::snapshot::{MaxAges, Registry};
use crate::store::Store;
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
    let security = Security::new(&config, &counts)?;
    let health = HealthState::new(config.expect_snapshot.clone());
    let told = Arc::new(health.clone());
    let admin = Telemetry::open_admin(&config, told, feeds.clone())?;
    let kept = restore(&config, &health, &mut signals).await?;
    let ended = CancellationToken::new();
    let following = kept.keep_up(&config, &ended);

    let draining = CancellationToken::new();
    let decoders = Decoders::start().map_err(Error::Runtime)?;
    let decisions = config
        .decision_log
        .settings(&config.fixed)
        .map(DecisionLog::start);
    let (decisions, writer) = decisions.transpose().map_err(Error::Runtime)?.unzip();
    let service = api::Service::new(Arc::clone(&kept.registry), draining.clone())
        .with_feeds_on(decoders.runtime())
        .with_decision_log(decisions.clone());
    let telemetry = Telemetry::start(&config)?;
    let account = kept.registry.account();
    let port = Arc::new(PortCounts::default());
    let limits = CallLimits::new(&config, security.guard, account, decoders, &port)?;
    let calls = ThreadCalls {
        limits: Arc::new(limits),
        observer: telemetry.observer(),
        services: port::services(&service, &health, config.limits.max_message_bytes)?,
    };
    let listener = Listener::bind(&config, telemetry.refusals(), &port).await?;
    let sources = kept.sources(&port, &health, decisions, counts, feeds);
    if let Some(admin) = &admin {
        telemetry.show(admin, &config, sources);
    }
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
    let drained = drain(&config, &health, &draining, workers, telemetry);
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
        state::close(store).await;
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
    let (store, member) = match shared.map_err(|conflict| Error::Log(conflict.into()))? {
        Some(log) => {
            if config.state.state_dir.is_some() {
                warn!("the log keeps the state: --state-dir is not used");
            }
            let member = joining::connect(log, health);
            (None, Some(unless_told(member, signals).await?))
        }
        None => (
            unless_told(state::open(&config.state), signals).await?,
            None,
        ),
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
        unless_told(state::restore(store, &registry), signals).await?;
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
        tasks::spawn(ends::run(registry()));
        if let Some(member) = &self.member {
            let follow = fleet::follow_all(member.clone(), ended.clone());
            following = Some(tasks::spawn(follow));
            tasks::spawn(fleet::keep_checkpoints(member.clone()));
            tasks::spawn(fleet::clean(member.clone()));
        }
        following
    }

    /// Returns the figures that telemetry reads from the snapshots and from the rest of the server.
    fn sources(
        &self,
        port: &Arc<PortCounts>,
        health: &HealthState,
        decision_log: Option<DecisionLog>,
        security: Arc<SecurityCounts>,
        feeds: Vec<Arc<FeedCounts>>,
    ) -> Sources {
        Sources {
            port: Arc::clone(port),
            health: Arc::new(health.clone()),
            registry: Arc::clone(&self.registry),
            store: self.store.as_ref().map(|store| Arc::clone(store.counts())),
            shared_log: self.member.as_ref().map(|member| SharedLogSource {
                replica: Arc::clone(&member.replica),
                tails: Arc::clone(&member.tails),
            }),
            security,
            decision_log,
            feeds,
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
    telemetry: Telemetry,
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
