//! A hash table whose copies share all that does not change: a trie over the bits of the hash, with
//! a few entries in each leaf.
//!
//! A change copies one leaf and the nodes above it, unless they are not shared. Small nodes keep that
//! cheap: the references of a node are counted one by one.

use std::iter;
use std::sync::Arc;

/// The number of bits of a hash that choose a child.
const BITS: u32 = 2;
const FANOUT: usize = 1 << BITS;

/// The most entries of a leaf that can be split.
const MAX_LEAF: usize = 16;

/// An entry that knows its hash.
pub trait Hashed: Clone {
    /// The hash, of which the lowest bits are used first.
    fn hash(&self) -> u32;
}

/// The number of something, by a hash of that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbered {
    /// The hash.
    pub hash: u32,
    /// The number.
    pub number: u32,
}

impl Hashed for Numbered {
    fn hash(&self) -> u32 {
        self.hash
    }
}

#[derive(Debug, Clone)]
enum Node<T> {
    Leaf(Arc<Vec<T>>),
    Inner(Arc<[Self; FANOUT]>),
}

/// Entries by their hash.
#[derive(Debug, Clone)]
pub struct HashTrie<T> {
    root: Node<T>,
    len: usize,
}

impl<T> Default for HashTrie<T> {
    fn default() -> Self {
        Self {
            root: Node::Leaf(Arc::default()),
            len: 0,
        }
    }
}

/// The child of a node at a depth.
fn child_of(hash: u32, depth: u32) -> usize {
    (hash >> (BITS * depth)) as usize % FANOUT
}

impl<T> HashTrie<T> {
    /// The entries that are stored together with those of a hash.
    fn near(&self, hash: u32) -> &[T] {
        let (mut node, mut depth) = (&self.root, 0);
        loop {
            match node {
                Node::Inner(children) => node = &children[child_of(hash, depth)],
                Node::Leaf(entries) => return entries,
            }
            depth += 1;
        }
    }

    /// An entry.
    pub fn find(&self, hash: u32, mut is_it: impl FnMut(&T) -> bool) -> Option<&T> {
        self.near(hash).iter().find(|entry| is_it(entry))
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let (mut nodes, mut leaf) = (vec![&self.root], [].iter());
        iter::from_fn(move || {
            loop {
                if let Some(entry) = leaf.next() {
                    return Some(entry);
                }
                match nodes.pop()? {
                    Node::Leaf(entries) => leaf = entries.iter(),
                    Node::Inner(children) => nodes.extend(children.iter()),
                }
            }
        })
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len
    }
}

impl<T: Hashed> HashTrie<T> {
    /// The entries of a hash, in no order.
    pub fn all(&self, hash: u32) -> impl Iterator<Item = &T> {
        let near = self.near(hash).iter();
        near.filter(move |entry| entry.hash() == hash)
    }

    /// The leaf for a hash, to change it, and its depth.
    fn leaf(&mut self, hash: u32) -> (&mut Node<T>, u32) {
        let (mut node, mut depth) = (&mut self.root, 0);
        while let Node::Inner(children) = node {
            node = &mut Arc::make_mut(children)[child_of(hash, depth)];
            depth += 1;
        }
        (node, depth)
    }

    /// An entry, to change it.
    pub fn find_mut(&mut self, hash: u32, is_it: impl FnMut(&T) -> bool) -> Option<&mut T> {
        let (Node::Leaf(entries), _) = self.leaf(hash) else {
            return None;
        };
        let at = entries.iter().position(is_it)?;
        Arc::make_mut(entries).get_mut(at)
    }

    /// Adds an entry that is not there.
    pub fn insert(&mut self, entry: T) {
        self.len += 1;
        let (node, depth) = self.leaf(entry.hash());
        let Node::Leaf(entries) = &mut *node else {
            return;
        };
        let entries = Arc::make_mut(entries);
        entries.push(entry);
        if entries.len() > MAX_LEAF && BITS * depth < u32::BITS {
            let mut parts: [Vec<T>; FANOUT] = Default::default();
            for entry in entries.drain(..) {
                parts[child_of(entry.hash(), depth)].push(entry);
            }
            let leaf = |part: Vec<T>| Node::Leaf(Arc::new(part));
            *node = Node::Inner(Arc::new(parts.map(leaf)));
        }
    }

    /// Removes an entry.
    pub fn remove(&mut self, hash: u32, is_it: impl FnMut(&T) -> bool) -> Option<T> {
        let removed = self.root.remove(hash, is_it)?;
        self.len -= 1;
        Some(removed)
    }
}

impl<T: Clone> Node<T> {
    /// Removes an entry. `bits` are those of the hash that choose between the children.
    fn remove(&mut self, bits: u32, is_it: impl FnMut(&T) -> bool) -> Option<T> {
        match self {
            Self::Leaf(entries) => {
                let at = entries.iter().position(is_it)?;
                Some(Arc::make_mut(entries).swap_remove(at))
            }
            Self::Inner(children) => {
                let children = Arc::make_mut(children);
                let removed = children[child_of(bits, 0)].remove(bits >> BITS, is_it)?;
                if let Some(few) = few(children) {
                    *self = Self::Leaf(few);
                }
                Some(removed)
            }
        }
    }
}

/// The entries of all children, if they are so few that one leaf is better. It can grow before it is
/// split again.
fn few<T: Clone>(children: &[Node<T>]) -> Option<Arc<Vec<T>>> {
    let mut leaves = Vec::with_capacity(FANOUT);
    for child in children {
        match child {
            Node::Leaf(entries) => leaves.push(entries),
            Node::Inner(_) => return None,
        }
    }
    let count: usize = leaves.iter().map(|entries| entries.len()).sum();
    let all = || leaves.iter().flat_map(|entries| entries.iter()).cloned();
    (count <= MAX_LEAF / 4).then(|| Arc::new(all().collect()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A hash with equal lowest bits for many numbers, and equal in all bits for some.
    fn hash(number: &u32) -> u32 {
        (number / 3 % 500) << 12
    }

    impl Hashed for u32 {
        fn hash(&self) -> u32 {
            hash(self)
        }
    }

    #[test]
    fn a_table_has_what_was_put_and_a_copy_stays_as_it_was() {
        let (mut table, mut wanted) = (HashTrie::default(), BTreeSet::new());
        let mut random = fastrand::Rng::with_seed(7);
        for size in [10, 3_000, 200, 1_000, 0] {
            let (copy, before) = (table.clone(), wanted.clone());
            while wanted.len() != size {
                let number = random.u32(..4_000);
                if wanted.len() < size && wanted.insert(number) {
                    table.insert(number);
                } else if wanted.len() > size {
                    let removed = table.remove(hash(&number), |it| *it == number);
                    assert_eq!(removed.is_some(), wanted.remove(&number));
                }
            }
            for (table, wanted) in [(&mut table, &wanted), (&mut copy.clone(), &before)] {
                assert_eq!(table.len(), wanted.len());
                assert_eq!(table.iter().copied().collect::<BTreeSet<_>>(), *wanted);
                for number in 0..4_000 {
                    let found = table.find(hash(&number), |it| *it == number).copied();
                    assert_eq!(found.is_some(), wanted.contains(&number));
                    let found = table.find_mut(hash(&number), |it| *it == number);
                    assert_eq!(found.is_some(), wanted.contains(&number));
                    let all = table.all(hash(&number)).any(|it| *it == number);
                    assert_eq!(all, wanted.contains(&number));
                }
            }
        }
        assert!(
            matches!(table.root, Node::Leaf(_)),
            "what is empty is small"
        );
    }
}
