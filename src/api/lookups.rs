//! Looks up snapshots that this server does not know: another server may have just created them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::snapshot::{self, Registry};
use crate::tasks;

/// The time for which the result of a lookup stays valid.
const VALID: Duration = Duration::from_secs(1);

/// The number of names that are looked up in that time: callers may ask for any.
const MOST_NAMES: usize = 1_000;

/// The last lookup of a name. It is locked during the lookup, so that all callers wait for it.
type Lookup = Arc<tokio::sync::Mutex<Option<Instant>>>;

/// The names that were looked up lately.
#[derive(Default)]
pub struct Lookups(Mutex<HashMap<String, Lookup>>);

impl Lookups {
    /// The last lookup of a name; `None` if too many names are looked up.
    fn of(&self, name: &str) -> Option<Lookup> {
        let mut all = self.0.lock();
        if all.len() >= MOST_NAMES {
            let is_valid = |at: &Option<Instant>| at.is_some_and(|at| at.elapsed() < VALID);
            all.retain(|_, lookup| lookup.try_lock().map_or(true, |at| is_valid(&at)));
        }
        if all.len() >= MOST_NAMES && !all.contains_key(name) {
            return None;
        }
        Some(Arc::clone(all.entry(name.to_owned()).or_default()))
    }

    /// If a registry does not know a snapshot, and shares a log with others, asks the log for it: at
    /// most once a second.
    pub async fn look_up(&self, registry: &Arc<Registry>, name: &str) {
        let is_unknown = || matches!(registry.get(name), Err(snapshot::Error::NotFound(_)));
        if !registry.is_shared() || !is_unknown() {
            return;
        }
        let Some(lookup) = self.of(name) else {
            return;
        };
        let mut last = lookup.lock().await;
        if last.is_some_and(|at| at.elapsed() < VALID) {
            return;
        }
        let (registry, name) = (Arc::clone(registry), name.to_owned());
        // A snapshot that cannot be read now is still unknown.
        let _ = tasks::spawn_blocking(move || registry.look_up(&name)).await;
        *last = Some(Instant::now());
    }
}
