//! A list in blocks that copies share. A copy costs a reference for each group of blocks.
//! Changing an element first copies its block and the references of its group, if they are shared.

use std::ops::Index;
use std::sync::Arc;

/// The number of blocks in a group.
const GROUP: usize = 64;

type Block<T> = Arc<Vec<T>>;

/// A list in blocks of `SIZE`. All blocks but the last are full, and all groups of blocks.
#[derive(Debug, Clone, Default)]
pub struct Blocks<T, const SIZE: usize>(Vec<Arc<Vec<Block<T>>>>);

impl<T, const SIZE: usize> Index<usize> for Blocks<T, SIZE> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        let block = at / SIZE;
        &self.0[block / GROUP][block % GROUP][at % SIZE]
    }
}

impl<T, const SIZE: usize> Blocks<T, SIZE> {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        match self.last_block() {
            Some(last) => (self.block_count() - 1) * SIZE + last.len(),
            None => 0,
        }
    }

    fn block_count(&self) -> usize {
        match &*self.0 {
            [full @ .., last] => full.len() * GROUP + last.len(),
            [] => 0,
        }
    }

    fn last_block(&self) -> Option<&Block<T>> {
        self.0.last()?.last()
    }

    /// The last element.
    pub fn last(&self) -> Option<&T> {
        self.last_block()?.last()
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let blocks = self.0.iter().flat_map(|group| group.iter());
        blocks.flat_map(|block| block.iter())
    }

    /// Gives back spare room for blocks.
    pub fn shrink(&mut self) {
        self.0.shrink_to_fit();
    }
}

impl<T: Clone, const SIZE: usize> Blocks<T, SIZE> {
    /// An element, to change it.
    pub fn get_mut(&mut self, at: usize) -> &mut T {
        let block = at / SIZE;
        let group = Arc::make_mut(&mut self.0[block / GROUP]);
        &mut Arc::make_mut(&mut group[block % GROUP])[at % SIZE]
    }

    /// Adds an element at the end.
    pub fn push(&mut self, element: T) {
        let is_full = self.last_block().is_none_or(|last| last.len() == SIZE);
        let is_first = self.0.is_empty();
        if is_full {
            // The first block grows: most lists are short.
            let room = if is_first { 1 } else { SIZE };
            let block = Arc::new(Vec::with_capacity(room));
            match self.0.last_mut() {
                Some(group) if group.len() < GROUP => Arc::make_mut(group).push(block),
                _ => self.0.push(Arc::new(vec![block])),
            }
        }
        if let Some(block) = self.last_block_mut() {
            Arc::make_mut(block).push(element);
        }
    }

    fn last_block_mut(&mut self) -> Option<&mut Block<T>> {
        Arc::make_mut(self.0.last_mut()?).last_mut()
    }

    /// Removes the last element.
    pub fn pop(&mut self) -> Option<T> {
        let group = Arc::make_mut(self.0.last_mut()?);
        let block = Arc::make_mut(group.last_mut()?);
        let element = block.pop();
        if block.is_empty() {
            group.pop();
        }
        if group.is_empty() {
            self.0.pop();
        }
        element
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_stays_as_it_was() {
        let mut list = Blocks::<usize, 4>::default();
        (0..10).for_each(|i| list.push(i));
        let copy = list.clone();
        *list.get_mut(5) = 50;
        list.push(10);
        assert_eq!(list.pop(), Some(10));
        assert_eq!(list.pop(), Some(9));
        assert_eq!((list.len(), list.last()), (9, Some(&8)));
        assert!(copy.iter().copied().eq(0..10));
        assert_eq!(list[5], 50);
    }
}
