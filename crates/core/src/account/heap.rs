//! The memory of values on the heap: the bytes that an allocator hands out, which are more than
//! were asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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
        // Very large allocations come in pages.
        LARGE.. => bytes.next_multiple_of(PAGES),
        _ => bytes.next_multiple_of(bytes.next_power_of_two() / 8),
    }
}

/// The memory of a boxed slice of this many elements, or of a list with this
/// capacity.
pub fn list<T>(capacity: usize) -> usize {
    block(capacity * size_of::<T>())
}

/// The allocation of an `Arc` with a value of this many bytes.
pub const fn shared(bytes: usize) -> usize {
    // Two counters precede the value.
    block(2 * size_of::<usize>() + bytes)
}

/// The memory of a hash table of the standard library with this capacity, without the heap memory
/// of its entries.
pub fn table<K, V>(capacity: usize) -> usize {
    // An eighth of the places stays free. Each place has a control byte, and there is a group of
    // them at the end.
    let places = match capacity {
        0 => return 0,
        1..=3 => 4,
        4..=7 => 8,
        _ => capacity * 8 / 7,
    };
    block(places * (size_of::<(K, V)>() + 1) + 16)
}

/// Returns the bytes for an entry of a table of average fill: tables double, so two thirds of their
/// places are in use.
pub const fn entry<T>() -> usize {
    (size_of::<T>() + 1) * 3 / 2
}

/// The memory of a B-tree of this many entries, without their heap memory.
pub fn tree<K, V>(len: usize) -> usize {
    // A node has room for eleven entries, and half of it is used when they came in order.
    const ROOM: usize = 11;
    let nodes = match len {
        0 => return 0,
        1..=ROOM => 1,
        _ => len.div_ceil(ROOM / 2) + 1,
    };
    nodes * block(ROOM * (size_of::<K>() + size_of::<V>()) + 16)
}

/// A value whose memory on the heap is known.
pub trait OnHeap {
    /// Returns its bytes on the heap, without its own size.
    fn heap_bytes(&self) -> usize;
}

/// Implements [`OnHeap`] for a type as the sum of its fields that are on the heap.
macro_rules! on_heap {
    ($type:ty: $($field:tt),+ $(; $of:ident)?) => {
        impl$(<$of: $crate::account::heap::OnHeap>)? $crate::account::heap::OnHeap for $type {
            fn heap_bytes(&self) -> usize {
                0 $(+ $crate::account::heap::OnHeap::heap_bytes(&self.$field))+
            }
        }
    };
}
pub(crate) use on_heap;

macro_rules! nothing_on_heap {
    ($($type:ty),+) => {
        $(impl OnHeap for $type {
            fn heap_bytes(&self) -> usize {
                0
            }
        })+
    };
}
nothing_on_heap!(str, &str, u8, u64, i32, i64, i128);

impl OnHeap for String {
    fn heap_bytes(&self) -> usize {
        block(self.len())
    }
}

impl<T: OnHeap> OnHeap for [T] {
    fn heap_bytes(&self) -> usize {
        self.iter().map(T::heap_bytes).sum()
    }
}

impl<T: OnHeap + ?Sized> OnHeap for Box<T> {
    fn heap_bytes(&self) -> usize {
        block(size_of_val(&**self)) + (**self).heap_bytes()
    }
}

/// A shared value counts wherever it is.
impl<T: OnHeap + ?Sized> OnHeap for Arc<T> {
    fn heap_bytes(&self) -> usize {
        shared(size_of_val(&**self)) + (**self).heap_bytes()
    }
}

impl<T: OnHeap> OnHeap for Option<T> {
    fn heap_bytes(&self) -> usize {
        self.as_ref().map_or(0, T::heap_bytes)
    }
}

impl<A: OnHeap, B: OnHeap> OnHeap for (A, B) {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes() + self.1.heap_bytes()
    }
}

impl<A: OnHeap, B: OnHeap, C: OnHeap> OnHeap for (A, B, C) {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes() + self.1.heap_bytes() + self.2.heap_bytes()
    }
}

impl OnHeap for BTreeMap<String, String> {
    fn heap_bytes(&self) -> usize {
        let texts = self.iter().flat_map(|(key, value)| [key, value]);
        tree::<String, String>(self.len()) + texts.map(String::heap_bytes).sum::<usize>()
    }
}

impl OnHeap for BTreeSet<String> {
    fn heap_bytes(&self) -> usize {
        tree::<String, ()>(self.len()) + self.iter().map(String::heap_bytes).sum::<usize>()
    }
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
