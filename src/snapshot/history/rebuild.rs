//! A state made anew from its own objects, when what it keeps beside them has
//! drifted.

use super::named::Snapshot;
use crate::account::Part;
use crate::snapshot::objects::change::Batch;
use crate::snapshot::state::shards::State;

/// Objects that are on the wire at a time.
const CHUNK: usize = 10_000;

impl Snapshot {
    /// Makes the live state anew from its nodes, pods, owners and reservations,
    /// at the same revision. Batches wait meanwhile, decisions go on with what
    /// there is. `false` when it was deleted.
    pub fn rebuild(&self) -> bool {
        let Some(turn) = self.take_turn() else {
            return false;
        };
        let live = self.live();
        let frozen = live.freeze(&turn);
        let account = live.footprint.account();
        let fresh = State::on(account, Part::Objects, live.upkeep.max_view_bytes());
        let mut objects = frozen.changes().filter_map(|change| change.object);
        loop {
            let chunk = Batch::trusted(objects.by_ref().take(CHUNK));
            if chunk.is_empty() {
                break;
            }
            fresh.apply(&chunk, None, 0);
        }
        self.swap_in(&live, fresh, (live.revision(), live.defaults()), &[]);
        true
    }
}
