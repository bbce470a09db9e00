//! What things take on the heap: bytes as an allocator hands them out, which
//! are more than were asked for.

use std::collections::BTreeMap;

/// From this size on, allocations are made directly, in multiples of this many
/// bytes.
const LARGE: usize = 4 << 20;
const PAGES: usize = 64 << 10;

/// The memory of an allocation of this many bytes. Allocators use only a few
/// sizes: first in steps of 16 bytes, later of a quarter of a power of two.
pub const fn block(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        1..=8 => 8,
        9..=128 => bytes.next_multiple_of(16),
        // What is very large comes in pages.
        LARGE.. => bytes.next_multiple_of(PAGES),
        _ => bytes.next_multiple_of(bytes.next_power_of_two() / 8),
    }
}

/// The memory of a boxed slice of this many elements, or of a list with this
/// capacity.
pub fn list<T>(capacity: usize) -> usize {
    block(capacity * size_of::<T>())
}

/// Returns how much a list or table of `bytes` grows at once when it has no room for
/// this many more elements: it doubles.
pub fn doubling(bytes: usize, len: usize, capacity: usize, more: usize) -> usize {
    if len + more > capacity { bytes } else { 0 }
}

/// The allocation of an `Arc` with a value of this many bytes.
pub const fn shared(bytes: usize) -> usize {
    // Two counters precede it.
    block(2 * size_of::<usize>() + bytes)
}

/// The memory of a hash table of the standard library with this capacity,
/// without what its entries own.
pub fn table<K, V>(capacity: usize) -> usize {
    // An eighth of the places stays free. Each has a byte of its own, and so
    // has a group at the end.
    let places = match capacity {
        0 => return 0,
        1..=3 => 4,
        4..=7 => 8,
        _ => capacity * 8 / 7,
    };
    block(places * (size_of::<(K, V)>() + 1) + 16)
}

/// Returns what an entry takes of a table that is as full as tables are: they double, so
/// two thirds of their places are in use.
pub const fn entry<T>() -> usize {
    (size_of::<T>() + 1) * 3 / 2
}

/// The memory of a B-tree of this many entries, without what they own.
pub fn tree<K, V>(len: usize) -> usize {
    // A node has room for eleven, and half of that is used when they came in
    // order.
    const ROOM: usize = 11;
    let nodes = match len {
        0 => return 0,
        1..=ROOM => 1,
        _ => len.div_ceil(ROOM / 2) + 1,
    };
    nodes * block(ROOM * (size_of::<K>() + size_of::<V>()) + 16)
}

/// Returns what the texts of a map take, without the map.
pub fn pairs(map: &BTreeMap<String, String>) -> usize {
    map.iter()
        .map(|(key, value)| block(key.len()) + block(value.len()))
        .sum()
}

/// Returns what a map of texts takes with them.
pub fn texts(map: &BTreeMap<String, String>) -> usize {
    tree::<String, String>(map.len()) + pairs(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_what_was_asked_for_and_at_most_a_quarter_more() {
        assert_eq!(
            [0, 1, 9, 128, 129, 257].map(block),
            [0, 8, 16, 128, 160, 320]
        );
        for bytes in 128..20_000 {
            let block = block(bytes);
            assert!(
                (bytes..=bytes + bytes / 4).contains(&block),
                "{bytes}: {block}"
            );
        }
    }
}
