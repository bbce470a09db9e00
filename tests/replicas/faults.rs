//! Faults of machines, their networks, disks and clocks.

use std::fmt;
use std::path::Path;

/// A fault, which ends after some seconds. The leader is the nats-server that leads a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    ServerKilled,
    ServersKilled,
    ServerPaused,
    LeaderKilled,
    LeaderPaused,
    LeaderSteppedDown,
    Restarted,
    TwoKilled,
    AllKilled,
    LeaderCutOff,
    LeaderMute,
    LeaderDeaf,
    ServerCutOff,
    ServerMute,
    ServerDeaf,
    Halves,
    HalvesOneWay,
    Lossy,
    Wiped,
    LogFlipped,
    BlobFlipped,
    DiskFull,
    DisksFull,
    ClockAhead,
    ClockBehind,
    StartsAhead,
    StartsBehind,
}

const ALL: [Fault; 27] = [
    Fault::ServerKilled,
    Fault::ServersKilled,
    Fault::ServerPaused,
    Fault::LeaderKilled,
    Fault::LeaderPaused,
    Fault::LeaderSteppedDown,
    Fault::Restarted,
    Fault::TwoKilled,
    Fault::AllKilled,
    Fault::LeaderCutOff,
    Fault::LeaderMute,
    Fault::LeaderDeaf,
    Fault::ServerCutOff,
    Fault::ServerMute,
    Fault::ServerDeaf,
    Fault::Halves,
    Fault::HalvesOneWay,
    Fault::Lossy,
    Fault::Wiped,
    Fault::LogFlipped,
    Fault::BlobFlipped,
    Fault::DiskFull,
    Fault::DisksFull,
    Fault::ClockAhead,
    Fault::ClockBehind,
    Fault::StartsAhead,
    Fault::StartsBehind,
];

impl Fault {
    /// All that can be inflicted; those of clocks where they can be set.
    pub(crate) fn all(has_clocks: bool) -> Vec<Self> {
        let of_clocks = [
            Self::ClockAhead,
            Self::ClockBehind,
            Self::StartsAhead,
            Self::StartsBehind,
        ];
        let mut all = ALL.to_vec();
        all.retain(|fault| has_clocks || !of_clocks.contains(fault));
        all
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ServerKilled => "a server is killed",
            Self::ServersKilled => "all servers are killed",
            Self::ServerPaused => "a server is paused",
            Self::LeaderKilled => "the leader is killed",
            Self::LeaderPaused => "the leader is paused",
            Self::LeaderSteppedDown => "the leader steps down",
            Self::Restarted => "nats-servers are restarted one after another",
            Self::TwoKilled => "two nats-servers are killed, of which one leads",
            Self::AllKilled => "all nats-servers are killed",
            Self::LeaderCutOff => "the leader is cut off from the other nats-servers",
            Self::LeaderMute => "what the leader sends to the other nats-servers is dropped",
            Self::LeaderDeaf => "what the other nats-servers send to the leader is dropped",
            Self::ServerCutOff => "a server is cut off from all nats-servers",
            Self::ServerMute => "what a server sends to nats-servers is dropped",
            Self::ServerDeaf => "what nats-servers send to a server is dropped",
            Self::Halves => "the leader and a server are cut off from all others",
            Self::HalvesOneWay => "what the leader and a server send to all others is dropped",
            Self::Lossy => "a fifth of what the leader sends is lost",
            Self::Wiped => "the store of a nats-server is emptied",
            Self::LogFlipped => "a bit of a log is flipped, and a server starts",
            Self::BlobFlipped => "a bit of a checkpoint is flipped, and a server starts",
            Self::DiskFull => "the disk of a nats-server is full",
            Self::DisksFull => "the disks of all nats-servers are full",
            Self::ClockAhead => "the clock of a server is set 2 h ahead",
            Self::ClockBehind => "the clock of a server is set 1 h back",
            Self::StartsAhead => "a server starts 2 h ahead",
            Self::StartsBehind => "a server starts 1 h behind",
        })
    }
}

/// Flips a bit in what a nats-server that does not run keeps of a stream.
pub(crate) fn damage(store: &Path, stream: &str, dice: &mut fastrand::Rng) {
    let messages = store.join("jetstream/$G/streams").join(stream).join("msgs");
    let files = std::fs::read_dir(messages).expect("it has some");
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
