//! A server as one of several that share a log: it follows the log of each
//! snapshot, and appends to it what its clients want.
//!
//! Everything here is synchronous, and waits where its caller may wait. So a
//! simulation can stop it at every call to the log.
//!
//! # What is promised, and where
//!
//! Every promise about a log that is not trusted has one place:
//!
//! - The same records in the same order: `Place::judge` in `log/record.rs`: a record counts if and
//!   only if it names the sequence before its own, the log, and the hash of the log up to there.
//! - What was checked is what is applied: `publish` in `replica/writing.rs`: a record is appended
//!   only right after the last one that was read. Where somebody was first, the turn applies that and
//!   plans again (`WriteTurn::attempt`, `Commit::plan_again`), up to 8 times.
//! - What a change answers is of the newest state: `WriteTurn::attempt`: what was recorded comes
//!   right after all that was acknowledged. Of what was not, a refusal for instance, or a reservation
//!   that is held for long enough already, the answer is final only once all of that is applied.
//! - Where a log ends nobody is believed: `Replica::confirm_end` in `replica/writing.rs`: a leader that
//!   was cut off from the others goes on telling an older end for some seconds. So a server appends a
//!   record without entries: what comes before that is all that was acknowledged. A server that
//!   starts does so, one that refuses a change, and one that reads a snapshot anew.
//! - No server goes back within an epoch: `replica/healing.rs`: what is read anew is a snapshot of its
//!   own (`Successor`), which nobody sees before it was read to the end. It answers if it is
//!   not behind what was answered before (`Reading::is_behind`). Otherwise the log has lost that, and
//!   goes on under a new epoch. No epoch begins again by itself (`Replica::hand_out`).
//! - Of what is refused nothing is recorded: `WriteTurn::attempt`: once it is not known whether an
//!   attempt is recorded, the change ends with that doubt, whatever the next attempt comes to.
//! - What is acknowledged is in the log: `land` in `replica/writing.rs`: the answer comes after the
//!   own follower read the record. Without an answer the same bytes are sent again, which can land
//!   once.
//! - Nothing of a record is left out: `decode` in `log/record.rs`: a later format, a field or a kind
//!   of entry that this version does not know ends following (`Condition::Later`). A release writes
//!   the format that the one before it reads.
//! - Revisions and epochs are the same everywhere: they are in the entry. A snapshot has no epoch
//!   before its first entry (`Snapshot::begin`).
//! - One server feeds, and what a former one wanted never comes after what the next one did: a feed's
//!   change needs a right (`Fence`), which `plan` in `snapshot/history/commit.rs` asks for each time
//!   it checks the change: what is checked is appended right after what was read, and the right ends
//!   before another server has it (`log/lease.rs`).
//! - What nobody was told of is released: a reservation without a request id of which no answer came
//!   is noted by the mark of its record (`Doubt`); if that is read after all,
//!   `snapshot/history/unclaimed.rs` notes that it is made, and `ending.rs` ends it like one whose
//!   time is over.
//! - Expiry is the same everywhere: an end is an entry, as without a log; until then a reservation
//!   counts. `replica/clocks.rs`: each server measures time by its own monotonic clock, and appends
//!   nothing while its wall clock is wrong.
//! - Nobody goes on with wrong data: `replica/reading.rs`: a gap, a damaged message, a fork or
//!   another log is read again, from the leader, then from others. If it stays so the snapshot stops
//!   answering (`WriteTurn::not_stored`) until `replica/healing.rs` has read it anew.
//! - Servers hold the same, not only what they have read: `replica/comparing.rs`: the first record of
//!   each quarter of an hour, by the clock of the log, is one after which every server copies the
//!   snapshot (`Journal::stands`, with the turn) and tells the others the digest, in a key of the
//!   log. What the fewest hold is in doubt. Its servers stop answering from it and read it anew. Of
//!   as few it is that of the server that has read the log for longest, so of two servers one reads
//!   anew first, and the other if they still differ.
//!
//! # How it works
//!
//! - Entries of others come in through `Journal::missed`, always with the turn: `WriteTurn::catch_up`
//!   applies them. The server's own entries take the same place in the log and are applied from
//!   memory.
//! - A snapshot and its log agree on the epoch and the number of the last entry (`Standing`). A
//!   snapshot that is asked about from elsewhere is over: its name is that of another one now, and
//!   callers look it up again, as after a deletion.
//! - A replace, and a group of more than 900 kB, is written to blobs first. The record names them
//!   with their hash.
//! - A **checkpoint** is an entry that makes the snapshot anew, with its place in the log. A new
//!   server takes the newest one that the log continues, and the rest of the log; without one it
//!   reads from the first record.
//! - Servers that append to one log take turns: one that has appended lets as many others come first
//!   as came since it did so before, for 10 ms each (`Reading::note_own`, `Journal::let_others`).
//!   Nothing is sent for that. With four servers that want one snapshot all the time,
//!   `tests/simulation/fairness.rs` bounds how often a change loses.
//! - The log of a deleted snapshot is closed by a record a day later, after which nobody appends, and
//!   then removed. `Log::remove_if` removes it on the condition that it ends with that record. NATS
//!   deletes streams on no condition: so the stream of a log that is made anew has the next number in
//!   its name, which a key counts by compare-and-set before the former stream is deleted. A deletion
//!   that comes late hits nothing else.
//! - With a state directory each record is also one transaction of the `store`, with the place after
//!   it. A server that starts takes a snapshot from there if its log goes on at that place
//!   (`Replica::continues`, as for a checkpoint). What the directory lacks, after a full disk for
//!   instance, it gets whole (`Replica::mend_local`). So the log is never behind because of a disk
//!   here.
//! - If somebody deletes the log (`Condition::Gone`), what was read of it answers, and changes are
//!   refused. Once there is a log again, it is read on if it goes on at the place of this server, and
//!   anew otherwise. An election of the broker is told from that: then the log is only not found by
//!   who follows it.
//! - If the log is said to end before what was read of it, it is asked again, and followed on as soon
//!   as it goes on there. If it lost its end, a record lands there. Then the first server that is ahead
//!   of it writes the snapshot to it anew, under a new epoch.
//! - A server that read a forged record, and appends before it reads the next one, makes a record
//!   that no other server accepts: the others stop answering rather than guess. Only an engine that
//!   gives two readers different messages, both well-formed, can cause that. To make such a record
//!   count for nobody, its readers would have to know that they are right and its writer wrong. Only
//!   who has read everything from the leader since the last checkpoint knows that, and the writer
//!   would have to do so before each acknowledgement. That doubles what is read of a log, and is not
//!   done. `docs/scaling-out.md` says how to begin with a new log.
//!
//! `track` knows how far a server has come, `reading` reads message by message, `writing` appends,
//! `healing` reads a snapshot anew, `comparing` compares what servers hold, `checkpoint` and
//! `cleaning` trim and drop, `local` keeps a state directory as well, `parts` and `aside` put into
//! blobs what is too large for a record.

mod aside;
mod checkpoint;
mod cleaning;
mod clocks;
mod comparing;
mod condition;
mod counts;
mod decode;
mod digest;
mod directory;
mod healing;
mod journal;
mod local;
mod parts;
mod reading;
mod server;
mod track;
mod waiting;
mod writing;

pub use checkpoint::newest_checkpoints;
pub use counts::{Counts, Lag};
pub use local::Unusable;
pub use server::Replica;
pub use waiting::Waiting;
