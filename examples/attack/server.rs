//! The server that is attacked, as a process of its own, and what it takes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::transport::Channel;

use crate::request::{Client, channel, client};

/// How long a start may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long it may take to say what it takes.
const SCRAPE: Duration = Duration::from_secs(2);

/// What the process takes.
const RESIDENT: &str = "process_resident_memory_bytes";
/// What the server says that it accounts for.
const ACCOUNTED: &str = "evenkeel_accounted_memory_bytes";
/// The same of a server that has no account: the state alone.
const ESTIMATED: &str = "evenkeel_snapshot_memory_bytes";

/// A running server, killed when dropped.
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: String,
    admin: String,
}

/// What it has in memory, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// What the system says.
    pub resident: i64,
    /// What the server says.
    pub accounted: i64,
}

impl Server {
    /// Starts one on free ports.
    pub fn start(binary: &Path, flags: &[String]) -> Result<Self> {
        let mut child = Command::new(binary)
            .args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json"])
            .args(["--admin-listen", "127.0.0.1:0"])
            .args(flags)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", binary.display()))?;
        let stderr = child.stderr.take().context("standard error is piped")?;
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let entry: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
                let address = entry["address"].as_str().unwrap_or_default().to_owned();
                // Nobody listens any more once both are told.
                let _ = match entry["message"].as_str() {
                    Some("listening") => tell.send((false, address)),
                    Some("admin listening") => tell.send((true, address)),
                    _ => Ok(()),
                };
                if entry["level"] == "ERROR" {
                    eprintln!("{line}");
                }
            }
        });
        let mut server = Self {
            child,
            address: String::new(),
            admin: String::new(),
        };
        while server.address.is_empty() || server.admin.is_empty() {
            let (is_admin, address) = told.recv_timeout(PATIENCE).context("it does not listen")?;
            match is_admin {
                true => server.admin = address,
                false => server.address = address,
            }
        }
        Ok(server)
    }

    /// A connection of its own, made when it is first used.
    pub fn channel(&self) -> Channel {
        channel(&self.address)
    }

    /// A client of its own.
    pub fn client(&self) -> Client {
        client(&self.address)
    }

    /// Returns what it takes now, if it says so in time; an error when it has ended.
    pub async fn memory(&mut self) -> Result<Option<Memory>> {
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "the server ended with {ended:?}");
        let Ok(page) = timeout(SCRAPE, get(&self.admin, "/metrics")).await else {
            return Ok(None);
        };
        let page = page?;
        let accounted = sum(&page, ACCOUNTED).or_else(|| sum(&page, ESTIMATED));
        // Both of one page: read one after the other, they would differ by what
        // arrives in between.
        let both = sum(&page, RESIDENT).zip(accounted);
        Ok(both.map(|(resident, accounted)| Memory {
            resident: resident as i64,
            accounted: accounted as i64,
        }))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended by itself only if something went wrong.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The body of a page over HTTP.
async fn get(address: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: admin\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// The sum of a family's samples.
fn sum(page: &str, family: &str) -> Option<f64> {
    let samples = page.lines().filter_map(|line| line.strip_prefix(family));
    let value = |sample: &str| {
        let (labels, value) = sample.rsplit_once(' ')?;
        (labels.is_empty() || labels.starts_with('{')).then(|| value.parse::<f64>().ok())?
    };
    samples
        .map(value)
        .sum::<Option<f64>>()
        .filter(|sum| *sum > 0.0)
}
