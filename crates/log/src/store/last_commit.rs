//! The record of the last commit, beside the file.
//!
//! If the head of a file is damaged, the previous commit may still be whole, and redb uses that
//! one. Nothing in the file shows this. So every commit contains a number, which is afterwards
//! recorded here: a file with a smaller number has lost commits. The record may be behind the file,
//! when the process ended between the two writes. It is never ahead of it.

use std::fs::{self, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::error::StoreError;
use super::private::open_private;

/// Name of the record in a state directory.
pub(super) const RECORD: &str = "last-commit";

/// The most bytes of a record that are read. A whole one has fewer.
const MOST_BYTES: u64 = 100;

/// Acknowledged updates that are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// This many of the last commits are missing.
    #[error("the last commits are missing, {0} in all: what they held was acknowledged")]
    Commits(u64),
    /// Unknown: the record is missing or damaged.
    #[error("{RECORD} is missing or damaged: the state may be older than what was acknowledged")]
    Unknown,
}

impl Loss {
    /// Returns the loss of a file whose last commit has this number, given the recorded one. A
    /// file has no number before its first session.
    pub(super) fn of(number: Option<u64>, noted: Option<u64>) -> Option<Self> {
        match (number, noted) {
            (Some(_), None) => Some(Self::Unknown),
            (number, noted) => {
                let missing = noted.unwrap_or(0).saturating_sub(number.unwrap_or(0));
                (missing > 0).then_some(Self::Commits(missing))
            }
        }
    }
}

/// The open record. The process that has it open owns the directory, even while
/// the file itself cannot be opened.
#[derive(Debug)]
pub(super) struct LastCommit(fs::File);

impl LastCommit {
    /// Opens the record of a directory, and creates it if needed.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        Self::open_with(directory, OpenOptions::new().create(true))
    }

    /// Opens the record of a directory if it has one.
    pub fn open_existing(directory: &Path) -> Result<Option<Self>, StoreError> {
        match directory.join(RECORD).exists() {
            true => Self::open_with(directory, &mut OpenOptions::new()).map(Some),
            false => Ok(None),
        }
    }

    fn open_with(directory: &Path, options: &mut OpenOptions) -> Result<Self, StoreError> {
        let options = options.read(true).write(true).truncate(false);
        let file = open_private(options, &directory.join(RECORD));
        let file = file.map_err(StoreError::io(directory))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse(directory.to_owned())),
            Err(TryLockError::Error(source)) => Err(StoreError::io(directory)(source)),
        }
    }

    /// The recorded number; `None` if the record has none or is damaged.
    pub fn noted(&self, directory: &Path) -> Result<Option<u64>, StoreError> {
        let mut text = String::new();
        let mut file = &self.0;
        let read = file.seek(SeekFrom::Start(0));
        let mut file = file.take(MOST_BYTES);
        match read.and_then(|_| file.read_to_string(&mut text)) {
            Ok(_) => Ok(parse(&text)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
            Err(error) => Err(StoreError::io(directory)(error)),
        }
    }

    /// Records a commit that is in the file.
    pub fn note(&self, number: u64) -> io::Result<()> {
        let mut file = &self.0;
        file.seek(SeekFrom::Start(0))?;
        // The line always has the same length, so it needs no further space.
        let line = line(number);
        file.write_all(line.as_bytes())?;
        // A damaged record may have been longer.
        file.set_len(line.len() as u64)
    }

    /// Syncs the record to the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    /// Unlocks the directory.
    pub fn release(&self) {
        // The lock ends with the process in any case.
        let _ = self.0.unlock();
    }
}

fn line(number: u64) -> String {
    let text = format!("{number:020}");
    let sum = crc32fast::hash(text.as_bytes());
    format!("{text} {sum:08x}\n")
}

fn parse(text: &str) -> Option<u64> {
    let number = text.get(..20)?.parse().ok()?;
    (text == line(number)).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_follows_from_two_numbers() {
        let cases = [
            (None, None, None),
            (Some(7), Some(7), None),
            (Some(8), Some(7), None),
            (Some(6), Some(7), Some(Loss::Commits(1))),
            (None, Some(7), Some(Loss::Commits(7))),
            (None, Some(0), None),
            (Some(7), None, Some(Loss::Unknown)),
        ];
        for (number, noted, loss) in cases {
            assert_eq!(Loss::of(number, noted), loss, "{number:?}, {noted:?}");
        }
    }

    #[test]
    fn any_damage_is_known() {
        let whole = line(123_456);
        assert_eq!(parse(&whole), Some(123_456));
        for at in 0..whole.len() {
            assert_eq!(parse(&whole[..at]), None, "cut at {at}");
            for bit in 0..7 {
                let mut bytes = whole.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let text = String::from_utf8(bytes).expect("it is ASCII");
                assert_eq!(parse(&text), None, "bit {bit} of byte {at}");
            }
        }
    }
}
