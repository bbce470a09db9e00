//! The tables of the file: their keys and values.

use std::ops::RangeInclusive;

use redb::TableDefinition;

use crate::snapshot::Aside;

/// Facts about the file itself.
pub(super) const FACTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("evenkeel");

/// Snapshots by name.
pub(super) const SNAPSHOTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("snapshots");

/// Reservations and answers by snapshot and number.
pub(super) const HELD: TableDefinition<'_, (&str, u64), &[u8]> =
    TableDefinition::new("reservations");

/// The objects of a state, by kind, namespace and name.
pub(super) type ObjectsTable<'n> = TableDefinition<'n, &'static [u8], &'static [u8]>;

/// What the names of those tables begin with.
pub(super) const OBJECTS: &str = "objects/";

/// The name of the table of a state's objects.
pub(super) fn objects_name(aside: Aside) -> String {
    format!("{OBJECTS}{}", aside.0)
}

/// The table of that name.
pub(super) fn objects_table(name: &str) -> ObjectsTable<'_> {
    TableDefinition::new(name)
}

/// Changes by state and the number of earlier changes: keys and how they
/// change, alternating.
pub(super) const BATCHES: TableDefinition<'_, (u64, u64), Vec<&[u8]>> =
    TableDefinition::new("batches");

/// The keys of a state's batches.
pub(super) fn batches_of(aside: Aside) -> RangeInclusive<(u64, u64)> {
    (aside.0, 0)..=(aside.0, u64::MAX)
}
