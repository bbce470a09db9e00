//! When a table that lost most of its entries returns memory. Stateful sets and
//! jobs have a label set for each pod, and those come and go in bursts.

/// Below this capacity no table returns memory.
const MIN_CAPACITY: usize = 256;

/// What a table of `len` with room for `capacity` should shrink to, if it
/// should. Twice
/// what it holds, so that what the move costs is made up for by what was
/// removed before.
pub fn shrunk(len: usize, capacity: usize) -> Option<usize> {
    (capacity > MIN_CAPACITY && len < capacity / 8).then_some(len * 2)
}

/// Gives memory of a list back after removals.
pub fn shrink_list<T>(list: &mut Vec<T>) {
    if let Some(capacity) = shrunk(list.len(), list.capacity()) {
        list.shrink_to(capacity);
    }
}
