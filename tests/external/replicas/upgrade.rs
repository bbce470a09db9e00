//! Servers are replaced one after the other, as an upgrade does it, while clients ask and change.

use std::time::Duration;

use crate::replicas::chaos::{nothing_is_lost, seed};
use crate::replicas::fleet::Fleet;

/// The time between two servers, in which the last one serves beside the others.
const BETWEEN: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn nothing_is_lost_while_servers_are_replaced() {
    let mut fleet = Fleet::start(3, 3, &[]);
    let replace_all = async |fleet: &mut Fleet| {
        for _ in 0..2 {
            for number in 0..3 {
                // As an orchestrator stops a server.
                fleet.stop(number, "TERM").await;
                fleet.run(number);
                tokio::time::sleep(BETWEEN).await;
            }
        }
    };
    nothing_is_lost(&mut fleet, (seed(), Duration::ZERO), replace_all).await;
}
