//! The state directory of a running server.

use std::sync::Arc;
use std::time::Instant;

use tracing::{error, info};

use super::Error;
use super::config::StateSettings;
use crate::snapshot::Registry;
use crate::store::Store;

/// Opens the state directory, if there is to be one. What it keeps is in
/// `registry` when this returns.
pub(super) async fn restore(
    settings: &StateSettings,
    registry: Registry,
) -> Result<(Arc<Registry>, Option<Arc<Store>>), Error> {
    let Some(directory) = settings.state_dir.clone() else {
        return Ok((Arc::new(registry), None));
    };
    let durability = settings.durability;
    let restored = tokio::task::spawn_blocking(move || {
        let start = Instant::now();
        info!(directory = %directory.display(), ?durability, "opening the state directory");
        let store = Arc::new(Store::open(&directory, durability)?);
        let registry = registry.with_journal(Arc::clone(&store) as _);
        let done = store.restore(&registry, |progress| {
            let (objects, total) = (progress.objects, progress.total);
            info!(snapshots = progress.snapshots, objects, total, "restoring");
        })?;
        let seconds = format!("{:.3}", start.elapsed().as_secs_f64());
        let (snapshots, objects) = (done.snapshots, done.objects);
        info!(snapshots, objects, seconds, "restored");
        Ok((Arc::new(registry), Some(store)))
    });
    let failed = |error| Error::Serve(Box::new(error));
    restored.await.map_err(failed)?.map_err(Error::State)
}

/// Writes everything out, once no call is under way any more.
pub(super) async fn close(store: Arc<Store>) {
    let closed = tokio::task::spawn_blocking(move || store.close()).await;
    if let Ok(Err(error)) = closed {
        error!(%error, "the state directory was not closed; the next start checks it");
    }
}
