//! The ids of reservations: the start of the epoch, and a number.

use super::named::Snapshot;
use crate::snapshot::objects::reservation::Serial;

impl Snapshot {
    /// Returns the id of a reservation. Ids are unique across restarts, because epochs are.
    pub(super) fn id(&self, serial: Serial) -> String {
        format!("{}-{serial}", self.id_prefix())
    }

    /// Returns the number of the reservation with an id, if it is one of this history.
    pub(super) fn serial(&self, id: &str) -> Option<Serial> {
        id.strip_prefix(self.id_prefix())?
            .strip_prefix('-')?
            .parse()
            .ok()
    }

    /// Returns the present id of the reservation that got `id`, in this epoch of the snapshot or an
    /// earlier one.
    pub fn current_id(&self, id: &str) -> String {
        let serial = id.rsplit('-').next().and_then(|serial| serial.parse().ok());
        serial.map_or_else(|| id.to_owned(), |serial| self.id(serial))
    }

    fn id_prefix(&self) -> &str {
        self.epoch().split('-').next().unwrap_or_default()
    }
}
