//! Takes a JSON text apart into the texts of its objects.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::value::RawValue;

use super::error::ManifestError;
use super::list_type::ListType;
use super::part::ObjectText;
use super::position::Position;
use super::source::{InputSource, Syntax};

/// Takes `text`, which is that of `source`, apart.
///
/// # Errors
/// Where the text stops to be JSON, with the parts of the documents before that.
pub(super) fn split<'t>(
    source: &InputSource,
    text: &'t str,
) -> (Vec<ObjectText<'t>>, Result<(), ManifestError>) {
    let mut parts = Vec::new();
    let mut places = Places::new(text);
    let documents = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    for (document, read) in (1..).zip(documents) {
        let whole = match read {
            Ok(whole) => whole,
            Err(error) => return (parts, Err(source.not_json(&error))),
        };
        let (items, list) = match items_of(whole) {
            Some((items, list)) => ((1..).zip(items).collect(), list),
            None => (vec![(0, whole)], ListType::default()),
        };
        let list = Rc::new(list);
        parts.extend(items.into_iter().map(|(item, value)| ObjectText {
            document,
            item,
            list: Rc::clone(&list),
            syntax: Syntax::Json,
            text: value.get(),
            start: places.of(value.get()),
        }));
    }
    (parts, Ok(()))
}

/// The items of a list, and what it says of them.
fn items_of(document: &RawValue) -> Option<(Vec<&RawValue>, ListType)> {
    if let Ok(items) = serde_json::from_str(document.get()) {
        return Some((items, ListType::default()));
    }
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(document.get()).ok()?;
    let items = serde_json::from_str(fields.get("items")?.get()).ok()?;
    let mut list = ListType::default();
    for (key, value) in &fields {
        if let Ok(value) = serde_json::from_str::<String>(value.get()) {
            list.note(key, &value);
        }
    }
    Some((items, list))
}

/// Finds where parts of a text are, one after the other: what is before a part
/// is counted once.
struct Places<'t> {
    text: &'t str,
    counted_bytes: usize,
    line: usize,
    line_start: usize,
}

impl<'t> Places<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            text,
            counted_bytes: 0,
            line: 1,
            line_start: 0,
        }
    }

    /// Where `part`, a later slice of the text than the last, begins.
    fn of(&mut self, part: &str) -> Position {
        let start = part.as_ptr().addr() - self.text.as_ptr().addr();
        let between = &self.text[self.counted_bytes..start];
        if let Some(end) = between.rfind('\n') {
            self.line += between.bytes().filter(|byte| *byte == b'\n').count();
            self.line_start = self.counted_bytes + end + 1;
        }
        self.counted_bytes = start;
        Position {
            line: self.line,
            column: self.text[self.line_start..start].chars().count() + 1,
        }
    }
}
