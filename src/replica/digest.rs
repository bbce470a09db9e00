//! The digests by which servers find out whether they hold the same snapshot.

use std::collections::BTreeMap;

use prost::Message;
use ring::digest::{Context, SHA256};

use crate::log::EntryRow;
use crate::snapshot::{Change, Whole};

/// The digests of the servers of a fleet after one record of a log.
#[derive(Clone, PartialEq, Message)]
pub struct DigestsRow {
    /// The log.
    #[prost(bytes = "vec", tag = "1")]
    pub log_id: Vec<u8>,
    /// The sequence of the record.
    #[prost(uint64, tag = "2")]
    pub sequence: u64,
    /// The votes of the servers that have voted, one of each.
    #[prost(message, repeated, tag = "3")]
    pub votes: Vec<DigestVote>,
}

/// The digest of one server.
#[derive(Clone, PartialEq, Message)]
pub struct DigestVote {
    /// The server.
    #[prost(string, tag = "1")]
    pub server: String,
    /// SHA-256 of its snapshot.
    #[prost(bytes = "vec", tag = "2")]
    pub digest: Vec<u8>,
    /// The sequence from which on the server has read the log: that of the checkpoint with which it
    /// began, or 0.
    #[prost(uint64, tag = "3")]
    pub since: u64,
}

impl DigestsRow {
    /// Returns whether all votes have the same digest.
    pub fn agree(&self) -> bool {
        let mut pairs = self.votes.windows(2);
        pairs.all(|pair| pair[0].digest == pair[1].digest)
    }

    /// Returns whether the digest of a server is in doubt: it is the one that the fewest servers
    /// have. Of equally rare digests, it is that of the server that has read the log for longest.
    /// So of two servers first one is in doubt and then, if they still differ after that one has
    /// read all anew, the other.
    pub fn doubts(&self, server: &str) -> bool {
        let mut held: BTreeMap<&[u8], Vec<(u64, &str)>> = BTreeMap::new();
        for vote in &self.votes {
            let holders = held.entry(&vote.digest).or_default();
            holders.push((vote.since, &vote.server));
        }
        let fewest = held
            .into_values()
            .min_by_key(|holders| (holders.len(), holders.iter().min().copied()));
        !self.agree() && fewest.is_some_and(|it| it.iter().any(|(_, name)| *name == server))
    }
}

/// SHA-256 of all that entries say of a snapshot. The time of its last change is left out: a
/// checkpoint may be older than the last sign of life.
pub fn digest_of(whole: &Whole) -> Vec<u8> {
    let mut hash = Context::new(&SHA256);
    let mut bytes = Vec::new();
    let mut add = |message: &dyn Fn(&mut Vec<u8>)| {
        bytes.clear();
        message(&mut bytes);
        hash.update(&bytes);
    };
    for change in whole.frozen.changes() {
        add(&|bytes| change.encode_length_delimited(bytes).expect("it has room"));
    }
    let row = EntryRow {
        updated: 0,
        ..EntryRow::of(&whole.saved.entry(Change::Batch(None)), None)
    };
    add(&|bytes| row.encode(bytes).expect("it has room"));
    hash.finish().as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_in_doubt() {
        for (votes, doubted) in [
            ("", ""),
            ("a:x:0", ""),
            ("a:x:0 b:x:0 c:x:9", ""),
            ("a:x:0 b:y:0 c:x:0", "b"),
            ("a:y:9 b:x:0 c:x:0", "a"),
            // The server that has read for longest is in doubt.
            ("a:x:7 b:y:0", "b"),
            ("a:x:7 b:y:9", "a"),
            ("a:x:7 b:y:7", "a"),
            ("a:x:7 b:x:9 c:y:8 d:y:9", "a b"),
            ("a:x:7 b:y:6 c:z:8", "b"),
        ] {
            let vote = |vote: &str| {
                let mut parts = vote.split(':').map(str::to_owned);
                let mut part = || parts.next().expect("three parts");
                DigestVote {
                    server: part(),
                    digest: part().into_bytes(),
                    since: part().parse().expect("a number"),
                }
            };
            let row = DigestsRow {
                votes: votes.split_whitespace().map(vote).collect(),
                ..DigestsRow::default()
            };
            let servers = row.votes.iter().map(|vote| &*vote.server);
            let found: Vec<&str> = servers.filter(|server| row.doubts(server)).collect();
            assert_eq!(found.join(" "), doubted, "{votes}");
            assert_eq!(row.agree(), doubted.is_empty(), "{votes}");
        }
    }
}
