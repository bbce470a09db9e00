//! The parts that are being written to blobs, and the names of parts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use uuid::Uuid;

use crate::record::{Hash, digest};
use crate::{AsideRow, Body};
use evenkeel_core::snapshot::{Aside, Moment};

/// The prefix of the names of parts.
pub const PARTS: &str = "parts/";

/// The longest time between the first part and the record that names it: older parts that no record
/// names are dropped.
pub const MAX_WRITING: Duration = Duration::from_secs(5 * 3_600);

/// The parts that are being written.
#[derive(Default)]
pub struct OpenAsides {
    pub open: Mutex<HashMap<Aside, Writing>>,
    last: AtomicU64,
}

/// Parts that belong together, as this server has seen them.
pub struct SeenParts {
    /// Their names, in order.
    pub names: Vec<String>,
    /// The moment since when the names are the same.
    pub since: Moment,
}

/// Parts that are written one after another.
pub struct Writing {
    /// The uuid in the names of the parts.
    pub uuid: Uuid,
    /// The moment when the first part was begun.
    pub since: Moment,
    /// The hashes of the written parts.
    pub hashes: Vec<Hash>,
    /// The first bytes of the next part.
    pub begun: Vec<u8>,
}

impl Writing {
    /// Begins with no part.
    pub fn new(since: Moment) -> Self {
        Self {
            uuid: Uuid::new_v4(),
            since,
            hashes: Vec::new(),
            begun: Vec::new(),
        }
    }

    /// Returns the row that tells where the written parts are.
    pub fn row(&self) -> AsideRow {
        AsideRow {
            uuid: self.uuid.as_bytes().to_vec(),
            count: u32::try_from(self.hashes.len()).expect("parts are large"),
            sha256: whole(&self.hashes).to_vec(),
        }
    }
}

/// The hash of all parts, made from the hash of each part.
pub fn whole(hashes: &[Hash]) -> Hash {
    digest(&[hashes.as_flattened()])
}

/// Returns the prefix of the names of parts that belong together.
pub fn part_folder(uuid: &Uuid) -> String {
    format!("{PARTS}{}/", uuid.simple())
}

/// The name of a part.
pub fn part_name(uuid: &Uuid, index: usize) -> String {
    format!("{}{index}", part_folder(uuid))
}

/// The names of the parts that a record names.
pub fn named_parts(body: &Body) -> impl Iterator<Item = String> {
    let asides = body.entries.iter().filter_map(|entry| entry.aside.as_ref());
    asides.chain(&body.outside).flat_map(part_names)
}

/// The names of all parts.
pub fn part_names(row: &AsideRow) -> Vec<String> {
    let uuid = Uuid::from_slice(&row.uuid).unwrap_or_default();
    let parts = 0..row.count as usize;
    parts.map(|index| part_name(&uuid, index)).collect()
}

impl OpenAsides {
    /// Begins a state aside.
    pub fn open(&self, now: Moment) -> Aside {
        let aside = Aside(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        self.open.lock().insert(aside, Writing::new(now));
        aside
    }

    /// Forgets a state aside. Its parts are dropped when they are old, so that giving up waits for
    /// nothing.
    pub fn close(&self, aside: Aside) {
        self.open.lock().remove(&aside);
    }
}
