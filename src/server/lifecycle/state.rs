//! The state directory of a running server.

use std::sync::Arc;
use std::time::Instant;

use tracing::{error, info};

use crate::server::config::StateSettings;
use crate::server::error::Error;
use crate::snapshot::Registry;
use crate::store::Store;
use crate::tasks;

/// Opens the state directory, if one is configured.
pub async fn open(settings: &StateSettings) -> Result<Option<Arc<Store>>, Error> {
    let Some(directory) = settings.state_dir.clone() else {
        return Ok(None);
    };
    let durability = settings.durability;
    info!(directory = %directory.display(), ?durability, "opening the state directory");
    let opened = aside(move || Store::open(&directory, durability)).await?;
    Ok(Some(Arc::new(opened.map_err(Error::State)?)))
}

/// Restores the state of the directory into a registry.
pub async fn restore(store: &Arc<Store>, registry: &Arc<Registry>) -> Result<(), Error> {
    let (store, registry) = (Arc::clone(store), Arc::clone(registry));
    let restored = aside(move || {
        let start = Instant::now();
        let snapshots = store.restore(&registry)?;
        info!(snapshots, took = ?start.elapsed(), "restored");
        Ok(())
    });
    restored.await?.map_err(Error::State)
}

/// Writes everything out, once no call is under way any more.
pub async fn close(store: Arc<Store>) {
    if let Ok(Err(error)) = aside(move || store.close()).await {
        error!(%error, "the state directory was not closed; the next start checks it");
    }
}

/// Runs work that waits for a disk, on a blocking thread.
async fn aside<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let done = tasks::spawn_blocking(run).await;
    done.map_err(Error::serve)
}
