//! Sessions: the process that has the file open, and whether it closed the file.

use std::path::Path;

use prost::Message;
use redb::WriteTransaction;
use uuid::Uuid;

use super::disk::Durability;
use super::error::StoreError;
use super::file::File;
use super::last_commit::Loss;
use super::rows::{FACTS, SNAPSHOTS, SnapshotRow};
use super::sealed;
use evenkeel_core::snapshot;

const SESSION_FACT: &str = "session";

const NUMBER_FACT: &str = "commit";

/// The number of the last commit, from 1.
#[derive(Clone, PartialEq, Message)]
struct NumberRow {
    #[prost(uint64, tag = "1")]
    number: u64,
}

/// A process that had the file open, or has it.
#[derive(Clone, PartialEq, Message)]
struct SessionRow {
    /// True if the process has not closed the file.
    #[prost(bool, tag = "1")]
    open: bool,
    /// True if updates that it acknowledged may be lost when it is killed.
    #[prost(bool, tag = "2")]
    buffers: bool,
    /// True if updates that it acknowledged may be lost in a power cut.
    #[prost(bool, tag = "3")]
    relaxed: bool,
    /// Identifies the boot of the system in which the process ran; empty when unknown.
    #[prost(string, tag = "4")]
    boot: String,
}

impl File {
    /// Records that a process has the file open, and its durability. All epochs are renewed if
    /// acknowledged updates were lost, or may have been because an earlier process did not close
    /// the file: no revision of an epoch may stand for two states. `noted` is the last commit on
    /// record. Returns the number of this commit, and the loss.
    pub fn begin_session(
        &self,
        durability: Durability,
        noted: Option<u64>,
    ) -> Result<(u64, Option<Loss>), redb::Error> {
        let number = self.number()?;
        let loss = Loss::of(number, noted);
        let next = number.max(noted).unwrap_or(0) + 1;
        let boot = snapshot::boot().unwrap_or_default();
        self.transact(|transaction| {
            note_number(transaction, next)?;
            if let Some(loss) = &loss {
                tracing::error!(%loss, "acknowledged updates may be lost");
                renew_epochs(transaction, self.snapshots()?)?;
            }
            let mut facts = transaction.open_table(FACTS)?;
            let last: SessionRow = sealed::get(&facts, SESSION_FACT)?.unwrap_or_default();
            let rebooted = boot.is_empty() || last.boot != boot;
            let may_be_lost = last.open && (last.buffers || (last.relaxed && rebooted));
            if may_be_lost && loss.is_none() {
                tracing::warn!("the last server was not stopped and may have lost updates");
                renew_epochs(transaction, self.snapshots()?)?;
            }
            let session = SessionRow {
                open: true,
                buffers: durability == Durability::None,
                relaxed: durability != Durability::Full,
                boot,
            };
            sealed::put(&mut facts, SESSION_FACT, &session)
        })?;
        Ok((next, loss))
    }

    /// Renews epochs if commits are missing. Returns the loss.
    pub fn renew_if_lost(&self, noted: Option<u64>) -> Result<Option<Loss>, redb::Error> {
        let number = self.number()?;
        let Some(loss) = Loss::of(number, noted) else {
            return Ok(None);
        };
        self.transact(|transaction| {
            note_number(transaction, number.max(noted).unwrap_or(0))?;
            renew_epochs(transaction, self.snapshots()?)
        })?;
        Ok(Some(loss))
    }

    /// Turns snapshots of servers that share a log into those of a single server. They begin new
    /// epochs, since the other servers may go on with the old ones.
    pub fn leave_log(&self) -> Result<(), redb::Error> {
        let mut shared = self.snapshots()?;
        shared.retain(|(_, row)| row.place.is_some());
        if shared.is_empty() {
            return Ok(());
        }
        for (_, row) in &mut shared {
            row.place = None;
        }
        self.transact(|transaction| renew_epochs(transaction, shared))
    }

    /// The number of the last commit that has one.
    pub fn number(&self) -> Result<Option<u64>, redb::Error> {
        // A file has facts: one of them is its format, which is checked when it is opened.
        let facts = self.begin_read()?.open_table(FACTS)?;
        let row: Option<NumberRow> = sealed::get(&facts, NUMBER_FACT)?;
        Ok(row.map(|row| row.number))
    }

    /// Records that the file is closed, and closes it.
    pub fn end_session(self, directory: &Path) -> Result<(), StoreError> {
        let ended = self.transact(|transaction| {
            let mut facts = transaction.open_table(FACTS)?;
            sealed::put(&mut facts, SESSION_FACT, &SessionRow::default())
        });
        ended.map_err(StoreError::redb(directory))?;
        self.close(directory)
    }
}

/// Gives a commit its number.
pub(super) fn note_number(transaction: &WriteTransaction, number: u64) -> Result<(), redb::Error> {
    let mut facts = transaction.open_table(FACTS)?;
    sealed::put(&mut facts, NUMBER_FACT, &NumberRow { number })
}

/// Renews all epochs, except those of snapshots with a place in a log: the log has their missing
/// updates.
fn renew_epochs(
    transaction: &WriteTransaction,
    all: Vec<(String, SnapshotRow)>,
) -> Result<(), redb::Error> {
    let mut snapshots = transaction.open_table(SNAPSHOTS)?;
    let own = all.into_iter().filter(|(_, row)| row.place.is_none());
    for (name, mut row) in own {
        row.epoch = Uuid::new_v4().to_string();
        tracing::warn!(snapshot = %name, epoch = %row.epoch, "began a new epoch");
        sealed::put(&mut snapshots, &name, &row)?;
    }
    Ok(())
}
