//! Decides when a table that lost most of its entries returns memory. Stateful sets and jobs have a
//! label set for each pod, and those come and go in bursts.

/// Below this capacity no table returns memory.
const MIN_CAPACITY: usize = 256;

/// The capacity to which a table of `len` with room for `capacity` should shrink, if it should.
/// This is twice the length, so that the removals before pay for the move.
pub fn shrunk(len: usize, capacity: usize) -> Option<usize> {
    (capacity > MIN_CAPACITY && len < capacity / 8).then_some(len * 2)
}

/// Gives memory of a list back after removals.
pub fn shrink_list<T>(list: &mut Vec<T>) {
    if let Some(capacity) = shrunk(list.len(), list.capacity()) {
        list.shrink_to(capacity);
    }
}
