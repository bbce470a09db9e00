//! Decodes the entries of records into the form that snapshots apply.

use std::sync::Arc;
use std::time::Duration;

use prost::bytes::{Buf, Bytes, BytesMut};
use prost::{Message, decode_length_delimiter, length_delimiter_len};

use super::server::Replica;
use crate::entry_row::ChangesRow;
use crate::record::{self, Entries};
use crate::{AsideRow, Body, EntryRow, Happened, NumberedRow, Unreadable};
use evenkeel_core::matching::{Path, Violations};
use evenkeel_core::proto::v1;
use evenkeel_core::snapshot::held_row::time;
use evenkeel_core::snapshot::journal::{Restoring, SavedSnapshot};
use evenkeel_core::snapshot::{Batch, Change, Defaults, Entry, Limits, Registry};

/// The error for blobs that are not as they were written.
pub(super) fn damaged_blobs() -> Unreadable {
    Unreadable::damaged("what it keeps outside of the log is damaged")
}

fn invalid(faults: &Violations) -> Unreadable {
    let fault = faults.iter().next();
    let told = fault.map_or_else(String::new, |f| format!("{}: {}", f.field, f.description));
    Unreadable::Damaged(format!("it is not valid: {told}"))
}

impl Replica {
    /// The entries of a record of the log of a snapshot.
    pub(super) fn decode(&self, name: &str, body: &Body) -> Result<Vec<Entry>, Unreadable> {
        let entries = match &body.outside {
            Some(row) => self.read_entries(row)?,
            None => body.entries.clone(),
        };
        let decoded = entries.into_iter();
        decoded.map(|entry| self.decode_one(name, entry)).collect()
    }

    fn read_entries(&self, row: &AsideRow) -> Result<Vec<EntryRow>, Unreadable> {
        let mut bytes = Vec::new();
        self.read_parts(row, |part| {
            bytes.extend(part);
            Ok(())
        })?;
        Ok(record::decode::<Entries>(bytes)?.entries)
    }

    fn decode_one(&self, name: &str, mut row: EntryRow) -> Result<Entry, Unreadable> {
        let happened = Happened::try_from(row.happened).map_err(|_| Unreadable::unknown())?;
        let change = match happened {
            Happened::Batch => Change::Batch(Arc::new(batch(row.changes.clone())?)),
            Happened::Replaced | Happened::Rewritten => {
                let registry = self.registry().ok_or_else(damaged_blobs)?;
                let mut state = registry.new_state();
                let aside = row.aside.as_ref().ok_or_else(damaged_blobs)?;
                self.read_objects(aside, |batch| state.add(batch))?;
                Change::Replaced(Box::new(state))
            }
            Happened::Deleted => Change::Deleted,
        };
        Ok(Entry {
            change,
            ended: std::mem::take(&mut row.ended),
            after: saved(name, row)?,
        })
    }

    /// Reads objects that were written aside.
    fn read_objects(
        &self,
        aside: &AsideRow,
        mut each: impl FnMut(&Batch),
    ) -> Result<(), Unreadable> {
        self.read_frames(aside, |frame| {
            each(&batch(frame)?);
            Ok(())
        })
    }

    /// Reads what was written aside in pieces, each with its length before it.
    fn read_frames(
        &self,
        aside: &AsideRow,
        mut each: impl FnMut(Bytes) -> Result<(), Unreadable>,
    ) -> Result<(), Unreadable> {
        let mut read = BytesMut::new();
        self.read_parts(aside, |part| {
            read.extend_from_slice(&part);
            while let Ok(length) = decode_length_delimiter(&read[..]) {
                let begins = length_delimiter_len(length);
                if read.len() < begins + length {
                    break;
                }
                read.advance(begins);
                each(read.split_to(length).freeze())?;
            }
            Ok(())
        })?;
        match read.is_empty() {
            true => Ok(()),
            false => Err(damaged_blobs()),
        }
    }

    /// Reads the snapshot of a checkpoint that was made this long ago: the entry that makes it anew,
    /// and then its objects.
    pub(super) fn restore(
        &self,
        registry: &Registry,
        name: &str,
        aside: &AsideRow,
        age: Duration,
    ) -> Result<Restoring, Unreadable> {
        let mut restored: Option<Restoring> = None;
        self.read_frames(aside, |frame| {
            if let Some(restoring) = &mut restored {
                restoring.state.add(&batch(frame)?);
                return Ok(());
            }
            let mut saved = saved(name, record::decode(frame)?)?;
            saved.pass(age);
            restored = Some(registry.restoring(saved));
            Ok(())
        })?;
        restored.ok_or_else(damaged_blobs)
    }
}

fn batch(changes: Bytes) -> Result<Batch, Unreadable> {
    let row = ChangesRow::decode(changes);
    let row = row.map_err(|error| Unreadable::Damaged(format!("it cannot be read: {error}")))?;
    accepted(row.changes)
}

/// The batch of changes that a server has accepted: limits do not apply again.
pub fn accepted(changes: Vec<v1::Change>) -> Result<Batch, Unreadable> {
    let batch = Batch::read(changes, &Limits::none(), Path::root("changes"));
    batch.map_err(|faults| invalid(&faults))
}

/// The snapshot that a row describes, without its objects.
pub fn saved(name: &str, row: EntryRow) -> Result<SavedSnapshot, Unreadable> {
    let version = &row.kubernetes_version;
    let defaults = row.defaults.as_ref();
    let read = row.resource_versions.as_ref();
    let defaults = defaults.map(|wire| Defaults::of_stored(wire, version, read));
    let defaults = defaults.transpose();
    let defaults = defaults.map_err(|faults| invalid(&faults))?;
    let mut held = Vec::new();
    for NumberedRow { serial, row } in row.held {
        let kept = row.unwrap_or_default().into_kept();
        held.push((serial, kept.map_err(Unreadable::Damaged)?));
    }
    Ok(SavedSnapshot {
        name: name.to_owned(),
        epoch: row.epoch,
        revision: row.revision,
        sequence: row.sequence,
        created: time(row.created),
        updated: time(row.updated),
        age: Duration::from_nanos(row.age),
        synced: row.synced,
        defaults: defaults.map(Arc::new),
        resource_versions: row.resource_versions.map(Arc::new),
        last_serial: row.last_serial,
        held,
    })
}
