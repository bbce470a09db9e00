//! The feed, which keeps a snapshot equal to a cluster: it lists, replaces the snapshot, then
//! watches. After any failure it begins again. The default constraints of the snapshot are those of the
//! cluster's scheduler.

use std::convert::Infallible;
use std::mem::take;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::{info, warn};

use super::connection::{ClusterClient, OnRefusal, Target};
use super::error::{Broken, Error};
use super::following::{FollowedKinds, Hashes};
use super::sink::{SnapshotSink, Transport, Undone};
use super::watch::{KindEvent, LONGEST_PAUSE, SHORTEST_PAUSE, follow};
use crate::kubernetes::counts::{FeedCounts, ListReason};
use crate::manifest::{self, CONFIG_MAPS};
use evenkeel_core::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel_core::proto::v1::{
    Change, DefaultConstraints, UpdateSnapshotRequest, UpdateSnapshotResponse,
};
use evenkeel_core::snapshot::{ObjectKind, ResourceVersions};
use evenkeel_log::backoff::Backoff;
use evenkeel_log::lease::Lease;
use evenkeel_log::tasks;

/// The most events that are taken together into one batch.
const AT_ONCE: usize = 1_000;
/// The most changes in a batch of a replace. Its bytes stay well below gRPC's usual 4 MiB.
const STAGED_CHANGES: usize = 1_000;
const STAGED_BYTES: usize = 1 << 20;
/// The time between two checks for a due heartbeat, or for a snapshot that is fed from elsewhere.
const LOOK: Duration = Duration::from_secs(1);
/// The least time without a batch before a feed sends a heartbeat.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Why a feed begins again when its credentials may have changed.
const CHANGED: &str = "the kubeconfig, or a file that it names, has changed";

/// The name under which a feed reports trouble that is not about a kind.
const WHOLE: &str = "";

/// Feeds a snapshot from a cluster.
pub struct ClusterFeed {
    /// The cluster.
    target: Target,
    /// The source of the snapshot's default constraints.
    defaults: DefaultsSource,
    /// What the feed counts and reports.
    pub counts: Arc<FeedCounts>,
    /// The versions of objects that the snapshot refused.
    refused: Hashes,
    /// The reason why everything is listed next.
    reason: ListReason,
    /// The lease, if several servers share the right to feed.
    lease: Option<Arc<Lease>>,
    /// Learns whether the feed is refused because the snapshot is fed from another cluster.
    on_refusal: RefusalListener,
}

/// Learns whether a feed is refused, and why.
type RefusalListener = Box<dyn Fn(Option<String>) + Send>;

impl ClusterFeed {
    /// A feed of `snapshot` from `target`.
    pub fn new(target: Target, snapshot: &str, defaults: DefaultsSource) -> Self {
        Self {
            target,
            defaults,
            counts: Arc::new(FeedCounts::new(snapshot)),
            refused: Hashes::default(),
            reason: ListReason::Start,
            lease: None,
            on_refusal: Box::new(drop),
        }
    }

    /// The same feed of a snapshot of this server. It tells whether it is refused because the
    /// snapshot is fed from another cluster. In a fleet it feeds only while it holds the lease.
    #[must_use]
    pub fn of_server(
        self,
        lease: Option<Arc<Lease>>,
        on_refusal: impl Fn(Option<String>) + Send + 'static,
    ) -> Self {
        if let Some(lease) = &lease {
            self.counts.share(Arc::clone(lease));
        }
        Self {
            lease,
            on_refusal: Box::new(on_refusal),
            ..self
        }
    }

    /// Feeds the server that `rpc` calls, without end. After each failure, everything is listed again
    /// and replaced. Until then the old state answers.
    pub async fn run(mut self, rpc: SpreadServiceClient<Transport>) -> Infallible {
        let mut sink = SnapshotSink::new(rpc, self.counts.snapshot());
        let mut pauses = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        loop {
            let Err(broken) = self.feed(&mut sink).await;
            if let Broken::Undone(Undone::Refused(refused)) = &broken {
                let refused = refused.iter().take(3).map(|(_, why)| why.as_str());
                let refused: Vec<&str> = refused.collect();
                warn!(refused = refused.join("; "), "objects are left out");
            }
            self.reason = match &broken {
                Broken::Lost { reason, .. } => *reason,
                _ => ListReason::Start,
            };
            let pause = pauses.after_failure();
            let what = broken.to_string();
            self.counts.trouble(WHOLE, Some(what.clone()));
            warn!(
                snapshot = self.counts.snapshot(),
                error = what,
                pause = ?pause,
                "the feed begins anew"
            );
            if let Some(lease) = &self.lease {
                // Perhaps another server can feed.
                lease.release().await;
            }
            sleep(pause).await;
        }
    }

    /// Finds the cluster, and keeps the snapshot equal to it until something breaks.
    async fn feed(&mut self, sink: &mut SnapshotSink) -> Result<Infallible, Broken> {
        let cluster = self.target.clone().connect(OnRefusal::Retry).await?;
        // The feed stays with this cluster, even if the current context changes later.
        self.target = cluster.target.clone();
        sink.cluster = cluster.identity().await?.unwrap_or_default();
        tokio::select! {
            kept = self.keep_right(sink, &cluster) => kept,
            () = cluster.changed() => Err(Broken::Because(CHANGED.to_owned())),
        }
    }

    /// Keeps the snapshot equal to the cluster; in a fleet while this server holds the lease.
    async fn keep_right(
        &mut self,
        sink: &SnapshotSink,
        cluster: &ClusterClient,
    ) -> Result<Infallible, Broken> {
        self.check_cluster(sink, cluster).await?;
        let Some(lease) = self.lease.clone() else {
            return self.keep_equal(sink, cluster).await;
        };
        let held = tokio::select! {
            held = lease.acquire() => held,
            refused = self.keep_checking(sink, cluster) => return refused,
        };
        tokio::select! {
            kept = self.keep_equal(sink, cluster) => kept,
            () = lease.lost(held) => Err(Broken::Because("another server may feed now".to_owned())),
        }
    }

    /// Checks that the snapshot is not fed from another cluster. The server refuses that, too, but
    /// only when everything is listed.
    async fn check_cluster(
        &self,
        sink: &SnapshotSink,
        cluster: &ClusterClient,
    ) -> Result<(), Broken> {
        let (own, fed_from) = (&sink.cluster, sink.fed_from().await?);
        let is_same = own.is_empty() || fed_from.is_empty() || *own == fed_from;
        let refused = (!is_same).then(|| {
            let name = &cluster.name;
            format!(
                "it is fed from the cluster {fed_from}, not from {name} ({own}): feed another \
                 snapshot, give the servers another --fleet, or delete the snapshot first"
            )
        });
        (self.on_refusal)(refused.clone());
        refused.map_or(Ok(()), |refused| Err(Broken::Because(refused)))
    }

    /// Checks the cluster again and again, while another server feeds the snapshot.
    async fn keep_checking(
        &self,
        sink: &SnapshotSink,
        cluster: &ClusterClient,
    ) -> Result<Infallible, Broken> {
        loop {
            sleep(LOOK).await;
            self.check_cluster(sink, cluster).await?;
        }
    }

    /// Lists, replaces the snapshot, then watches, until something breaks.
    async fn keep_equal(
        &mut self,
        sink: &SnapshotSink,
        cluster: &ClusterClient,
    ) -> Result<Infallible, Broken> {
        let rules = (
            self.defaults.read(cluster).await?,
            cluster.kubernetes_version().await,
        );
        let (to, mut events) = mpsc::channel(AT_ONCE);
        // The watches end when this set is dropped, at the end of the call.
        let mut watches = JoinSet::new();
        for kind in ObjectKind::all() {
            tasks::spawn_in(&mut watches, follow(cluster.clone(), kind, to.clone()));
        }
        let refused = &mut self.refused;
        let mut following = FollowedKinds::new(self.reason, &self.counts, refused);
        let (acknowledged, read) = replace(sink, rules, &mut following, &mut events).await?;
        if let Some(lost) = following.lost.take() {
            return Err(lost);
        }
        following.is_live = true;
        self.counts.trouble(WHOLE, None);
        info!(
            snapshot = self.counts.snapshot(),
            cluster = cluster.name,
            objects = following.objects(),
            "snapshot replaced from the cluster"
        );
        let live = Live {
            sink,
            acknowledged,
            read,
            spoken: Instant::now(),
            told: Instant::now(),
        };
        live.run(following, events).await
    }
}

/// Replaces the snapshot by the listed objects of the cluster. Returns the acknowledgement, and the
/// resource versions up to which the snapshot has the cluster.
async fn replace(
    sink: &SnapshotSink,
    (defaults, kubernetes_version): (DefaultConstraints, String),
    following: &mut FollowedKinds<'_>,
    events: &mut mpsc::Receiver<KindEvent>,
) -> Result<(UpdateSnapshotResponse, ResourceVersions), Broken> {
    let mut replace = sink.replace().await?;
    let rules = UpdateSnapshotRequest {
        default_constraints: Some(defaults),
        kubernetes_version,
        ..Default::default()
    };
    replace.update(rules).await?;
    let mut taken = Vec::new();
    while !following.is_complete() {
        events.recv_many(&mut taken, AT_ONCE).await;
        for event in taken.drain(..) {
            following.take(event)?;
            let waits = &mut following.pending;
            if waits.changes.len() >= STAGED_CHANGES || waits.bytes >= STAGED_BYTES {
                let batch = take(waits);
                let update = UpdateSnapshotRequest {
                    changes: batch.changes.clone(),
                    ..Default::default()
                };
                let done = replace.update(update).await;
                following.done(batch, done)?;
            }
        }
    }
    let batch = take(&mut following.pending);
    let read = following.resource_versions();
    let update = UpdateSnapshotRequest {
        changes: batch.changes.clone(),
        resource_versions: read.to_wire(),
        ..Default::default()
    };
    let done = replace.update(update).await;
    following.done(batch, done)?;
    Ok((replace.commit().await?, read))
}

/// A feed after its replace.
struct Live<'a> {
    sink: &'a SnapshotSink,
    /// The last acknowledgement.
    acknowledged: UpdateSnapshotResponse,
    /// The resource versions up to which the snapshot has the cluster.
    read: ResourceVersions,
    /// The time when the last batch was applied.
    spoken: Instant,
    /// The moment up to which that batch contains all changes of the cluster.
    told: Instant,
}

impl Live<'_> {
    async fn run(
        mut self,
        mut following: FollowedKinds<'_>,
        mut events: mpsc::Receiver<KindEvent>,
    ) -> Result<Infallible, Broken> {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut taken = Vec::new();
        loop {
            tokio::select! {
                _ = events.recv_many(&mut taken, AT_ONCE) => {
                    for event in taken.drain(..) {
                        following.take(event)?;
                    }
                    self.send(&mut following).await?;
                }
                _ = look.tick() => {
                    let is_known = following.known_at().is_some_and(|known| known > self.told)
                        || following.resource_versions() != self.read;
                    if is_known && self.spoken.elapsed() >= HEARTBEAT {
                        self.update(&following, Vec::new()).await?;
                    }
                }
            }
        }
    }

    /// Sends the pending changes as one batch. Objects that the snapshot refuses are left out.
    async fn send(&mut self, following: &mut FollowedKinds<'_>) -> Result<(), Broken> {
        while !following.pending.changes.is_empty() {
            let batch = take(&mut following.pending);
            match self.update(following, batch.changes.clone()).await {
                Ok(()) => following.sent(&batch),
                Err(Broken::Undone(Undone::Refused(refused))) => {
                    following.leave_out(batch, &refused);
                }
                Err(broken) => return Err(broken),
            }
        }
        Ok(())
    }

    /// Sends a batch with its age, the time since the watch of every kind was last heard, and with
    /// the resource versions up to which the feed has read on.
    async fn update(
        &mut self,
        following: &FollowedKinds<'_>,
        changes: Vec<Change>,
    ) -> Result<(), Broken> {
        if let Some(known) = following.known_at() {
            self.told = known;
        }
        let read = following.resource_versions();
        let news = read.since(&self.read);
        let age = self.told.elapsed();
        let answer = self.sink.update(changes, age, &news).await?;
        self.read = read;
        self.spoken = Instant::now();
        let before = std::mem::replace(&mut self.acknowledged, answer);
        let now = &self.acknowledged;
        // Somebody may have restored an older copy of the state directory.
        let least = before.revision + i64::from(now.changed_count > 0);
        match now.epoch == before.epoch && now.revision >= least {
            true => Ok(()),
            false => Err(Broken::Because(
                "the snapshot has another history".to_owned(),
            )),
        }
    }
}

/// Runs a feed in a thread of its own, so that reading thousands of pods does not delay calls.
///
/// # Errors
/// The thread cannot be started.
pub fn run_in_thread(feed: impl AsyncFnOnce() + Send + 'static) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let run = move || runtime.block_on(feed());
    thread::Builder::new().name("watch".to_owned()).spawn(run)?;
    Ok(())
}

/// The default key of the configuration in a ConfigMap.
const KEY: &str = "config.yaml";

/// The source of default constraints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DefaultsSource {
    /// Kubernetes' own default constraints, as in a scheduler without configuration.
    #[default]
    System,
    /// A file with a KubeSchedulerConfiguration.
    File(PathBuf),
    /// A ConfigMap with a KubeSchedulerConfiguration.
    ConfigMap {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The key of the configuration.
        key: String,
    },
}

impl FromStr for DefaultsSource {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err("want FILE or configmap/NAMESPACE/NAME[:KEY]");
        }
        let Some(rest) = text.strip_prefix("configmap/") else {
            return Ok(Self::File(text.into()));
        };
        let (place, key) = rest.split_once(':').unwrap_or((rest, KEY));
        let named = place.split_once('/');
        let named = named.filter(|(namespace, name)| {
            !namespace.is_empty() && !name.is_empty() && !name.contains('/') && !key.is_empty()
        });
        let (namespace, name) = named.ok_or("want configmap/NAMESPACE/NAME[:KEY]")?;
        Ok(Self::ConfigMap {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            key: key.to_owned(),
        })
    }
}

impl DefaultsSource {
    /// Reads the default constraints.
    ///
    /// # Errors
    /// The fault of the file or the ConfigMap.
    pub(super) async fn read(&self, cluster: &ClusterClient) -> Result<DefaultConstraints, Error> {
        let (namespace, name, key) = match self {
            Self::System => return Ok(manifest::system_default_constraints()),
            Self::File(path) => {
                let path = path.to_string_lossy();
                return Ok(manifest::read_default_constraints(&path)?);
            }
            Self::ConfigMap {
                namespace,
                name,
                key,
            } => (namespace, name, key),
        };
        let place = format!("configmap {namespace}/{name} of {}", cluster.name);
        let missing = |what: String| Error::Unusable(format!("{place}: {what}"));
        let found = cluster.get(&CONFIG_MAPS, namespace, name).await?;
        let found = found.ok_or_else(|| missing("there is none".to_owned()))?;
        let text = found["data"][key].as_str();
        let text = text.ok_or_else(|| missing(format!("it has no key {key}")))?;
        Ok(manifest::default_constraints_in(text, &place)?)
    }
}
