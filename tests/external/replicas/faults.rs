//! Faults of machines, their networks, disks and clocks.

use std::fmt;
use std::path::Path;

use crate::replicas::brokers::messages_of;

macro_rules! faults {
    ($($fault:ident: $words:literal,)*) => {
        /// A fault, which ends after some seconds. The leader is the nats-server that leads a log.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Fault {
            $($fault,)*
        }

        const ALL: &[Fault] = &[$(Fault::$fault,)*];

        impl fmt::Display for Fault {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$fault => $words,)*
                })
            }
        }
    };
}

faults! {
    ServerKilled: "a server is killed",
    ServersKilled: "all servers are killed",
    ServerPaused: "a server is paused",
    LeaderKilled: "the leader is killed",
    LeaderPaused: "the leader is paused",
    LeaderSteppedDown: "the leader steps down",
    Restarted: "nats-servers are restarted one after another",
    TwoKilled: "two nats-servers are killed, of which one leads",
    AllKilled: "all nats-servers are killed",
    LeaderCutOff: "the leader is cut off from the other nats-servers",
    LeaderMute: "what the leader sends to the other nats-servers is dropped",
    LeaderDeaf: "what the other nats-servers send to the leader is dropped",
    ServerCutOff: "a server is cut off from all nats-servers",
    ServerMute: "what a server sends to nats-servers is dropped",
    ServerDeaf: "what nats-servers send to a server is dropped",
    Halves: "the leader and a server are cut off from all others",
    HalvesOneWay: "what the leader and a server send to all others is dropped",
    Lossy: "a fifth of what the leader sends is lost",
    Wiped: "the store of a nats-server is emptied",
    LogFlipped: "a bit of a log is flipped, and a server starts",
    BlobFlipped: "a bit of a checkpoint is flipped, and a server starts",
    DiskFull: "the disk of a nats-server is full",
    DisksFull: "the disks of all nats-servers are full",
    ClockAhead: "the clock of a server is set 2 h ahead",
    ClockBehind: "the clock of a server is set 1 h back",
    StartsAhead: "a server starts 2 h ahead",
    StartsBehind: "a server starts 1 h behind",
}

impl Fault {
    pub(crate) fn all() -> Vec<Self> {
        ALL.to_vec()
    }
}

/// Flips a bit of the stream whose name begins with this in the store of a nats-server that does not run.
pub(crate) fn damage(store: &Path, stream: &str, dice: &mut fastrand::Rng) {
    let files = std::fs::read_dir(messages_of(store, stream)).expect("it has some");
    let blocks = files.map(|file| file.expect("it can be listed").path());
    let blocks = blocks.filter(|path| path.extension().is_some_and(|it| it == "blk"));
    let length = |path: &std::path::PathBuf| path.metadata().map_or(0, |it| it.len());
    let largest = blocks.max_by_key(length).expect("it has some");
    let mut bytes = std::fs::read(&largest).expect("it can be read");
    if !bytes.is_empty() {
        let place = dice.usize(..bytes.len());
        bytes[place] ^= 1 << dice.u8(..8);
    }
    std::fs::write(&largest, bytes).expect("it is written");
}
