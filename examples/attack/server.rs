//! The server that is attacked, as a process of its own, and its memory.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use support::metrics::Page;
use support::process::{Server, command_of};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// The longest time that a page of metrics may take.
const SCRAPE: Duration = Duration::from_secs(2);

/// The memory of the process.
const RESIDENT: &str = "process_resident_memory_bytes";
/// The memory that the allocator of the server has given out.
const ACCOUNTED: &str = "evenkeel_accounted_memory_bytes";

/// A running server and the address of its metrics.
pub struct Attacked {
    pub server: Server,
    admin: String,
}

/// The memory of a server, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// The bytes that the system names.
    pub resident: i64,
    /// The bytes that the server names.
    pub accounted: i64,
}

impl Attacked {
    /// Starts one on free ports.
    pub fn start(binary: &Path, flags: &[String]) -> Self {
        let mut command = command_of(
            binary.as_os_str(),
            &["serve", "--admin-listen", "127.0.0.1:0"],
        );
        let mut server = Server::spawn(command.args(flags));
        let admin = server.logged("admin listening", "address");
        Self { server, admin }
    }

    /// Returns the server's memory, if it answers in time.
    ///
    /// # Errors
    /// The server has ended.
    pub async fn memory(&mut self) -> Result<Option<Memory>> {
        let ended = self.server.try_exited();
        ensure!(ended.is_none(), "the server ended with {ended:?}");
        let admin = self.admin.clone();
        let page = spawn_blocking(move || Page::of(&admin));
        let Ok(page) = timeout(SCRAPE, page).await else {
            return Ok(None);
        };
        let page = page?;
        let sum = |family| Some(page.sum(family)).filter(|sum| *sum > 0.0);
        let accounted = page.sample(ACCOUNTED, &["part=\"allocated\""]);
        // Both of one page: read one after the other, they would differ by what
        // arrives in between.
        let both = sum(RESIDENT).zip(accounted);
        Ok(both.map(|(resident, accounted)| Memory {
            resident: resident as i64,
            accounted: accounted as i64,
        }))
    }
}
