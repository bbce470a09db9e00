//! Splits a source into documents and single objects.

use std::fmt;
use std::io::BufRead;

use indicatif::ProgressBar;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::error::ManifestError;
use super::item::{Item, ObjectOrigin};
use super::source::{InputSource, OpenedText, Syntax};
use super::yaml;

/// The function that receives each object.
pub(super) type DocumentSink<'a> = &'a mut dyn FnMut(Item) -> Result<(), ManifestError>;

/// Passes every object of `source` to `sink`, also the items of lists, without the fields that are never
/// used. JSON lists are never in memory as a whole.
pub(super) fn for_each_item(
    source: &InputSource,
    index: u32,
    progress: &ProgressBar,
    sink: DocumentSink,
) -> Result<(), ManifestError> {
    let OpenedText { syntax, input } = source.open(progress)?;
    let mut splitter = Splitter::new(source, index, false, sink);
    match syntax {
        Syntax::Json => splitter.json(serde_json::Deserializer::from_reader(input)),
        Syntax::Yaml => splitter.yaml(input).pop().map_or(Ok(()), Err),
    }
}

/// Passes every object of the `text` of `source` to `sink`, also the items of lists. No field is left
/// out, and what is no object is passed over. Returns why documents cannot be read; documents after
/// them may be.
pub(super) fn for_each_whole_item(
    text: &str,
    source: &InputSource,
    sink: DocumentSink,
) -> Vec<ManifestError> {
    let mut splitter = Splitter::new(source, 0, true, sink);
    match source.format(text.as_bytes()) {
        Syntax::Json => {
            let read = splitter.json(serde_json::Deserializer::from_str(text));
            read.err().into_iter().collect()
        }
        Syntax::Yaml => splitter.yaml(text.as_bytes()),
    }
}

/// Kind and version of a list, which its items may leave out.
#[derive(Debug, Default)]
struct ListType {
    kind: Option<String>,
    api_version: Option<String>,
}

impl ListType {
    /// The type of a list with these fields: a `PodList` contains objects of kind `Pod`.
    fn of(fields: &Map<String, Value>) -> Self {
        let text = |field| fields.get(field).and_then(Value::as_str);
        let kind = text("kind").and_then(|kind| kind.strip_suffix("List"));
        Self {
            kind: kind.filter(|kind| !kind.is_empty()).map(str::to_owned),
            api_version: text("apiVersion").map(str::to_owned),
        }
    }

    /// Fills in the kind and version that `item` leaves out.
    fn apply(&self, item: &mut Value) {
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

/// Splits documents into objects.
struct Splitter<'a> {
    source: &'a InputSource,
    origin: ObjectOrigin,
    /// True if no field is left out, and what is no object is passed over.
    is_complete: bool,
    sink: DocumentSink<'a>,
    /// The sink's error, which the parser's error type cannot carry.
    refused: Option<ManifestError>,
}

/// Returns whether these are the fields of a list without `items`.
fn is_empty_list(fields: &Map<String, Value>) -> bool {
    let kind = fields.get("kind").and_then(Value::as_str);
    kind.is_some_and(|kind| kind.ends_with("List"))
}

impl<'a> Splitter<'a> {
    fn new(source: &'a InputSource, index: u32, is_complete: bool, sink: DocumentSink<'a>) -> Self {
        Self {
            source,
            origin: ObjectOrigin::whole(index, 0),
            is_complete,
            sink,
            refused: None,
        }
    }

    /// Passes on the documents of a JSON text, and the items of lists while they are read.
    fn json<'de>(
        &mut self,
        mut json: serde_json::Deserializer<impl serde_json::de::Read<'de>>,
    ) -> Result<(), ManifestError> {
        while json.end().is_err() {
            self.begin();
            let read = json.deserialize_any(&mut *self);
            if let Some(error) = self.refused.take() {
                return Err(error);
            }
            read.map_err(|error| self.source.not_json(&error))?;
        }
        Ok(())
    }

    /// Passes on the documents of a YAML text. Returns why documents cannot be read: the first only,
    /// unless what is no object is passed over.
    fn yaml(&mut self, mut input: impl BufRead) -> Vec<ManifestError> {
        let mut faults = Vec::new();
        for value in serde_saphyr::read_with_options::<_, Value>(&mut input, yaml::options()) {
            if matches!(value, Ok(Value::Null)) {
                continue;
            }
            self.begin();
            let value = value.map_err(|error| self.source.not_yaml(&error));
            faults.extend(value.and_then(|value| self.document(value)).err());
            if !faults.is_empty() && !self.is_complete {
                break;
            }
        }
        faults
    }

    /// Begins a document.
    fn begin(&mut self) {
        self.origin.document += 1;
        self.origin.item = 0;
    }

    /// Passes on a whole document: an object, a list of objects, or nothing.
    fn document(&mut self, value: Value) -> Result<(), ManifestError> {
        match value {
            Value::Null => Ok(()),
            Value::Array(items) => self.list(items, &ListType::default()),
            Value::Object(mut fields) => match fields.remove("items") {
                Some(Value::Array(items)) => self.list(items, &ListType::of(&fields)),
                Some(_) => self.not_an_object("`items` is not a list"),
                None if is_empty_list(&fields) => Ok(()),
                None => self.object(Value::Object(fields)),
            },
            _ => self.not_an_object("a plain value, not a Kubernetes object"),
        }
    }

    fn list(&mut self, items: Vec<Value>, list: &ListType) -> Result<(), ManifestError> {
        let mut items = items.into_iter();
        items.try_for_each(|item| self.item(item, list))
    }

    /// Passes on the next item of a list.
    fn item(&mut self, mut item: Value, list: &ListType) -> Result<(), ManifestError> {
        self.origin.item += 1;
        list.apply(&mut item);
        self.object(item)
    }

    fn object(&mut self, value: Value) -> Result<(), ManifestError> {
        match &value {
            Value::Object(fields) if fields.get("kind").is_some_and(Value::is_string) => {
                let item = Item::of(value, self.origin, self.is_complete);
                (self.sink)(item)
            }
            Value::Object(_) => self.not_an_object("an object without a `kind`"),
            _ => self.not_an_object("a plain value, not a Kubernetes object"),
        }
    }

    /// Refuses what is no object, unless that is passed over.
    fn not_an_object(&self, message: &str) -> Result<(), ManifestError> {
        match self.is_complete {
            true => Ok(()),
            false => Err(ManifestError::NotAnObject {
                place: self.origin.describe(self.source),
                message: message.to_owned(),
            }),
        }
    }

    /// Runs `step` inside the parser, and stores its error in `refused`.
    fn inside<E: serde::de::Error>(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<(), ManifestError>,
    ) -> Result<(), E> {
        step(self).map_err(|error| {
            self.refused = Some(error);
            E::custom("refused")
        })
    }
}

impl<'de> Visitor<'de> for &mut Splitter<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object or a list of them")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        let list = &ListType::default();
        let items = Items {
            splitter: self,
            list,
        };
        items.visit_seq(seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut fields = Map::new();
        let mut is_list = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" {
                is_list = true;
                map.next_value_seed(Items {
                    splitter: &mut *self,
                    list: &ListType::of(&fields),
                })?;
            } else {
                fields.insert(key, map.next_value()?);
            }
        }
        match is_list {
            true => Ok(()),
            false => self.inside(|this| this.document(Value::Object(fields))),
        }
    }
}

/// Passes on the items of a list while they are read. The kind of the list is known if it comes before
/// them.
struct Items<'s, 'a> {
    splitter: &'s mut Splitter<'a>,
    list: &'s ListType,
}

impl<'de> DeserializeSeed<'de> for Items<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of Kubernetes objects")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let (splitter, list) = (self.splitter, self.list);
        splitter.origin.item = 0;
        while let Some(item) = seq.next_element::<Value>()? {
            splitter.inside(|splitter| splitter.item(item, list))?;
        }
        Ok(())
    }
}
