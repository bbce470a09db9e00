//! Interned strings: each distinct text is kept once and named by a number.

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashTable};

use super::blocks::Blocks;
use super::shrink;
use crate::account::heap;

/// How many texts are copied to change one of them.
const BLOCK: usize = 64;

/// The number of an interned text, valid in the table that gave it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol(u32);

impl Symbol {
    /// Stands for a text that is not in the table, and so equals none of its
    /// symbols.
    pub const ABSENT: Self = Self(u32::MAX);

    /// As an index into an array of [`Symbols::len`] elements.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A table of interned texts, each dropped with its last use. Texts are
/// strings, or bytes.
#[derive(Debug)]
pub struct Symbols<T: ?Sized = str> {
    by_text: HashTable<Symbol>,
    /// The last one is in use.
    entries: Blocks<Text<T>, BLOCK>,
    /// Symbols to give out again. Some may be past the end of `entries`.
    free: Vec<Symbol>,
    hasher: DefaultHashBuilder,
    /// What the texts take.
    text_bytes: usize,
}

#[derive(Debug)]
struct Text<T: ?Sized> {
    text: Box<T>,
    uses: u32,
}

impl<T: ?Sized> Clone for Text<T>
where
    Box<T>: Clone,
{
    fn clone(&self) -> Self {
        Self {
            text: self.text.clone(),
            uses: self.uses,
        }
    }
}

impl<T: ?Sized> Clone for Symbols<T>
where
    Box<T>: Clone,
{
    fn clone(&self) -> Self {
        Self {
            by_text: self.by_text.clone(),
            entries: self.entries.clone(),
            free: self.free.clone(),
            hasher: self.hasher.clone(),
            text_bytes: self.text_bytes,
        }
    }
}

impl<T: ?Sized> Default for Symbols<T> {
    fn default() -> Self {
        Self {
            by_text: HashTable::default(),
            entries: Blocks::default(),
            free: Vec::default(),
            hasher: DefaultHashBuilder::default(),
            text_bytes: 0,
        }
    }
}

impl<T> Symbols<T>
where
    T: Hash + Eq + ?Sized,
    Box<T>: for<'t> From<&'t T> + Default + Clone,
{
    /// The symbol of `text`, if it is in the table.
    pub fn find(&self, text: &T) -> Option<Symbol> {
        let same = |symbol: &Symbol| self.text(*symbol) == text;
        self.by_text.find(self.hasher.hash_one(text), same).copied()
    }

    /// The symbol of `text`, used once more. Each call is paired with one of
    /// [`Self::release`].
    pub fn acquire(&mut self, text: &T) -> Symbol {
        if let Some(symbol) = self.find(text) {
            self.entries.get_mut(symbol.index()).uses += 1;
            return symbol;
        }
        let entry = Text {
            text: text.into(),
            uses: 1,
        };
        self.text_bytes += heap::block(size_of_val(text));
        let symbol = match self.pop_free() {
            Some(symbol) => {
                *self.entries.get_mut(symbol.index()) = entry;
                symbol
            }
            None => {
                self.entries.push(entry);
                Symbol(u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 texts"))
            }
        };
        let Self {
            by_text,
            entries,
            hasher,
            ..
        } = self;
        by_text.insert_unique(hasher.hash_one(text), symbol, |symbol| {
            hasher.hash_one(&*entries[symbol.index()].text)
        });
        symbol
    }

    /// Gives one use of a symbol back.
    pub fn release(&mut self, symbol: Symbol) {
        let entry = self.entries.get_mut(symbol.index());
        entry.uses -= 1;
        if entry.uses > 0 {
            return;
        }
        let text = std::mem::take(&mut entry.text);
        self.text_bytes -= heap::block(size_of_val(&*text));
        let hash = self.hasher.hash_one(&*text);
        self.by_text
            .find_entry(hash, |other| *other == symbol)
            .expect("a symbol in use is in the table")
            .remove();
        self.free.push(symbol);
        self.trim();
    }

    /// A symbol to give out again. As long as there is one, `entries` does not
    /// grow: so one past its end never comes back into it.
    fn pop_free(&mut self) -> Option<Symbol> {
        let len = self.entries.len();
        std::iter::from_fn(|| self.free.pop()).find(|symbol| symbol.index() < len)
    }

    /// Drops unused entries at the end, and room that is not needed.
    fn trim(&mut self) {
        while self.entries.last().is_some_and(|entry| entry.uses == 0) {
            self.entries.pop();
        }
        let len = self.entries.len();
        if let Some(capacity) = shrink::shrunk(len, self.by_text.capacity()) {
            let Self {
                entries,
                by_text,
                hasher,
                free,
                ..
            } = self;
            entries.shrink();
            by_text.shrink_to(capacity, |s| hasher.hash_one(&*entries[s.index()].text));
            free.retain(|symbol| symbol.index() < len);
            free.shrink_to_fit();
        }
    }

    /// One more than the largest symbol's index.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The text of a symbol of this table.
    pub fn text(&self, symbol: Symbol) -> &T {
        &self.entries[symbol.index()].text
    }

    /// What its tables take more at once with so many more texts.
    pub fn doubling(&self, more: usize) -> usize {
        let (len, room) = (self.entries.len(), self.entries.capacity());
        let table = heap::block(self.by_text.allocation_size());
        heap::doubling(heap::list::<Text<T>>(room), len, room, more)
            + heap::doubling(table, len, self.by_text.capacity(), more)
    }

    /// As [`Self::memory_bytes`], with every text measured anew.
    pub fn measured_bytes(&self) -> usize {
        let texts = self
            .entries
            .iter()
            .map(|e| heap::block(size_of_val(&*e.text)));
        self.memory_bytes() - self.text_bytes + texts.sum::<usize>()
    }

    /// What the table takes in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.text_bytes
            + heap::list::<Text<T>>(self.entries.capacity())
            + heap::list::<Symbol>(self.free.capacity())
            + heap::block(self.by_text.allocation_size())
    }
}

/// Interned labels: pairs of key and value, ascending by key's text.
pub type InternedLabels = Box<[(Symbol, Symbol)]>;

impl Symbols {
    /// Interns a map of labels.
    pub fn acquire_labels<'a>(
        &mut self,
        labels: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> InternedLabels {
        let pair = |(key, value): (&String, &String)| (self.acquire(key), self.acquire(value));
        labels.into_iter().map(pair).collect()
    }

    /// Gives the uses of interned labels back.
    pub fn release_labels(&mut self, labels: &[(Symbol, Symbol)]) {
        for (key, value) in labels {
            self.release(*key);
            self.release(*value);
        }
    }

    /// The texts of interned labels.
    pub fn label_texts<'a>(
        &'a self,
        labels: &'a [(Symbol, Symbol)],
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        labels
            .iter()
            .map(|(key, value)| (self.text(*key), self.text(*value)))
    }
}

/// The value that interned labels have for a key.
pub fn label_value(labels: &[(Symbol, Symbol)], key: Symbol) -> Option<&Symbol> {
    labels
        .iter()
        .find(|(k, _)| *k == key)
        .map(|(_, value)| value)
}
