//! The growth of a state by changes that it has not applied yet.

use super::revision::State;
use crate::account::Purpose;
use crate::snapshot::objects::change::{Batch, Form, ValidChange};

/// The bytes that one change of a namespace copies: a block of pods and one of label sets.
const COPIED_PER_CHANGE: usize = 32 << 10;

/// The most bytes that are copied of a pod, a label set or an owner when others in its block change.
const COPIED_PER_OBJECT: usize = 512;

/// The bytes that are copied of a node when another one changes, and those of its place in a
/// partition.
const COPIED_PER_NODE: usize = 128;
const COPIED_PER_MEMBER: usize = 8;

impl State {
    /// Returns whether there is memory for a batch. One that only deletes needs none.
    pub(in crate::snapshot) fn has_memory(&self, batch: &Batch) -> bool {
        let is_delete = |change: ValidChange<'_>| matches!(change.form, Form::Delete(_));
        self.upkeep.account().has_room(Purpose::Objects, 0) || batch.changes().all(is_delete)
    }

    /// Returns the most bytes that a clone of the state takes for itself once a batch is applied to
    /// it. It shares unchanged blocks.
    pub(in crate::snapshot) fn copied_bytes(&self, batch: &Batch) -> usize {
        let now = self.sizes;
        let objects = now.pods + now.label_sets + now.owners + batch.len();
        let of_blocks = objects.saturating_mul(COPIED_PER_OBJECT);
        let of_blocks = of_blocks.min(batch.len().saturating_mul(COPIED_PER_CHANGE));
        if !batch.has_nodes {
            return of_blocks;
        }
        let members = self.shared.nodes.partitions().len();
        let of_node = COPIED_PER_NODE + members.saturating_mul(COPIED_PER_MEMBER);
        of_blocks + (now.nodes + batch.len()).saturating_mul(of_node)
    }
}
