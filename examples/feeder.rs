//! A small, complete feeder: keeps a snapshot equal to a directory of
//! manifests, whatever happens to the directory, the server or the network.
//!
//!     cargo run --example feeder -- --directory manifests --snapshot staging
//!
//! The directory stands for what a controller would list and watch: one
//! Kubernetes object per `.yaml` or `.json` file. The rules are those of
//! `docs/feeding.md`; the comments say where each is kept.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use evenkeel::proto::v1;
use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel::proto::v1::stream_snapshot_request::Step;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Endpoint;

/// Changes in a batch of a replace: some hundred KiB.
const BATCH: usize = 1_000;

/// The longest time that an acknowledgement may take. A large commit takes a second.
const PATIENCE: Duration = Duration::from_secs(30);

/// The directory to feed, and the server.
#[derive(Debug, Clone, Parser)]
pub struct Args {
    /// Address of the server
    #[arg(long, default_value = "http://127.0.0.1:50051")]
    pub server: String,

    /// Snapshot to keep right
    #[arg(long, default_value = "default")]
    pub snapshot: String,

    /// Directory of manifests, one object a file
    #[arg(long)]
    pub directory: PathBuf,

    /// How often to look for changes
    #[arg(long, default_value = "500ms", value_parser = humantime::parse_duration)]
    pub period: Duration,

    /// How long to be silent at most: a third of the server's --max-age
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
    pub heartbeat: Duration,

    /// The longest pause before another attempt
    #[arg(long, default_value = "30s", value_parser = humantime::parse_duration)]
    pub max_pause: Duration,

    /// Nobody else changes the snapshot, and nobody reserves in it: whoever does
    /// is noticed, and undone by a replace
    #[arg(long)]
    pub alone: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    feed(&Args::parse()).await;
}

/// Feeds without end. Each time that something breaks, it lists and replaces all objects: the old
/// state answers meanwhile, and nothing that was missed stays wrong.
pub async fn feed(args: &Args) {
    let mut backoff = Backoff::new(args.max_pause);
    loop {
        let Err(broken) = keep_right(args, &mut backoff).await else {
            continue;
        };
        let pause = backoff.next();
        eprintln!(
            "{broken:#}; listing again in {}",
            humantime::format_duration(pause)
        );
        sleep(pause).await;
    }
}

/// Lists, replaces, then watches, until something breaks.
async fn keep_right(args: &Args, backoff: &mut Backoff) -> Result<()> {
    let mut known = list(&args.directory)?;
    let mut feed = Feed::open(args).await?;
    feed.replace(known.values()).await?;
    eprintln!(
        "replaced by {} objects, revision {}",
        known.len(),
        feed.revision
    );
    backoff.reset();
    loop {
        sleep(args.period).await;
        let now = list(&args.directory)?;
        let changes = difference(&known, &now);
        // Without changes an empty batch goes out now and then. It says that the feeder lives, and
        // shows whether the server does.
        if !changes.is_empty() || feed.spoken.elapsed() >= args.heartbeat {
            feed.update(changes).await?;
        }
        known = now;
    }
}

/// One stream to the server, and the epoch and revision to which it brought the snapshot.
struct Feed<'a> {
    args: &'a Args,
    steps: mpsc::Sender<v1::StreamSnapshotRequest>,
    answers: Streaming<v1::StreamSnapshotResponse>,
    epoch: String,
    revision: i64,
    spoken: Instant,
}

impl<'a> Feed<'a> {
    async fn open(args: &'a Args) -> Result<Self> {
        let endpoint = Endpoint::from_shared(args.server.clone())?
            .connect_timeout(Duration::from_secs(5))
            // Detects a server that is gone without a word.
            .http2_keep_alive_interval(Duration::from_secs(10));
        let channel = endpoint.connect().await.context("no server")?;
        let (steps, receiver) = mpsc::channel(1);
        let answers = SpreadServiceClient::new(channel)
            .stream_snapshot(ReceiverStream::new(receiver))
            .await?;
        Ok(Self {
            args,
            steps,
            answers: answers.into_inner(),
            epoch: String::new(),
            revision: 0,
            spoken: Instant::now(),
        })
    }

    /// Makes the objects the whole state at once. The old state answers until the commit, and goes
    /// on answering if this breaks.
    async fn replace(&mut self, objects: impl Iterator<Item = &v1::Change>) -> Result<()> {
        let snapshot = || self.args.snapshot.clone();
        let begin = v1::BeginReplace {
            snapshot: snapshot(),
        };
        let commit = v1::CommitReplace {
            snapshot: snapshot(),
            expected_revision: None,
        };
        self.step(Step::BeginReplace(begin)).await?;
        let objects: Vec<v1::Change> = objects.cloned().collect();
        for batch in objects.chunks(BATCH) {
            self.step(Step::Update(self.batch(batch.to_vec()))).await?;
        }
        let done = self.step(Step::CommitReplace(commit)).await?;
        (self.epoch, self.revision) = (done.epoch, done.revision);
        Ok(())
    }

    /// Sends one batch, so that changes that belong together are seen together.
    async fn update(&mut self, changes: Vec<v1::Change>) -> Result<()> {
        let batch = v1::UpdateSnapshotRequest {
            expected_revision: self.args.alone.then_some(self.revision),
            ..self.batch(changes)
        };
        let done = self.step(Step::Update(batch)).await?;
        // Another epoch means that somebody deleted the snapshot, and the batch began another one.
        ensure!(done.epoch == self.epoch, "the snapshot has another history");
        self.revision = done.revision;
        Ok(())
    }

    fn batch(&self, changes: Vec<v1::Change>) -> v1::UpdateSnapshotRequest {
        v1::UpdateSnapshotRequest {
            snapshot: self.args.snapshot.clone(),
            changes,
            ..Default::default()
        }
    }

    /// Sends a step and waits until it is acknowledged. A step that is not acknowledged may not
    /// have happened.
    async fn step(&mut self, step: Step) -> Result<v1::UpdateSnapshotResponse> {
        self.spoken = Instant::now();
        let request = v1::StreamSnapshotRequest { step: Some(step) };
        // A stream that has ended says why in its answers.
        let _ = self.steps.send(request).await;
        let answer = timeout(PATIENCE, self.answers.message()).await;
        let answer = answer.context("no acknowledgement")??;
        let update = answer.and_then(|answer| answer.update);
        update.context("the server ended the stream")
    }
}

/// Returns the objects of the directory, by kind, namespace and name. Fails if a file cannot be
/// read, because nothing may be concluded from a part of the files.
fn list(directory: &Path) -> Result<BTreeMap<[String; 3], v1::Change>> {
    let mut objects = BTreeMap::new();
    for entry in directory.read_dir().context("cannot list")? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if !matches!(extension, Some("yaml" | "yml" | "json")) {
            continue;
        }
        let place = || format!("cannot read {}", path.display());
        let text = std::fs::read_to_string(&path).with_context(place)?;
        let object: serde_json::Value = serde_saphyr::from_str(&text).with_context(place)?;
        let (key, change) = read(object).with_context(place)?;
        objects.insert(key, change);
    }
    Ok(objects)
}

/// An object as a change that creates or updates it: the fields of a manifest
/// are those of the message.
fn read(object: serde_json::Value) -> Result<([String; 3], v1::Change)> {
    let text = |path: &str| object.pointer(path).and_then(serde_json::Value::as_str);
    let kind = text("/kind").context("no kind")?;
    let namespace = match kind {
        "Node" | "Namespace" => "",
        _ => text("/metadata/namespace").unwrap_or("default"),
    };
    let name = text("/metadata/name").context("no name")?;
    let field = match kind {
        "Node" => "node",
        "Pod" => "pod",
        "Service" => "service",
        "ReplicaSet" => "replicaSet",
        "StatefulSet" => "statefulSet",
        "ReplicationController" => "replicationController",
        "Namespace" => "namespace",
        other => bail!("no decision reads a {other}"),
    };
    let key = [kind, namespace, name].map(str::to_owned);
    Ok((
        key,
        serde_json::from_value(serde_json::json!({field: object}))?,
    ))
}

/// The batch that makes one list of objects the other.
fn difference(
    old: &BTreeMap<[String; 3], v1::Change>,
    new: &BTreeMap<[String; 3], v1::Change>,
) -> Vec<v1::Change> {
    let changed = new
        .iter()
        .filter(|(key, change)| old.get(*key) != Some(*change));
    let changed = changed.map(|(_, change)| change.clone());
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    let gone = gone.map(|[kind, namespace, name]| v1::Change {
        object: Some(v1::change::Object::Delete(v1::ObjectReference {
            kind: kind.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
            // A watch would know the uid, and so delete no namesake.
            uid: String::new(),
        })),
    });
    changed.chain(gone).collect()
}

/// Pauses that double, with some chance in them, so that many feeders do not come back to a
/// restarted server at the same moment.
struct Backoff {
    pause: Duration,
    most: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(100);

    fn new(most: Duration) -> Self {
        Self {
            pause: Self::FIRST,
            most,
        }
    }

    fn next(&mut self) -> Duration {
        let pause = self
            .pause
            .min(self.most)
            .mul_f64(0.5 + fastrand::f64() / 2.0);
        self.pause = (self.pause * 2).min(self.most);
        pause
    }

    fn reset(&mut self) {
        self.pause = Self::FIRST;
    }
}
