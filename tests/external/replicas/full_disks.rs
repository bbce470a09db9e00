//! Full disks of nats-servers: changes are refused for that reason, and decisions go on. Changes
//! are taken again once there is room and the nats-servers were restarted.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use support::refusal::reason;
use tokio::time::sleep;
use tonic::Code;

use crate::replicas::brokers::Brokers;
use crate::replicas::build::node;
use crate::replicas::fleet::{Fleet, batch, described, update};
use crate::replicas::http::get;
use crate::replicas::process::{DEADLINE, command, until};
use support::model::Stored;

/// The size of these disks: a quarter of each is more than a log may take.
const MEGABYTES: usize = 512;

/// A disk in memory for one nats-server.
pub(crate) struct Disk(PathBuf);

impl Disk {
    /// Mounts a small disk as the store of a nats-server that does not run.
    pub(crate) fn under(store: &Path, megabytes: usize) -> Self {
        std::fs::create_dir_all(store).expect("a directory");
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "none"])
            .arg(store)
            .output()
            .expect("there is mount");
        let why = String::from_utf8_lossy(&mounted.stderr);
        assert!(
            mounted.status.success(),
            "needs root, who may mount a disk: {why}"
        );
        Self(store.to_owned())
    }

    /// Fills the disk.
    pub(crate) fn fill(&self) {
        let zeros = vec![0; 64 << 10];
        let path = self.0.join("filled");
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(path);
        let mut file = file.expect("a file");
        while std::io::Write::write(&mut file, &zeros).is_ok_and(|written| written > 0) {}
    }

    /// Makes room on the disk again.
    pub(crate) fn clear(&self) {
        std::fs::remove_file(self.0.join("filled")).expect("it was filled");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Processes that use the disk may still run, so it is unmounted lazily.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Moves the stores of nats-servers to small disks.
pub(crate) fn move_stores(brokers: &mut Brokers) -> Vec<Disk> {
    let mut disks = Vec::new();
    for number in 0..brokers.count() {
        brokers.signal(number, "KILL");
        disks.push(Disk::under(&brokers.store(number), MEGABYTES));
    }
    (0..brokers.count()).for_each(|number| brokers.run(number));
    disks
}

/// Fills the disk of the first nats-server. Servers start beside it all the same.
async fn one_is_full(fleet: &mut Fleet, disk: &Disk) {
    disk.fill();
    let start = Instant::now();
    while !fleet.brokers.logged(0).contains("JetStream Shutdown") {
        assert!(start.elapsed() < DEADLINE, "it has room");
        let change = batch("default", vec![node("a", &[]).change()]);
        update(&fleet.clients(), 0, &change).await;
    }
    for number in [0, 1, 0, 1, 0, 1] {
        fleet.signal(number, "KILL");
        fleet.run(number);
    }
    fleet.agree("default").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs root and nats-server: deploy/tools.sh install_nats"]
async fn full_disks_of_nats_servers_are_told_as_such() {
    let mut brokers = Brokers::start(3);
    let disks = move_stores(&mut brokers);
    let mut fleet = Fleet::on(brokers, 2, &["--admin-listen", "127.0.0.1:0"]);
    let change = |name: &str| batch("default", vec![node(name, &[]).change()]);
    for name in ["a", "b"] {
        update(&fleet.clients(), 0, &change(name)).await;
    }
    let before = fleet.agree("default").await;
    fleet.brokers.settle().await;
    one_is_full(&mut fleet, &disks[0]).await;
    disks[1..].iter().for_each(Disk::fill);

    // Until all nats-servers have noticed that their disks are full, the fate of a change is
    // unknown.
    for mut client in fleet.clients() {
        let start = Instant::now();
        loop {
            let refused = client.update_snapshot(change("a")).await;
            if let Err(refused) = refused {
                let reason = reason(&refused);
                println!("{:?}: {reason:?}", start.elapsed());
                if reason.as_deref() == Some("STORAGE_FULL") {
                    assert_eq!(refused.code(), Code::ResourceExhausted);
                    assert!(refused.message().contains("disks"), "{refused}");
                    break;
                }
            }
            assert!(start.elapsed() < DEADLINE, "nobody says that it is full");
            sleep(Duration::from_millis(100)).await;
        }
        let held = described(&mut client, "default").await;
        assert_eq!(held.expect("it answers").epoch, before.epoch);
    }

    // A server that starts while the disks are full waits.
    fleet.signal(1, "KILL");
    fleet.begin_with(1, command(&["serve"]));
    let admin = fleet.admin(1);
    until("it says what it waits for", || {
        let page = get(&admin, "/readyz");
        let waits = "waiting for the log: ";
        (page.body.contains(waits) && page.body.contains("without JetStream")).then_some(())
    });

    for (number, disk) in disks.iter().enumerate() {
        fleet.brokers.signal(number, "TERM");
        disk.clear();
        fleet.brokers.run(number);
    }
    update(&fleet.clients(), 0, &change("c")).await;
    let held = fleet.agree("default").await;
    assert_eq!((held.epoch, held.objects.len()), (before.epoch, 3));
    fleet.verify_log().await;
    // The nats-servers, which use the disks, end first.
    drop(fleet);
}
