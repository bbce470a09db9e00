//! Splits a source into documents and single objects, and finds the positions of their fields: line and
//! column by path. These are found by a second pass over a text that has faults.

use std::collections::HashMap;
use std::fmt;
use std::io::BufRead;
use std::iter::successors;
use std::sync::Arc;

use granit_parser::Event;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::item::{Item, ObjectOrigin};
use super::source::{self, InputSource, ManifestError, OpenedText, Position, Syntax};

/// The function that receives each object.
pub(super) type DocumentSink<'a> = &'a mut dyn FnMut(Item) -> Result<(), ManifestError>;

/// Passes every object of `sources` to `sink`, also the items of lists, without the fields that are never
/// used. JSON lists are never in memory as a whole.
pub(super) fn for_each_item(
    sources: impl IntoIterator<Item = InputSource>,
    sink: DocumentSink,
) -> Result<(), ManifestError> {
    for source in sources {
        let OpenedText { syntax, input } = source.open()?;
        let mut splitter = Splitter::new(source, false, &mut *sink);
        match syntax {
            Syntax::Json => splitter.json(serde_json::Deserializer::from_reader(input))?,
            Syntax::Yaml => splitter.yaml(input).pop().map_or(Ok(()), Err)?,
        }
    }
    Ok(())
}

/// Passes every object of the `text` of `source` to `sink`, also the items of lists. No field is left
/// out, and what is no object is passed over. Returns why documents cannot be read; documents after
/// them may be.
pub(super) fn for_each_whole_item(
    text: &str,
    source: &InputSource,
    sink: DocumentSink,
) -> Vec<ManifestError> {
    let mut splitter = Splitter::new(source.clone(), true, sink);
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
    /// The source, and the place in it.
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
    fn new(source: InputSource, is_complete: bool, sink: DocumentSink<'a>) -> Self {
        Self {
            origin: ObjectOrigin::whole(&Arc::new(source), 0),
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
            read.map_err(|error| self.origin.source.not_json(&error))?;
        }
        Ok(())
    }

    /// Passes on the documents of a YAML text. Returns why documents cannot be read: the first only,
    /// unless what is no object is passed over.
    fn yaml(&mut self, mut input: impl BufRead) -> Vec<ManifestError> {
        let mut faults = Vec::new();
        for value in serde_saphyr::read_with_options::<_, Value>(&mut input, source::options()) {
            if matches!(value, Ok(Value::Null)) {
                continue;
            }
            self.begin();
            let value = value.map_err(|error| self.origin.source.not_yaml(&error));
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
                let item = Item::of(value, self.origin.clone(), self.is_complete);
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
                place: self.origin.describe(),
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

/// The positions of the fields of objects of a text.
#[derive(Debug, Default)]
pub struct Positions {
    /// The positions, by document and path in it, e.g. `items[2].spec.containers[0].name`.
    places: HashMap<(u32, String), Position>,
}

/// A collection that is being read.
enum OpenCollection {
    /// A map with the key of its value, and the key's position.
    Map(Option<(String, Position)>),
    /// A list with the index of its item.
    List(u32),
}

impl Positions {
    /// Finds the fields of a text. If it does not parse, finds the fields before the fault. Of JSON, which
    /// YAML takes in, the first document is read.
    pub fn of(text: &str) -> Self {
        let mut positions = Self::default();
        positions.read(text);
        positions
    }

    /// The position of a field of the object at `origin`, or of the nearest field around it.
    pub(super) fn find(&self, origin: &ObjectOrigin, path: &str) -> Option<Position> {
        // The outermost field is the document itself, whose path is empty.
        let paths = successors(Some(path), |path| Some(&path[..path.rfind(['.', '['])?]));
        let mut paths = paths.chain([""]);
        let place = |path: &str| self.places.get(&(origin.document, path.to_owned()));
        paths.find_map(place).copied()
    }

    fn read(&mut self, text: &str) {
        let (mut levels, mut document) = (Vec::new(), 0);
        for event in source::events(text) {
            let Ok((event, span)) = event else { return };
            let here = Position::of(&span.start);
            match event {
                Event::Scalar(value, ..) => match levels.last_mut() {
                    Some(OpenCollection::Map(key @ None)) => {
                        *key = Some((value.into_owned(), here));
                    }
                    None if matches!(&*value, "" | "~" | "null") => {}
                    _ => self.enter(&mut levels, &mut document, here, None),
                },
                Event::Alias(_) => self.enter(&mut levels, &mut document, here, None),
                Event::MappingStart(..) => {
                    let map = Some(OpenCollection::Map(None));
                    self.enter(&mut levels, &mut document, here, map);
                }
                Event::SequenceStart(..) => {
                    let list = Some(OpenCollection::List(0));
                    self.enter(&mut levels, &mut document, here, list);
                }
                Event::MappingEnd | Event::SequenceEnd => {
                    levels.pop();
                    next(&mut levels);
                }
                _ => {}
            }
        }
    }

    /// Records a value, which opens a collection or ends here.
    fn enter(
        &mut self,
        levels: &mut Vec<OpenCollection>,
        document: &mut u32,
        here: Position,
        opens: Option<OpenCollection>,
    ) {
        *document += u32::from(levels.is_empty());
        self.note(levels, *document, here);
        match opens {
            Some(collection) => levels.push(collection),
            None => next(levels),
        }
    }

    /// Records the position of the value that is being read: the position of its key, if it has a
    /// key.
    fn note(&mut self, levels: &[OpenCollection], document: u32, here: Position) {
        let mut path = String::new();
        for level in levels {
            match level {
                OpenCollection::Map(None) => {}
                OpenCollection::Map(Some((key, _))) if path.is_empty() => path.push_str(key),
                OpenCollection::Map(Some((key, _))) => path.extend([".", key]),
                // A list of objects looks like one with the field `items`.
                OpenCollection::List(index) if path.is_empty() => {
                    path.push_str(&format!("items[{index}]"));
                }
                OpenCollection::List(index) => path.push_str(&format!("[{index}]")),
            }
        }
        let place = match levels.last() {
            Some(OpenCollection::Map(Some((_, place)))) => *place,
            _ => here,
        };
        self.places.insert((document, path), place);
    }
}

/// Continues after a value: a map expects a key next, a list its next item.
fn next(levels: &mut [OpenCollection]) {
    match levels.last_mut() {
        Some(OpenCollection::Map(key)) => *key = None,
        Some(OpenCollection::List(index)) => *index += 1,
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The position of a field in a document.
    fn found(text: &str, document: u32, path: &str) -> Option<Position> {
        let origin = ObjectOrigin::whole(&Arc::new(InputSource::StandardInput), document);
        Positions::of(text).find(&origin, path)
    }

    #[test]
    fn fields_are_found_in_block_and_flow_style_and_in_json() {
        let yaml = "\
# A comment is no document.
---
kind: A
spec:
  list:
  - name: x
  - {name: y, of: [1, 2]}
---
kind: B
at: &a {b: c}
same: *a
last: here
---
kind: List
items:
# The first.
- kind: A
  of:
    - { x: 1 }

- - odd
-   kind: C
    over: |
      - text
      of: lines
    last: 1
";
        let array = "[{\"kind\":\"é\"}, {\"kind\":\"B\"}]";
        let list = "{\"items\": [{\"kind\": \"A\"},\n  {\"kind\":\n\"B\"}]}\n";
        let json = "{\n  \"kind\": \"A\",\n  \"spec\": {\"list\": [1,\n    2]}\n}\n";
        let cases = [
            (yaml, 1, "kind", (3, 1)),
            (yaml, 1, "spec.list", (5, 3)),
            (yaml, 1, "spec.list[0].name", (6, 5)),
            (yaml, 1, "spec.list[1].name", (7, 6)),
            (yaml, 1, "spec.list[1].of[1]", (7, 23)),
            (yaml, 1, "spec.list[1].absent.deep", (7, 5)),
            (yaml, 1, "absent", (3, 1)),
            (yaml, 2, "kind", (9, 1)),
            (yaml, 2, "same", (11, 1)),
            (yaml, 2, "last", (12, 1)),
            (yaml, 3, "items[0].of[0].x", (19, 9)),
            (yaml, 3, "items[1]", (21, 3)),
            (yaml, 3, "items[2].last", (26, 5)),
            (json, 1, "spec.list[1]", (4, 5)),
            (list, 1, "items[0].kind", (1, 13)),
            (array, 1, "items[1].kind", (1, 17)),
            (list, 1, "items[1].kind", (2, 4)),
        ];
        for (text, document, path, (line, column)) in cases {
            let found = found(text, document, path);
            assert_eq!(found, Some(Position { line, column }), "{document}: {path}");
        }
        assert_eq!(found("", 1, "kind"), None);
    }
}
