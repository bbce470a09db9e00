//! The text of one object of a file, with the kind that its list declares.

use std::rc::Rc;

use serde_json::{Map, Value};

use super::error::Position;
use super::item::ObjectOrigin;
use super::source::Syntax;

/// The text of one object of a file, or of a whole document that could not be split.
#[derive(Debug, Clone)]
pub(crate) struct ObjectText<'t> {
    /// The object's place, as if its file were the only one. Item 0 means the whole document.
    pub(super) origin: ObjectOrigin,
    /// The kind and version that the list declares for its items.
    pub(super) list: Rc<ListType>,
    /// The syntax of the text.
    pub(super) syntax: Syntax,
    /// The text, from the first character of the value on.
    pub(super) text: &'t str,
    /// The position of the first character.
    pub(super) start: Position,
}

impl ObjectText<'_> {
    /// The text with its first line indented as in the file. So a YAML block stays a block, and
    /// columns are those of the file.
    pub(super) fn indented(&self) -> String {
        format!("{:1$}{2}", "", self.start.column - 1, self.text)
    }
}

/// Kind and version of a list, which its items may leave out.
#[derive(Debug, Default)]
pub(super) struct ListType {
    pub(super) kind: Option<String>,
    api_version: Option<String>,
}

impl ListType {
    /// The type of a list with these fields.
    pub(super) fn of(fields: &Map<String, Value>) -> Self {
        let mut list = Self::default();
        for (key, value) in fields {
            if let Some(value) = value.as_str() {
                list.note(key, value);
            }
        }
        list
    }

    /// Records a field of the list: a `PodList` contains objects of kind `Pod`.
    pub(super) fn note(&mut self, key: &str, value: &str) {
        match key {
            "kind" => {
                let kind = value.strip_suffix("List");
                self.kind = kind.filter(|kind| !kind.is_empty()).map(str::to_owned);
            }
            "apiVersion" => self.api_version = Some(value.to_owned()),
            _ => {}
        }
    }

    /// Fills in the kind and version that `item` leaves out.
    pub(super) fn apply(&self, item: &mut Value) {
        if let (Some(kind), Value::Object(fields)) = (&self.kind, item)
            && !fields.contains_key("kind")
        {
            fields.insert("kind".to_owned(), kind.clone().into());
            if let Some(version) = &self.api_version {
                fields
                    .entry("apiVersion")
                    .or_insert_with(|| version.clone().into());
            }
        }
    }
}
