//! What a list says of its items.

use serde_json::{Map, Value};

/// Kind and version of a list, which its items may leave out.
#[derive(Debug, Default)]
pub(super) struct ListType {
    pub(super) kind: Option<String>,
    api_version: Option<String>,
}

impl ListType {
    /// Of a list with these fields.
    pub(super) fn of(fields: &Map<String, Value>) -> Self {
        let mut list = Self::default();
        for (key, value) in fields {
            if let Some(value) = value.as_str() {
                list.note(key, value);
            }
        }
        list
    }

    /// Notes a field of the list: a `PodList` holds objects of kind `Pod`.
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

    /// Fills in what `item` leaves out.
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
