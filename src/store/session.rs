//! Who has the file open, and whether it was closed.

use std::fs;
use std::path::Path;

use prost::Message;
use redb::{ReadableTable, WriteTransaction};
use uuid::Uuid;

use super::Durability;
use super::error::Error;
use super::file::{self, File, note_format};
use super::rows::{self, SnapshotRow};
use super::tables::{FACTS, SNAPSHOTS};

const SESSION_FACT: &str = "session";

/// A process that had the file open, or has it.
#[derive(Clone, PartialEq, Message)]
struct SessionRow {
    /// Whether it has not closed the file.
    #[prost(bool, tag = "1")]
    open: bool,
    /// Whether what it acknowledged may be lost when it is killed.
    #[prost(bool, tag = "2")]
    buffers: bool,
    /// Whether what it acknowledged may be lost in a power cut.
    #[prost(bool, tag = "3")]
    relaxed: bool,
    /// Identifies the run of the system that it was in; empty when unknown.
    #[prost(string, tag = "4")]
    boot: String,
}

impl File {
    /// Notes that a process has it open, and how careful that is. Where an
    /// earlier one ended without closing and may have lost what it had
    /// acknowledged, histories begin anew: no revision of an epoch may stand
    /// for two states.
    pub fn begin_session(&self, durability: Durability) -> Result<(), redb::Error> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let boot = boot.trim().to_owned();
        let transaction = self.begin_write()?;
        note_format(&transaction)?;
        {
            let mut facts = transaction.open_table(FACTS)?;
            let last = facts.get(SESSION_FACT)?;
            let last = last.map(|v| rows::open::<SessionRow>(SESSION_FACT.as_bytes(), v.value()));
            let last = last.transpose().map_err(redb::Error::Corrupted)?;
            let last = last.unwrap_or_default();
            let rebooted = boot.is_empty() || last.boot != boot;
            if last.open && (last.buffers || (last.relaxed && rebooted)) {
                tracing::warn!("the last server was not stopped and may have lost updates");
                renew_epochs(&transaction, self.snapshots()?)?;
            }
            let session = SessionRow {
                open: true,
                buffers: durability == Durability::None,
                relaxed: durability != Durability::Full,
                boot,
            };
            rows::put(&mut facts, SESSION_FACT, &session)?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// Notes that nobody has it open any more, and closes it.
    pub fn end_session(self, directory: &Path) -> Result<(), Error> {
        let end = || -> Result<(), redb::Error> {
            let transaction = self.begin_write()?;
            let mut facts = transaction.open_table(FACTS)?;
            rows::put(&mut facts, SESSION_FACT, &SessionRow::default())?;
            drop(facts);
            transaction.commit()?;
            Ok(())
        };
        end().map_err(|error| file::error(directory, error))?;
        self.close(directory)
    }
}

fn renew_epochs(
    transaction: &WriteTransaction,
    all: Vec<(String, SnapshotRow)>,
) -> Result<(), redb::Error> {
    let mut snapshots = transaction.open_table(SNAPSHOTS)?;
    for (name, mut row) in all {
        row.epoch = Uuid::new_v4().to_string();
        tracing::warn!(snapshot = %name, epoch = %row.epoch, "began a new epoch");
        rows::put(&mut snapshots, &name, &row)?;
    }
    Ok(())
}
