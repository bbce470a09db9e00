//! Decodes the entries of records into the form that snapshots apply.

use std::sync::Arc;
use std::time::Duration;

use prost::bytes::{Buf, Bytes, BytesMut};
use prost::{Message, decode_length_delimiter, length_delimiter_len};

use super::server::Replica;
use crate::entry_row::ChangesRow;
use crate::record::{self, Entries};
use crate::{AsideRow, Body, EntryRow, Error, Happened, NumberedRow, Unreadable};
use evenkeel_core::matching::{Path, Violations};
use evenkeel_core::snapshot::held_row::time;
use evenkeel_core::snapshot::journal::SavedSnapshot;
use evenkeel_core::snapshot::{Batch, Change, Defaults, Entry, Limits};

/// The reason why an entry cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum Decoding {
    /// Data that the entry needs cannot be read now.
    #[error("{0}")]
    Unreachable(String),
    /// Data that the entry needs is not found.
    #[error("{0}")]
    Missing(String),
    /// A later version has written the entry.
    #[error("{0}")]
    Later(String),
    /// The entry can never be decoded.
    #[error("{0}")]
    Impossible(String),
}

impl Decoding {
    /// The error for blobs that are not as they were written.
    pub fn damaged() -> Self {
        Self::Impossible("what it keeps outside of the log is damaged".to_owned())
    }

    fn invalid(faults: &Violations) -> Self {
        let fault = faults.iter().next();
        let told = fault.map_or_else(String::new, |f| format!("{}: {}", f.field, f.description));
        Self::Impossible(format!("it is not valid: {told}"))
    }
}

impl From<Error> for Decoding {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound(_) => Self::Missing(error.to_string()),
            error => Self::Unreachable(error.to_string()),
        }
    }
}

impl From<Unreadable> for Decoding {
    fn from(why: Unreadable) -> Self {
        match why {
            Unreadable::Later(why) => Self::Later(why),
            Unreadable::Damaged(why) => Self::Impossible(why),
        }
    }
}

impl Replica {
    /// The entries of a record of the log of a snapshot.
    pub(super) fn decode(&self, name: &str, body: &Body) -> Result<Vec<Entry>, Decoding> {
        let entries = match &body.outside {
            Some(row) => self.read_entries(row)?,
            None => body.entries.clone(),
        };
        let decoded = entries.into_iter();
        decoded.map(|entry| self.decode_one(name, entry)).collect()
    }

    pub(super) fn read_entries(&self, row: &AsideRow) -> Result<Vec<EntryRow>, Decoding> {
        let mut bytes = Vec::new();
        self.read_parts(row, |part| {
            bytes.extend(part);
            Ok(())
        })?;
        Ok(record::decode::<Entries>(bytes)?.entries)
    }

    fn decode_one(&self, name: &str, mut row: EntryRow) -> Result<Entry, Decoding> {
        let happened = Happened::try_from(row.happened).map_err(|_| Unreadable::unknown())?;
        let change = match happened {
            Happened::Batch => Change::Batch(Arc::new(batch(row.changes.clone())?)),
            Happened::Replaced | Happened::Rewritten => {
                let registry = self.registry().ok_or_else(Decoding::damaged)?;
                let mut state = registry.new_state();
                let aside = row.aside.as_ref().ok_or_else(Decoding::damaged)?;
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
    pub(super) fn read_objects(
        &self,
        aside: &AsideRow,
        mut each: impl FnMut(&Batch),
    ) -> Result<(), Decoding> {
        let mut read = BytesMut::new();
        self.read_parts(aside, |part| {
            read.extend_from_slice(&part);
            while let Ok(length) = decode_length_delimiter(&read[..]) {
                let begins = length_delimiter_len(length);
                if read.len() < begins + length {
                    break;
                }
                read.advance(begins);
                each(&batch(read.split_to(length).freeze())?);
            }
            Ok(())
        })?;
        match read.is_empty() {
            true => Ok(()),
            false => Err(Decoding::damaged()),
        }
    }
}

/// Decodes changes that a server has accepted: limits do not apply again.
fn batch(changes: Bytes) -> Result<Batch, Decoding> {
    let row = ChangesRow::decode(changes);
    let row = row.map_err(|error| Decoding::Impossible(format!("it cannot be read: {error}")))?;
    let batch = Batch::read(row.changes, &Limits::none(), Path::root("changes"));
    batch.map_err(|faults| Decoding::invalid(&faults))
}

/// The snapshot that a row describes, without its objects.
pub fn saved(name: &str, row: EntryRow) -> Result<SavedSnapshot, Decoding> {
    let version = &row.kubernetes_version;
    let defaults = row.defaults.as_ref();
    let read = row.resource_versions.as_ref();
    let defaults = defaults.map(|wire| Defaults::of_stored(wire, version, read));
    let defaults = defaults.transpose();
    let defaults = defaults.map_err(|faults| Decoding::invalid(&faults))?;
    let mut held = Vec::new();
    for NumberedRow { serial, row } in row.held {
        let kept = row.unwrap_or_default().into_kept();
        held.push((serial, kept.map_err(Decoding::Impossible)?));
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
