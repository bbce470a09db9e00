//! Compares what this server holds with what the others of its fleet do.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tracing::error;

use super::joining::Membership;
use crate::api::Background;

/// How long a round of comparing takes.
const ROUND: Duration = Duration::from_secs(15);

/// By how much its priority is lower, as of `nice(1)`: nobody waits for it.
const NICENESS: i32 = 10;

/// Compares whenever that is due.
pub async fn run(member: Membership) -> Infallible {
    let thread = Background::for_work("compare", 1, NICENESS);
    loop {
        sleep(ROUND).await;
        let replica = Arc::clone(&member.replica);
        if thread.run(move || replica.compare_all()).await.is_err() {
            error!("comparing with other servers failed");
        }
    }
}
