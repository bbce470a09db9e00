//! Sessions: the process that has the file open, and whether it closed the file.

use std::path::Path;

use prost::Message;
use redb::WriteTransaction;
use uuid::Uuid;

use super::disk::Durability;
use super::error::StoreError;
use super::file::File;
use super::rows::{FACTS, SNAPSHOTS, SnapshotRow, get, put};
use evenkeel_core::snapshot;

const SESSION_FACT: &str = "session";

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
    /// acknowledged updates may have been lost, because an earlier process did not close the file:
    /// no revision of an epoch may stand for two states.
    pub fn begin_session(&self, durability: Durability) -> Result<(), redb::Error> {
        let boot = snapshot::boot().unwrap_or_default();
        self.transact(|transaction| {
            let mut facts = transaction.open_table(FACTS)?;
            let last: SessionRow = get(&facts, SESSION_FACT)?.unwrap_or_default();
            let rebooted = boot.is_empty() || last.boot != boot;
            if last.open && (last.buffers || (last.relaxed && rebooted)) {
                tracing::warn!("the last server was not stopped and may have lost updates");
                renew_epochs(transaction, self.snapshots()?)?;
            }
            let session = SessionRow {
                open: true,
                buffers: durability == Durability::None,
                relaxed: durability != Durability::Full,
                boot,
            };
            put(&mut facts, SESSION_FACT, &session)
        })
    }

    /// Records that the file is closed, and closes it.
    pub fn end_session(self, directory: &Path) -> Result<(), StoreError> {
        let ended = self.transact(|transaction| {
            let mut facts = transaction.open_table(FACTS)?;
            put(&mut facts, SESSION_FACT, &SessionRow::default())
        });
        ended.map_err(StoreError::redb(directory))?;
        self.close(directory)
    }
}

/// Renews all epochs.
fn renew_epochs(
    transaction: &WriteTransaction,
    all: Vec<(String, SnapshotRow)>,
) -> Result<(), redb::Error> {
    let mut snapshots = transaction.open_table(SNAPSHOTS)?;
    for (name, mut row) in all {
        row.epoch = Uuid::new_v4().to_string();
        tracing::warn!(snapshot = %name, epoch = %row.epoch, "began a new epoch");
        put(&mut snapshots, &name, &row)?;
    }
    Ok(())
}
