//! A server as a process of its own, that can be restarted at its address.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use evenkeel::proto::v1::VerifySnapshotRequest;
use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::{Channel, Endpoint};

use super::tally::Tally;

/// The longest time that a start or a drain may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The snapshot that all clients use.
pub const SNAPSHOT: &str = "soak";

/// A client with room for whole answers.
pub type Client = SpreadServiceClient<Channel>;

/// A running server and the counts of its clients.
pub struct Server {
    binary: PathBuf,
    state: Option<PathBuf>,
    address: String,
    child: Mutex<Child>,
    /// Grows when a restart begins, and when its snapshot was fed again: odd
    /// while it is away.
    phase: AtomicU64,
    /// The tally of its clients.
    pub tally: Arc<Tally>,
}

impl Server {
    /// Starts one on a free port, with a state directory if one is given.
    pub async fn start(binary: &Path, state: Option<PathBuf>) -> Result<Arc<Self>> {
        let (child, address) = spawn(binary, state.as_deref(), "127.0.0.1:0").await?;
        Ok(Arc::new(Self {
            binary: binary.to_owned(),
            state,
            address,
            child: Mutex::new(child),
            // Nothing is fed yet.
            phase: AtomicU64::new(1),
            tally: Arc::default(),
        }))
    }

    /// A connection of its own, made when it is first used and again after a
    /// restart.
    pub fn client(&self) -> Client {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address));
        let channel = endpoint.expect("the server's address").connect_lazy();
        SpreadServiceClient::new(channel).max_decoding_message_size(256 << 20)
    }

    /// Drains it, waits until it has ended, and starts another in its place.
    pub async fn restart(&self) -> Result<()> {
        self.phase.fetch_add(1, Ordering::AcqRel);
        self.stop().await?;
        let (child, _) = spawn(&self.binary, self.state.as_deref(), &self.address).await?;
        *self.child() = child;
        Ok(())
    }

    /// The feeder has replaced the snapshot.
    pub fn fed(&self) {
        if self.is_away() {
            self.phase.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Returns what tells one restart from the next.
    pub fn phase(&self) -> u64 {
        self.phase.load(Ordering::Acquire)
    }

    /// Returns whether it is being restarted, or not fed again yet.
    pub fn is_away(&self) -> bool {
        self.phase() % 2 == 1
    }

    /// Returns how often it was restarted.
    pub fn restarts(&self) -> u64 {
        self.phase().saturating_sub(1) / 2
    }

    /// Ends it by a drain.
    pub async fn stop(&self) -> Result<()> {
        let kill = Command::new("kill")
            .arg(self.child().id().to_string())
            .status()?;
        ensure!(kill.success(), "it ended by itself");
        let begun = Instant::now();
        loop {
            let ended = self.child().try_wait()?;
            if let Some(status) = ended {
                ensure!(status.success(), "the drain ended with {status}");
                return Ok(());
            }
            ensure!(begun.elapsed() < PATIENCE, "the drain takes too long");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns what the process has in memory.
    pub fn memory_bytes(&self) -> Result<u64> {
        let id = self.child().id();
        let status = fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next());
        Ok(kib.context("VmRSS")?.parse::<u64>()? << 10)
    }

    fn child(&self) -> std::sync::MutexGuard<'_, Child> {
        self.child.lock().expect("no holder panics")
    }

    /// Returns how many numbers differ from a recount.
    pub async fn verify(&self) -> Result<i64> {
        let snapshot = SNAPSHOT.to_owned();
        let request = VerifySnapshotRequest { snapshot };
        let answer = self.client().verify_snapshot(request).await?;
        Ok(answer.into_inner().mismatch_count)
    }
}

/// Starts the program, and waits until it listens.
async fn spawn(binary: &Path, state: Option<&Path>, address: &str) -> Result<(Child, String)> {
    let mut command = Command::new(binary);
    if let Some(state) = state {
        command.env("EVENKEEL_STATE_DIR", state);
    }
    let mut child = command
        .args(["serve", "--listen", address, "--log-format", "json"])
        .args(["--expect-snapshot", SNAPSHOT, "--max-age", "1m"])
        .args(["--drain-pause", "100ms"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", binary.display()))?;
    let stderr = child.stderr.take().context("standard error is piped")?;
    let (tell, listening) = oneshot::channel();
    thread::spawn(move || {
        let mut tell = Some(tell);
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let entry: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            if entry["message"] == "listening" {
                let address = entry["address"].as_str().unwrap_or_default().to_owned();
                // Nobody waits any more: it took too long.
                tell.take().map(|tell| tell.send(address));
            } else if entry["level"] == "ERROR" {
                eprintln!("{line}");
            }
        }
    });
    let address = timeout(PATIENCE, listening).await?;
    Ok((child, address.context("the server ended")?))
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended by itself, unless the run was cut short.
        let _ = self.child().kill();
        let _ = self.child().wait();
    }
}
