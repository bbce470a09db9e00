//! From the first setting to the end of the drain: what a server is made of, in
//! which order it starts, and in which it stops.

use std::sync::Arc;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::health::Board;
use super::security::{self, Security};
use super::signals::Signals;
use super::{ends, patrol, reload, services, state, sweep};
use crate::account::Account;
use crate::api;
use crate::server::config::Config;
use crate::server::error::{BoxError, Error};
use crate::server::telemetry::Telemetry;
use crate::server::telemetry::decisions::Decisions;
use crate::server::telemetry::logging::Levels;
use crate::server::telemetry::metrics::{Refusals, Sources, Threads};
use crate::server::transport::background::Aside;
use crate::server::transport::calls::CallLimits;
use crate::server::transport::connections::{Listener, Welcome};
use crate::server::transport::reflection;
use crate::server::transport::send_timeout::{self, Answers};
use crate::server::transport::threads::Workers;
use crate::snapshot::{MaxAges, Registry};

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
    let mut registry = Registry::new(config.limits.clone(), Arc::new(health.clone()))
        .with_max_ages(MaxAges::from(&config.trust))
        .with_account(Account::new(config.limits.max_memory_bytes));
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
        config.views.view_idle,
    ));
    tokio::spawn(ends::run(Arc::clone(&registry)));
    tokio::spawn(patrol::run(
        Arc::clone(&registry),
        config.trust.verify_interval,
    ));
    let service = api::Service::new(Arc::clone(&registry), draining.clone());
    let aside = Aside::start()?;
    let service = service.with_feeds_on(aside.runtime());
    let decisions = Decisions::start(&config)?;
    let service = decisions.of(service);
    let methods = reflection::methods().map_err(|error| Error::Serve(error.into()))?;
    let telemetry = Telemetry::start(&config, methods)?;

    let guard = security.guard.clone();
    let limits = CallLimits::new(&config, guard, registry.account(), aside.handle())?;
    let answers: Vec<_> = (0..config.threads()).map(|_| Answers::default()).collect();
    let routers = answers.iter().map(|answers| {
        let limits = limits.on_thread(telemetry.observer(), answers);
        services::router(&config, service.clone(), limits, &health, &draining)
    });
    let routers = routers.collect::<Result<_, _>>()?;
    let listener = bind(&config, registry.account(), telemetry.refusals()).await?;
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
    tokio::spawn(send_timeout::run(answers, config.clients.send_timeout));
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

async fn bind(
    config: &Config,
    account: &Arc<Account>,
    refusals: &Arc<Refusals>,
) -> Result<Listener, Error> {
    Listener::bind(
        config.listen,
        config.limits.max_connections,
        account,
        refusals,
    )
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
