//! The positions of the fields of objects: line and column by path. They are found by a second pass over
//! a text that has faults.

use std::collections::HashMap;
use std::iter::successors;

use granit_parser::Event;

use super::error::Position;
use super::item::ObjectOrigin;
use super::yaml;

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
    pub(super) fn find(&self, origin: ObjectOrigin, path: &str) -> Option<Position> {
        // The outermost field is the document itself, whose path is empty.
        let paths = successors(Some(path), |path| Some(&path[..path.rfind(['.', '['])?]));
        let mut paths = paths.chain([""]);
        let place = |path: &str| self.places.get(&(origin.document, path.to_owned()));
        paths.find_map(place).copied()
    }

    fn read(&mut self, text: &str) {
        let (mut levels, mut document) = (Vec::new(), 0);
        for event in yaml::events(text) {
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
        Positions::of(text).find(ObjectOrigin::whole(0, document), path)
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
