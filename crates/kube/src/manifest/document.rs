//! Splits a source into documents and single objects.

use std::fmt;
use std::io::BufRead;
use std::rc::Rc;

use indicatif::ProgressBar;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::bounded::{BoundedText, TextPiece};
use super::error::ManifestError;
use super::item::{Item, ObjectOrigin};
use super::lean::{CompleteValue, Lean, LeanValue, read_field};
use super::source::{InputSource, Syntax};
use super::yaml;

/// The function that receives each object.
pub(super) type DocumentSink<'a> = &'a mut dyn FnMut(Item) -> Result<(), ManifestError>;

/// Passes every object of `source` to `sink`, also the items of lists. JSON lists are never in
/// memory as a whole.
pub(super) fn for_each_item(
    source: &InputSource,
    index: u32,
    progress: &ProgressBar,
    sink: DocumentSink,
) -> Result<(), ManifestError> {
    let opened = source.open(progress, TextPiece::Object)?;
    match opened.syntax {
        Syntax::Json => {
            let json = serde_json::Deserializer::from_reader(opened.input);
            json_items(source, index, json, Lean::Whole, &mut |item| {
                opened.in_piece.set(0);
                sink(item)
            })
        }
        Syntax::Yaml => yaml_documents(source, opened.input, &mut |document, LeanValue(value)| {
            let origin = ObjectOrigin::whole(index, document);
            Splitter::new(source, origin, Lean::Whole, sink).document(value)
        }),
    }
}

/// Passes every object of the JSON `text` of `source` to `sink`, also the items of lists.
pub(super) fn for_each_item_in(
    text: &str,
    source: &InputSource,
    sink: DocumentSink,
) -> Result<(), ManifestError> {
    let json = serde_json::Deserializer::from_str(text);
    json_items(source, 0, json, Lean::Whole, sink)
}

/// Passes every object of the `text` of `source` to `sink`, also the items of lists. No field is left
/// out, and what is no object is passed over. Returns why documents cannot be read; documents after
/// them may be.
pub(super) fn for_each_whole_item(
    text: &str,
    source: &InputSource,
    sink: DocumentSink,
) -> Vec<ManifestError> {
    if source.format(text.as_bytes()) == Syntax::Json {
        let text = BoundedText::new(text.as_bytes(), TextPiece::Object, u64::MAX);
        let in_piece = Rc::clone(&text.in_piece);
        let json = serde_json::Deserializer::from_reader(text.buffered());
        let read = json_items(source, 0, json, Lean::Complete, &mut |item| {
            in_piece.set(0);
            sink(item)
        });
        return read.err().into_iter().collect();
    }
    let mut faults = Vec::new();
    let mut input = text.as_bytes();
    let documents =
        serde_saphyr::read_with_options::<_, CompleteValue>(&mut input, yaml::options());
    let mut number = 0;
    for read in documents {
        // An empty document is not counted, as in the positions.
        number += u32::from(!matches!(read, Ok(CompleteValue(Value::Null))));
        let read = read.map_err(|error| source.not_yaml(&error));
        let origin = ObjectOrigin::whole(0, number);
        let mut splitter = Splitter::new(source, origin, Lean::Complete, sink);
        let passed = read.and_then(|CompleteValue(value)| splitter.document(value));
        faults.extend(passed.err());
    }
    faults
}

/// Passes every document of `source` to `sink` unchanged.
pub(super) fn for_each_document(
    source: &InputSource,
    sink: &mut dyn FnMut(Value) -> Result<(), ManifestError>,
) -> Result<(), ManifestError> {
    let opened = source.open(&ProgressBar::hidden(), TextPiece::Object)?;
    let input = opened.input;
    match opened.syntax {
        Syntax::Yaml => yaml_documents(source, input, &mut |_, CompleteValue(value)| sink(value)),
        Syntax::Json => {
            for value in serde_json::Deserializer::from_reader(input).into_iter::<CompleteValue>() {
                sink(value.map_err(|error| source.not_json(&error))?.0)?;
            }
            Ok(())
        }
    }
}

fn json_items<'de>(
    source: &InputSource,
    index: u32,
    mut json: serde_json::Deserializer<impl serde_json::de::Read<'de>>,
    how: Lean,
    sink: DocumentSink,
) -> Result<(), ManifestError> {
    let mut document = 0;
    while json.end().is_err() {
        document += 1;
        let origin = ObjectOrigin::whole(index, document);
        let mut splitter = Splitter::new(source, origin, how, sink);
        let read = json.deserialize_any(&mut splitter);
        if let Some(error) = splitter.refused {
            return Err(error);
        }
        read.map_err(|error| source.not_json(&error))?;
    }
    Ok(())
}

fn yaml_documents<T: DeserializeOwned>(
    source: &InputSource,
    mut input: impl BufRead,
    sink: &mut dyn FnMut(u32, T) -> Result<(), ManifestError>,
) -> Result<(), ManifestError> {
    let documents = serde_saphyr::read_with_options::<_, T>(&mut input, yaml::options());
    for (number, value) in (1..).zip(documents) {
        let value = value.map_err(|error| source.not_yaml(&error))?;
        sink(number, value)?;
    }
    Ok(())
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

/// Splits one document into objects.
struct Splitter<'a> {
    source: &'a InputSource,
    origin: ObjectOrigin,
    /// The fields that are read.
    how: Lean,
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
    fn new(
        source: &'a InputSource,
        origin: ObjectOrigin,
        how: Lean,
        sink: DocumentSink<'a>,
    ) -> Self {
        Self {
            source,
            origin,
            how,
            sink,
            refused: None,
        }
    }

    /// Passes on a whole document: an object, a list of objects, or nothing.
    fn document(&mut self, value: Value) -> Result<(), ManifestError> {
        match value {
            Value::Null => Ok(()),
            Value::Array(items) => self.numbered((1..).zip(items), &ListType::default()),
            Value::Object(mut fields) => match fields.remove("items") {
                Some(Value::Array(items)) => {
                    self.numbered((1..).zip(items), &ListType::of(&fields))
                }
                Some(_) => self.not_an_object("`items` is not a list"),
                None if is_empty_list(&fields) => Ok(()),
                None => self.object(Value::Object(fields)),
            },
            _ => self.not_an_object("a plain value, not a Kubernetes object"),
        }
    }

    /// Passes on items of a list, with their numbers.
    fn numbered(
        &mut self,
        items: impl IntoIterator<Item = (u32, Value)>,
        list: &ListType,
    ) -> Result<(), ManifestError> {
        for (number, mut item) in items {
            self.origin.item = number;
            list.apply(&mut item);
            self.object(item)?;
        }
        Ok(())
    }

    fn object(&mut self, value: Value) -> Result<(), ManifestError> {
        match &value {
            Value::Object(fields) if fields.get("kind").is_some_and(Value::is_string) => {
                (self.sink)(Item {
                    value,
                    origin: self.origin,
                })
            }
            Value::Object(_) => self.not_an_object("an object without a `kind`"),
            _ => self.not_an_object("a plain value, not a Kubernetes object"),
        }
    }

    /// Refuses what is no object, unless that is passed over.
    fn not_an_object(&self, message: &str) -> Result<(), ManifestError> {
        match self.how {
            Lean::Complete => Ok(()),
            _ => Err(ManifestError::NotAnObject {
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
        let list = ListType::default();
        let waiting = Items {
            splitter: &mut *self,
            list: &list,
        }
        .visit_seq(seq)?;
        self.inside(|this| this.numbered(waiting, &list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut fields = Map::new();
        let mut waiting = None;
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" {
                let items = Items {
                    splitter: &mut *self,
                    list: &ListType::of(&fields),
                };
                waiting = Some(map.next_value_seed(items)?);
            } else {
                read_field(&mut fields, key, &mut map, self.how)?;
            }
        }
        match waiting {
            None => self.inside(|this| this.document(Value::Object(fields))),
            Some(waiting) => {
                let list = ListType::of(&fields);
                self.inside(|this| this.numbered(waiting, &list))
            }
        }
    }
}

/// Passes on the items of a list while they are read. Returns those items, with their numbers, that
/// have no kind and come before the kind of the list.
struct Items<'s, 'a> {
    splitter: &'s mut Splitter<'a>,
    list: &'s ListType,
}

impl<'de> DeserializeSeed<'de> for Items<'_, '_> {
    type Value = Vec<(u32, Value)>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_, '_> {
    type Value = Vec<(u32, Value)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of Kubernetes objects")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut waiting = Vec::new();
        for number in 1.. {
            let Some(item) = seq.next_element_seed(self.splitter.how)? else {
                break;
            };
            if self.list.kind.is_none() && item.is_object() && item.get("kind").is_none() {
                waiting.push((number, item));
            } else {
                let item = vec![(number, item)];
                self.splitter
                    .inside(|splitter| splitter.numbered(item, self.list))?;
            }
        }
        Ok(waiting)
    }
}
