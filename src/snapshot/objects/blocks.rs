//! A list in blocks that copies share. A copy costs a reference for each block.
//! Changing an element first copies its block, if that is shared.

use std::ops::Index;
use std::sync::Arc;

use crate::account::heap;

/// A list in blocks of `SIZE`. All blocks but the last are full.
#[derive(Debug, Clone, Default)]
pub struct Blocks<T, const SIZE: usize>(Vec<Arc<Vec<T>>>);

impl<T, const SIZE: usize> Index<usize> for Blocks<T, SIZE> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        &self.0[at / SIZE][at % SIZE]
    }
}

impl<T, const SIZE: usize> Blocks<T, SIZE> {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        match &*self.0 {
            [full @ .., last] => full.len() * SIZE + last.len(),
            [] => 0,
        }
    }

    /// The last element.
    pub fn last(&self) -> Option<&T> {
        self.0.last()?.last()
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flat_map(|block| block.iter())
    }

    /// Returns the list's bytes in memory, without those that its elements own.
    pub fn memory_bytes(&self) -> usize {
        let block = |room: usize| heap::shared(size_of::<Vec<T>>()) + heap::list::<T>(room);
        let blocks = match &*self.0 {
            [full @ .., last] => full.len() * block(SIZE) + block(last.capacity()),
            [] => 0,
        };
        blocks + heap::list::<Arc<Vec<T>>>(self.0.capacity())
    }

    /// Gives back spare room for blocks.
    pub fn shrink(&mut self) {
        self.0.shrink_to_fit();
    }
}

impl<T: Clone, const SIZE: usize> Blocks<T, SIZE> {
    /// An element, to change it.
    pub fn get_mut(&mut self, at: usize) -> &mut T {
        &mut Arc::make_mut(&mut self.0[at / SIZE])[at % SIZE]
    }

    /// Adds an element at the end.
    pub fn push(&mut self, element: T) {
        match self.0.last_mut() {
            Some(last) if last.len() < SIZE => Arc::make_mut(last).push(element),
            last => {
                // The first block grows: most lists are short.
                let room = if last.is_some() { SIZE } else { 1 };
                let mut block = Vec::with_capacity(room);
                block.push(element);
                self.0.push(Arc::new(block));
            }
        }
    }

    /// Removes the last element.
    pub fn pop(&mut self) -> Option<T> {
        let last = Arc::make_mut(self.0.last_mut()?);
        let element = last.pop();
        if last.is_empty() {
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
