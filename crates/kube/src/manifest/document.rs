//! Splits a source into documents and single objects.

use std::fmt;
use std::io::BufRead;

use indicatif::ProgressBar;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::bounded::{BoundError, MAX_PIECE_BYTES, TextPiece};
use super::error::ManifestError;
use super::item::{Item, ObjectOrigin};
use super::lean::{CompleteValue, Lean, LeanValue, read_field};
use super::parts::{ListType, ObjectText};
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
            json_items(source, index, json, &mut |item| {
                opened.in_piece.set(0);
                sink(item)
            })
        }
        Syntax::Yaml => yaml_documents(source, opened.input, &mut |document, LeanValue(value)| {
            let origin = ObjectOrigin::whole(index, document);
            Splitter::new(source, origin, sink).document(value)
        }),
    }
}

/// Passes every object of the JSON `text` of `source` to `sink`, also the items of lists.
pub(super) fn for_each_item_in(
    text: &str,
    source: &InputSource,
    sink: DocumentSink,
) -> Result<(), ManifestError> {
    json_items(source, 0, serde_json::Deserializer::from_str(text), sink)
}

/// Passes the object of `part`, or every object of its document, to `sink`. No field is left out.
pub(super) fn for_each_item_of(
    part: &ObjectText<'_>,
    source: &InputSource,
    sink: DocumentSink,
) -> Result<(), ManifestError> {
    let CompleteValue(value) = read_part(part, source)?;
    let mut splitter = Splitter::new(source, part.origin, sink);
    match part.origin.item {
        0 => splitter.document(value),
        number => splitter.numbered([(number, value)], &part.list),
    }
}

fn read_part(part: &ObjectText<'_>, source: &InputSource) -> Result<CompleteValue, ManifestError> {
    if part.syntax == Syntax::Json && part.text.len() as u64 > MAX_PIECE_BYTES {
        let too_long = BoundError::Piece {
            piece: "object",
            most: MAX_PIECE_BYTES,
        };
        return Err(source.io(too_long.into()));
    }
    let read = |text: &str| match part.syntax {
        Syntax::Json => serde_json::from_str(text).map_err(|error| source.not_json(&error)),
        Syntax::Yaml => serde_saphyr::from_str_with_options(text, yaml::options())
            .map_err(|error| source.not_yaml(&error)),
    };
    let first_read = match part.syntax {
        Syntax::Json => read(part.text),
        Syntax::Yaml => read(&part.indented()),
    };
    // For an error, reads again with as many lines before the text as in the file, so that the
    // error has the position in the file.
    let lines_before = || "\n".repeat(part.start.line - 1);
    first_read.or_else(|_| read(&(lines_before() + &part.indented())))
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
    sink: DocumentSink,
) -> Result<(), ManifestError> {
    let mut document = 0;
    while json.end().is_err() {
        document += 1;
        let origin = ObjectOrigin::whole(index, document);
        let mut splitter = Splitter::new(source, origin, sink);
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

/// Splits one document into objects.
struct Splitter<'a> {
    source: &'a InputSource,
    origin: ObjectOrigin,
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
    fn new(source: &'a InputSource, origin: ObjectOrigin, sink: DocumentSink<'a>) -> Self {
        Self {
            source,
            origin,
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
                Some(_) => Err(self.not_an_object("`items` is not a list")),
                None if is_empty_list(&fields) => Ok(()),
                None => self.object(Value::Object(fields)),
            },
            _ => Err(self.not_an_object("a plain value, not a Kubernetes object")),
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
            Value::Object(_) => Err(self.not_an_object("an object without a `kind`")),
            _ => Err(self.not_an_object("a plain value, not a Kubernetes object")),
        }
    }

    fn not_an_object(&self, message: &str) -> ManifestError {
        ManifestError::NotAnObject {
            place: self.origin.describe(self.source),
            message: message.to_owned(),
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
                read_field(&mut fields, key, &mut map, Lean::Whole)?;
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
            let Some(item) = seq.next_element_seed(Lean::Whole)? else {
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
