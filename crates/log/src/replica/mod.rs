//! A replica: one of several servers that share a log. It follows the log of each snapshot, and
//! appends the changes that its clients want.
//!
//! Everything here is synchronous, and waits where its caller may wait. So a simulation can stop a
//! replica at every call to the log.
//!
//! # What is promised, and where
//!
//! Every promise has one place:
//!
//! - The same records in the same order: `Place::judge` in `record.rs`: a record counts if and
//!   only if it names the sequence before its own, the log, and the hash of the log up to there.
//! - A change is applied to the state that it was checked against: `publish` in
//!   `replica/writing.rs`: a record is appended only right after the last one that was read. If
//!   another server was first, the turn applies its record and plans again (`WriteTurn::attempt`,
//!   `Commit::plan_again`), up to 32 times.
//! - A change answers from the newest state: `WriteTurn::attempt`: a recorded change comes right
//!   after all acknowledged records. If nothing is recorded, as for a refusal or for a reservation
//!   that is held for long enough already, the answer is final only once all acknowledged records
//!   are applied.
//! - No server's word on the end of a log is believed: `Replica::confirm_end` in
//!   `replica/writing.rs`: a leader that was cut off from the others goes on telling an older end
//!   for some seconds. So a server appends a record without entries: all acknowledged records come
//!   before it. A server does so when it starts, refuses a change, or reads a snapshot anew.
//! - No server goes back within an epoch: `replica/healing.rs`: a snapshot that is read anew
//!   (`Successor`) is hidden until it was read to the end. It answers if it is not behind earlier
//!   answers (`Reading::is_behind`). Otherwise the log has lost records, and goes on under a new
//!   epoch. No epoch begins again by itself (`Replica::hand_out`).
//! - Nothing of a refused change is recorded: `WriteTurn::attempt`: once it is not known whether an
//!   attempt is recorded, the change ends with that doubt, whatever the result of the next attempt.
//! - Every acknowledged change is in the log: `land` in `replica/writing.rs`: the client gets its
//!   answer after this server's follower has read the record. If the log does not answer, the same
//!   bytes are sent again, and can land only once.
//! - Nothing of a record is left out: `decode` in `record.rs`: a later format, a field or a
//!   kind of entry that this version does not know ends following (`Condition::Later`). A release
//!   writes the format that the release before it reads.
//! - Revisions and epochs are the same everywhere: they are in the entry. A snapshot has no epoch
//!   before its first entry (`Snapshot::begin`).
//! - One server feeds, and no change of a former feeder comes after a change of the next one: a
//!   feed's change needs a right (`Fence`), for which `plan` in `snapshot/history/commit.rs` asks
//!   each time it checks the change. A checked change is appended right after the last record that
//!   was read, and the right ends before another server has it (`lease.rs`).
//! - Expiry is the same everywhere: a reservation counts until an entry ends it, as without a log.
//!   Each server measures time by its own monotonic clock. How old a record is that it reads when
//!   it starts, follows from the log's own times (`Replica::age_of`). No wall clock of a server
//!   decides anything.
//! - No server goes on with wrong data: `replica/reading.rs`: at a gap, a damaged message, a fork
//!   or another log, the snapshot stops answering (`WriteTurn::not_stored`) until
//!   `replica/healing.rs` has read it anew from the newest checkpoint. This is the only path for
//!   every doubt.
//!
//! # How it works
//!
//! - Entries of other servers come in through `Journal::missed`, always with the turn:
//!   `WriteTurn::catch_up` applies them. The server's own entries take the same place in the log
//!   and are applied from memory.
//! - A snapshot and its log agree on the epoch and the number of the last entry (`Standing`). If
//!   they disagree, the snapshot is over: its name belongs to another snapshot now, and callers
//!   look that up, as after a deletion.
//! - A replace, and a group of more than 900 kB, is written to blobs first. The record names them
//!   with their hash.
//! - A **checkpoint** is an entry that makes the snapshot anew, its objects, and its place in the log. A new
//!   server takes the newest one that the log continues, and the rest of the log; without one it
//!   reads from the first record.
//! - The log of a deleted snapshot is soon closed by a record, after which nobody appends, and then
//!   removed. A key notes that, for servers that have not read of the deletion. `Log::remove_if`
//!   removes it on the condition that it ends with that record.
//!   NATS deletes streams without a condition. So each log has a stream whose name no other gets,
//!   and a late deletion deletes no other stream.
//! - If somebody deletes the log (`Condition::Gone`), the snapshot answers from what was read, and
//!   changes are refused. Once there is a log again, it is read anew. An election of the broker is
//!   not mistaken for that: then only the follower does not find the log.
//! - If the log is said to end before what was read of it, the server reads it anew, aside. A leader
//!   that was cut off takes no record, so that does not end before another leader answers. If the
//!   log has lost its end, a record of the server lands there, and what is left of the log goes on
//!   under a new epoch.
//!
//! `track` holds the progress of a server, `reading` reads message by message, `writing` appends,
//! `healing` reads a snapshot anew, `checkpoint` and `cleaning` trim and drop, `aside` puts data into
//! blobs that is too large for a record.

mod aside;
mod checkpoint;
mod cleaning;
pub(crate) mod decode;
mod healing;
mod journal;
mod reading;
mod server;
mod track;
mod writing;

pub use checkpoint::newest_checkpoints;
pub use server::{Counts, Lag, Replica, Waiting};
