//! What a fake log keeps besides messages.

use std::collections::BTreeMap;
use std::time::SystemTime;

use prost::bytes::Bytes;

/// Blobs and keys.
#[derive(Default)]
pub(super) struct BlobsAndKeys {
    pub blobs: BTreeMap<String, (Bytes, SystemTime)>,
    pub keys: BTreeMap<String, (Bytes, u64)>,
    /// The revision of the last change of a key.
    pub revision: u64,
}
