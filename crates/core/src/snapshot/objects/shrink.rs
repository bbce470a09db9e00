//! Takes entries out of tables of counts, and decides when a table that lost most of its entries
//! returns memory. Stateful sets and jobs have a label set for each pod, and those come and go in
//! bursts.

use std::hash::Hash;

use hashbrown::HashMap;

/// Below this capacity no table returns memory.
const MIN_CAPACITY: usize = 256;

/// The capacity to which a table of `len` with room for `capacity` should shrink, if it should.
/// This is twice the length, so that the removals before pay for the move.
pub fn shrunk(len: usize, capacity: usize) -> Option<usize> {
    (capacity > MIN_CAPACITY && len < capacity / 8).then_some(len * 2)
}

/// Counts one less of `key`, which was counted. Returns whether it was the last; then the entry goes.
pub fn uncount<K: Eq + Hash>(counts: &mut HashMap<K, u32>, key: &K) -> bool {
    let count = counts.get_mut(key).expect("what goes was counted");
    *count -= 1;
    let is_last = *count == 0;
    if is_last {
        counts.remove(key);
        if let Some(capacity) = shrunk(counts.len(), counts.capacity()) {
            counts.shrink_to(capacity);
        }
    }
    is_last
}
