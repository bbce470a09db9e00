//! Interned strings: each distinct text is kept once and named by a number.

use std::sync::Arc;

use super::interner::Interner;

/// The number of texts that are copied to change one of them.
const BLOCK: usize = 64;

/// The number of an interned text, valid in the table that gave it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol(u32);

impl Symbol {
    /// Stands for a text that is not in the table, and so equals none of its
    /// symbols.
    pub const ABSENT: Self = Self(u32::MAX);

    /// Returns the number as an index into an array of `Symbols::len` elements.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A table of interned texts, each dropped with its last use.
#[derive(Debug, Clone, Default)]
pub struct Symbols {
    texts: Interner<Arc<str>, BLOCK>,
}

impl Symbols {
    /// The symbol of `text`, if it is in the table.
    pub fn find(&self, text: &str) -> Option<Symbol> {
        let hash = self.texts.hash(text);
        self.texts.find(hash, |known| **known == *text).map(Symbol)
    }

    /// The symbol of `text`, used once more. Each call is paired with one of
    /// [`Self::release`].
    pub fn acquire(&mut self, text: &str) -> Symbol {
        if let Some(symbol) = self.find(text) {
            self.texts.use_again(symbol.0);
            return symbol;
        }
        Symbol(self.texts.insert(self.texts.hash(text), text.into()))
    }

    /// Gives one use of a symbol back.
    pub fn release(&mut self, symbol: Symbol) {
        self.texts.release(symbol.0);
    }

    /// One more than the largest symbol's index.
    pub fn len(&self) -> usize {
        self.texts.bound()
    }

    /// The text of a symbol of this table.
    pub fn text(&self, symbol: Symbol) -> &str {
        self.texts.get(symbol.0)
    }
}

/// The labels that are read one after the other. More of them are searched by their order.
const FEW_LABELS: usize = 16;

/// Interned labels: pairs of key and value, ascending by key's text. Copies share them.
pub type InternedLabels = Arc<[(Symbol, Symbol)]>;

impl Symbols {
    /// Interns labels, which are ascending by key.
    pub fn acquire_labels<K: AsRef<str>>(
        &mut self,
        labels: impl IntoIterator<Item = (K, K)>,
    ) -> InternedLabels {
        let pair =
            |(key, value): (K, K)| (self.acquire(key.as_ref()), self.acquire(value.as_ref()));
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

    /// The value that interned labels have for a key.
    pub fn label_value<'l>(
        &self,
        labels: &'l [(Symbol, Symbol)],
        key: Symbol,
    ) -> Option<&'l Symbol> {
        if labels.len() <= FEW_LABELS || key == Symbol::ABSENT {
            let found = labels.iter().find(|(known, _)| *known == key);
            return found.map(|(_, value)| value);
        }
        self.label_text(labels, self.text(key))
    }

    /// The value that interned labels have for the text of a key.
    pub fn label_text<'l>(&self, labels: &'l [(Symbol, Symbol)], key: &str) -> Option<&'l Symbol> {
        let at = match labels.len() {
            0..=FEW_LABELS => labels
                .iter()
                .position(|(known, _)| self.text(*known) == key)?,
            _ => {
                let found = labels.binary_search_by(|(known, _)| self.text(*known).cmp(key));
                found.ok()?
            }
        };
        Some(&labels[at].1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_label_is_found_among_few_and_among_many() {
        for count in [0, 1, FEW_LABELS, FEW_LABELS + 1, 100] {
            let mut symbols = Symbols::default();
            // The order in which texts get their numbers is not that of the texts.
            let other = symbols.acquire("key-5x");
            let texts = (0..count).map(|i| (format!("key-{i}"), format!("value-{i}")));
            let texts: BTreeMap<String, String> = texts.collect();
            let labels = symbols.acquire_labels(&texts);
            for (key, value) in &texts {
                let found = symbols.label_text(&labels, key);
                assert_eq!(found.map(|it| symbols.text(*it)), Some(&**value), "{count}");
                let key = symbols.find(key).expect("it is interned");
                assert_eq!(symbols.label_value(&labels, key), found, "{count}");
            }
            for absent in [other, Symbol::ABSENT] {
                assert_eq!(symbols.label_value(&labels, absent), None, "{count}");
            }
            assert_eq!(symbols.label_text(&labels, "key"), None, "{count}");
        }
    }
}
