//! What one server of a fleet drops for all: blobs that nothing needs, and the logs of
//! snapshots that were deleted.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::{error, info, warn};

use super::joining::Membership;
use crate::log::lease::Lease;
use crate::replica::Replica;

/// How often it is looked.
const LOOK: Duration = Duration::from_secs(1_800);

/// Drops what nobody needs, whenever this server is the one that does.
pub async fn run(member: Membership) -> Infallible {
    let lease = Arc::new(member.lease("cleaning"));
    let clean = || {
        let (replica, lease) = (Arc::clone(&member.replica), Arc::clone(&lease));
        async move {
            loop {
                sleep(LOOK).await;
                let (replica, lease) = (Arc::clone(&replica), Arc::clone(&lease));
                if spawn_blocking(move || clean(&replica, &lease))
                    .await
                    .is_err()
                {
                    error!("dropping what nobody needs failed");
                }
            }
        }
    };
    lease.while_held(clean).await
}

fn clean(replica: &Replica, lease: &Lease) {
    match replica.drop_orphans() {
        Ok(0) => {}
        Ok(dropped) => info!(dropped, "dropped blobs that nothing needs"),
        Err(error) => warn!(%error, "blobs that nothing needs are kept"),
    }
    let names = match replica.discover() {
        Ok(names) => names,
        Err(error) => return warn!(%error, "logs of deleted snapshots are kept"),
    };
    for name in names {
        match replica.remove_deleted(&name, || lease.is_held()) {
            Ok(false) => {}
            Ok(true) => info!(snapshot = name, "removed the log of a deleted snapshot"),
            Err(error) => warn!(snapshot = name, %error, "the log of a deleted snapshot is kept"),
        }
    }
}
