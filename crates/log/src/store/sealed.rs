//! Rows with a checksum of their key and value, so that a damaged row is recognised even where the
//! pages of the file are trusted.

use prost::Message;
use redb::{ReadableTable, Table};

/// The length of a checksum.
pub(super) const CHECKSUM: usize = 4;

/// The checksum of a row.
pub(super) fn checksum(key: &[u8], bytes: &[u8]) -> [u8; CHECKSUM] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(bytes);
    hasher.finalize().to_le_bytes()
}

/// The stored form of a row under a key.
pub(super) fn seal(key: &[u8], row: &impl Message) -> Vec<u8> {
    let mut value = vec![0; CHECKSUM];
    row.encode(&mut value).expect("a vector has room");
    let sum = checksum(key, &value[CHECKSUM..]);
    value[..CHECKSUM].copy_from_slice(&sum);
    value
}

/// Stores a row under a key.
pub(super) fn put(
    table: &mut Table<'_, &'static str, &'static [u8]>,
    key: &str,
    row: &impl Message,
) -> Result<(), redb::Error> {
    table.insert(key, &seal(key.as_bytes(), row)[..])?;
    Ok(())
}

/// The row that is stored under a key, or the reason why it cannot be read.
pub(super) fn open<R: Message + Default>(key: &[u8], value: &[u8]) -> Result<R, String> {
    let bytes = unseal(key, value)?;
    R::decode(bytes).map_err(|error| format!("a row cannot be read: {error}"))
}

/// The row that a table has under a key, if any.
pub(super) fn get<R: Message + Default>(
    table: &impl ReadableTable<&'static str, &'static [u8]>,
    key: &str,
) -> Result<Option<R>, redb::Error> {
    let value = table.get(key)?;
    let row = value.map(|value| open(key.as_bytes(), value.value()));
    row.transpose().map_err(redb::Error::Corrupted)
}

/// Returns the content of a row that is stored under a key, or the reason why it cannot be read.
pub(super) fn unseal<'v>(key: &[u8], value: &'v [u8]) -> Result<&'v [u8], String> {
    match value.split_first_chunk::<CHECKSUM>() {
        Some((sum, bytes)) if *sum == checksum(key, bytes) => Ok(bytes),
        _ => Err("the checksum of a row is wrong".to_owned()),
    }
}
