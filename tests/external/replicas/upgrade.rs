//! Servers of one release replace those of the release before, one after the other, while clients
//! ask and change. Then they are replaced by the former ones again.
//!
//! `EVENKEEL_FORMER` is the former release's program. Without it, servers are replaced by new ones
//! of the same version.

use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

use crate::replicas::chaos::{nothing_is_lost, seed};
use crate::replicas::fleet::Fleet;
use crate::replicas::process::{command, command_of};

/// The time that servers of both releases run side by side.
const BETWEEN: Duration = Duration::from_secs(3);

fn this() -> Command {
    command(&["serve"])
}

fn former() -> Command {
    let program: Option<OsString> = std::env::var_os("EVENKEEL_FORMER");
    program.map_or_else(this, |program| command_of(&program, &["serve"]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_while_servers_are_upgraded_and_back() {
    let Some(mut fleet) = Fleet::start(3, 3, &[]) else {
        return;
    };
    for number in 0..3 {
        replace(&mut fleet, number, former()).await;
    }
    let upgrade_and_back = async |fleet: &mut Fleet| {
        for release in [this, former, this] {
            for number in 0..3 {
                replace(fleet, number, release()).await;
                tokio::time::sleep(BETWEEN).await;
            }
        }
    };
    nothing_is_lost(&mut fleet, (seed(), Duration::ZERO), upgrade_and_back).await;
}

/// Stops a server as an orchestrator does, and starts another one in its place.
async fn replace(fleet: &mut Fleet, number: usize, by: Command) {
    fleet.stop(number, "TERM").await;
    fleet.run_with(number, by);
}
