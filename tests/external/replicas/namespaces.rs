//! Three servers and three nats-servers, each on a machine of its own, under all faults of
//! machines, networks, disks and clocks, for ten minutes or `FAULT_SECONDS`. The test prints a table
//! of how long servers took to take changes again. `SEED` repeats the order.
//!
//! Clocks are set through libfaketime, from the package of that name or the path in
//! `FAKETIME_LIBRARY`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;

use crate::replicas::brokers::{Brokers, Setup};
use crate::replicas::chaos::{nothing_is_lost, seed};
use crate::replicas::faults::{Fault, damage};
use crate::replicas::fleet::Fleet;
use crate::replicas::full_disks::{Disk, move_stores};
use crate::replicas::machines::Machines;
use crate::replicas::process::command;
use crate::replicas::recovery::{Recoveries, recovered};

/// The pause of each client between two calls.
const PAUSE: Duration = Duration::from_millis(200);

/// Returns for how long faults are inflicted.
fn duration() -> Duration {
    let seconds = std::env::var("FAULT_SECONDS").ok();
    Duration::from_secs(seconds.map_or(600, |text| text.parse().expect("a number of seconds")))
}

/// Returns the library that tells programs another time.
fn faketime() -> PathBuf {
    let packaged = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
    let library = std::env::var_os("FAKETIME_LIBRARY").unwrap_or_else(|| packaged.into());
    let library = PathBuf::from(library);
    assert!(
        library.exists(),
        "needs libfaketime: apt-get install libfaketime, or FAKETIME_LIBRARY"
    );
    library
}

/// The harm that is done to a fleet on machines.
struct Harm {
    dice: fastrand::Rng,
    disks: Vec<Disk>,
    faketime: PathBuf,
    /// The nats-server whose store was damaged last.
    damaged: Option<usize>,
}

/// The file that says by how much the clock of a server is off.
fn clock(number: usize) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("clock-{number}"))
}

impl Harm {
    /// Sets the clock of a server.
    fn set_clock(number: usize, off: &str) {
        std::fs::write(clock(number), off).expect("it is written");
    }

    /// The command that starts a server with a clock that can be set.
    fn serve(&self, number: usize) -> Command {
        let mut serve = command(&["serve"]);
        serve
            .env("LD_PRELOAD", &self.faketime)
            .env("FAKETIME_TIMESTAMP_FILE", clock(number))
            .env("FAKETIME_CACHE_DURATION", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("FAKETIME_DISABLE_SHM", "1");
        serve
    }

    /// Kills a server, and starts it again.
    fn start_anew(&self, fleet: &mut Fleet, number: usize) {
        fleet.signal(number, "KILL");
        fleet.begin_with(number, self.serve(number));
    }

    /// Empties the store of a nats-server, which then copies all from the others.
    async fn wipe(&self, fleet: &mut Fleet, number: usize) {
        fleet.brokers.settle().await;
        fleet.brokers.signal(number, "TERM");
        let streams = fleet.brokers.store(number).join("jetstream");
        std::fs::remove_dir_all(streams).expect("it has a store");
        fleet.brokers.run(number);
    }

    async fn between(&mut self, least: u64, most: u64) {
        sleep(Duration::from_millis(self.dice.u64(least..most) * 100)).await;
    }

    /// Inflicts a fault, and ends it.
    async fn inflict(&mut self, fleet: &mut Fleet, fault: Fault) {
        let (victim, server) = (self.dice.usize(..3), self.dice.usize(..3));
        let leader = fleet.brokers.leader("default").await;
        let others = [(leader + 1) % 3, (leader + 2) % 3];
        match fault {
            Fault::ServerKilled => {
                fleet.signal(server, "KILL");
                self.between(5, 50).await;
                self.start_anew(fleet, server);
            }
            Fault::ServersKilled => {
                (0..3).for_each(|number| fleet.signal(number, "KILL"));
                self.between(5, 50).await;
                (0..3).for_each(|number| self.start_anew(fleet, number));
            }
            Fault::ServerPaused => {
                fleet.signal(server, "STOP");
                self.between(20, 120).await;
                fleet.signal(server, "CONT");
            }
            Fault::LeaderKilled => self.kill(fleet, &[leader]).await,
            Fault::TwoKilled => self.kill(fleet, &[leader, others[0]]).await,
            Fault::AllKilled => self.kill(fleet, &[0, 1, 2]).await,
            Fault::LeaderPaused => {
                fleet.brokers.signal(leader, "STOP");
                self.between(20, 120).await;
                fleet.brokers.signal(leader, "CONT");
            }
            Fault::LeaderSteppedDown => {
                let stream = fleet.brokers.stream("default").await;
                let name = &stream.cached_info().config.name;
                fleet.brokers.step_down(name, &json!({})).await;
            }
            Fault::Restarted => {
                for number in 0..3 {
                    fleet.brokers.settle().await;
                    fleet.brokers.signal(number, "TERM");
                    fleet.brokers.run(number);
                }
            }
            Fault::Wiped => self.wipe(fleet, victim).await,
            Fault::LogFlipped | Fault::BlobFlipped => {
                let stream = match fault {
                    Fault::LogFlipped => "EVK_test_LOG_default",
                    _ => "EVK_test_BLOBS",
                };
                fleet.brokers.settle().await;
                fleet.brokers.signal(victim, "TERM");
                damage(&fleet.brokers.store(victim), stream, &mut self.dice);
                self.damaged = Some(victim);
                fleet.brokers.run(victim);
                self.start_anew(fleet, server);
            }
            Fault::DiskFull | Fault::DisksFull => {
                let full = match fault {
                    Fault::DiskFull => victim..victim + 1,
                    _ => 0..3,
                };
                self.disks[full.clone()].iter().for_each(Disk::fill);
                self.between(60, 150).await;
                for number in full {
                    fleet.brokers.signal(number, "TERM");
                    self.disks[number].clear();
                    fleet.brokers.run(number);
                }
            }
            Fault::ClockAhead | Fault::ClockBehind | Fault::StartsAhead | Fault::StartsBehind => {
                let is_ahead = matches!(fault, Fault::ClockAhead | Fault::StartsAhead);
                Self::set_clock(server, if is_ahead { "+7200" } else { "-3600" });
                if matches!(fault, Fault::StartsAhead | Fault::StartsBehind) {
                    self.start_anew(fleet, server);
                }
                self.between(60, 150).await;
                Self::set_clock(server, "+0");
            }
            _ => self.part(fleet, fault, (leader, server)).await,
        }
    }

    async fn kill(&mut self, fleet: &mut Fleet, numbers: &[usize]) {
        for number in numbers {
            fleet.brokers.signal(*number, "KILL");
        }
        self.between(10, 80).await;
        numbers.iter().for_each(|number| fleet.brokers.run(*number));
    }

    /// Drops what some machines send to others, for a while.
    async fn part(&mut self, fleet: &Fleet, fault: Fault, (leader, server): (usize, usize)) {
        let machines = fleet.brokers.machines().expect("each has one");
        let others = [(leader + 1) % 3, (leader + 2) % 3];
        let servers = [3, 4, 5];
        let own = server + 3;
        let rest: Vec<usize> = others
            .into_iter()
            .chain(servers.into_iter().filter(|it| *it != own))
            .collect();
        let (from, to): (Vec<usize>, Vec<usize>) = match fault {
            Fault::LeaderCutOff | Fault::LeaderMute | Fault::LeaderDeaf => {
                (vec![leader], others.to_vec())
            }
            Fault::ServerCutOff | Fault::ServerMute | Fault::ServerDeaf => {
                (vec![own], vec![0, 1, 2])
            }
            Fault::Halves | Fault::HalvesOneWay => (vec![leader, own], rest),
            _ => (vec![leader], vec![]),
        };
        let pairs = from.iter().flat_map(|a| to.iter().map(move |b| (*a, *b)));
        for (a, b) in pairs {
            if !matches!(fault, Fault::LeaderDeaf | Fault::ServerDeaf) {
                machines.cut(a, b);
            }
            if !matches!(
                fault,
                Fault::LeaderMute | Fault::ServerMute | Fault::HalvesOneWay
            ) {
                machines.cut(b, a);
            }
        }
        if fault == Fault::Lossy {
            machines.lose_some(leader);
        }
        self.between(50, 180).await;
        machines.join();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs root, libfaketime (apt-get install iproute2 iptables libfaketime) and nats-server: deploy/tools.sh install_nats"]
async fn no_fault_of_machines_breaks_a_promise() {
    let faketime = faketime();
    let machines = Machines::start(6);
    let setup = Setup {
        machines: Some(machines),
        ..Setup::default()
    };
    let mut brokers = Brokers::start_with(3, setup);
    let disks = move_stores(&mut brokers);
    let seed = seed();
    let mut harm = Harm {
        dice: fastrand::Rng::with_seed(seed),
        disks,
        faketime,
        damaged: None,
    };
    let mut fleet = Fleet::on(brokers, 3, &["--allow-plaintext"]);
    for number in 0..3 {
        Harm::set_clock(number, "+0");
        fleet.signal(number, "KILL");
        fleet.run_with(number, harm.serve(number));
    }
    let clients = fleet.clients();
    recovered(&clients, "before").await;
    let mut recoveries = Recoveries::default();
    let meanwhile = async |fleet: &mut Fleet| {
        let end = Instant::now() + duration();
        let mut faults = Vec::new();
        while Instant::now() < end {
            let fault = match faults.pop() {
                Some(fault) => fault,
                None => {
                    faults = Fault::all();
                    harm.dice.shuffle(&mut faults);
                    continue;
                }
            };
            println!("{fault}");
            harm.inflict(fleet, fault).await;
            let took = recovered(&clients, &fault.to_string()).await;
            println!("{fault}: {:.1} s", took.as_secs_f64());
            recoveries.note(fault, took);
            // Repairs the store as an administrator does, because only one copy of three may be
            // damaged at a time.
            if let Some(victim) = harm.damaged.take() {
                harm.wipe(fleet, victim).await;
            }
            fleet.brokers.settle().await;
        }
    };
    nothing_is_lost(&mut fleet, (seed, PAUSE), meanwhile).await;
    println!("{}", recoveries.table());
}
