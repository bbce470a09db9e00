//! The positions of the fields of an object: line and column by path.

use std::collections::HashMap;
use std::iter::successors;

use granit_parser::Event;

use super::error::Position;
use super::parts::{ObjectText, OpenCollection, next};
use super::yaml;

/// The positions of all fields of a part of a file.
#[derive(Debug, Default)]
pub struct Positions {
    /// The positions, by path in the document, e.g. `items[2].spec.containers[0].name`.
    places: HashMap<String, Position>,
    /// The path of the part in the document.
    root: String,
}

/// A collection with the key of its value, and the key's position.
type OpenField = OpenCollection<(String, Position)>;

impl Positions {
    /// Finds the fields of a part. If the part does not parse, finds the fields before the fault.
    pub fn of(part: &ObjectText<'_>) -> Self {
        let mut positions = Self {
            places: HashMap::new(),
            root: part.origin.path(),
        };
        positions.read(&part.indented(), part.start.line - 1);
        positions
    }

    /// The position of a field, or of the nearest field around it.
    pub fn find(&self, path: &str) -> Option<Position> {
        // The outermost field is the document itself, whose path is empty.
        let paths = successors(Some(path), |path| Some(&path[..path.rfind(['.', '['])?]));
        let mut paths = paths.chain([""]);
        paths.find_map(|path| self.places.get(path)).copied()
    }

    fn read(&mut self, text: &str, lines_before: usize) {
        let mut levels = Vec::new();
        for event in yaml::events(text) {
            let Ok((event, span)) = event else { return };
            let mut here = Position::of(&span.start);
            here.line += lines_before;
            match event {
                Event::Scalar(value, ..) => match levels.last_mut() {
                    Some(OpenField::Map(key @ None)) => *key = Some((value.into_owned(), here)),
                    _ => self.enter(&mut levels, here),
                },
                Event::Alias(_) => self.enter(&mut levels, here),
                Event::MappingStart(..) => {
                    self.note(&levels, here);
                    levels.push(OpenField::Map(None));
                }
                Event::SequenceStart(..) => {
                    self.note(&levels, here);
                    levels.push(OpenField::List(0));
                }
                Event::MappingEnd | Event::SequenceEnd => {
                    levels.pop();
                    next(&mut levels);
                }
                _ => {}
            }
        }
    }

    /// Records a plain value, and continues after it.
    fn enter(&mut self, levels: &mut [OpenField], here: Position) {
        self.note(levels, here);
        next(levels);
    }

    /// Records the position of the value that is being read: the position of its key, if it has a
    /// key.
    fn note(&mut self, levels: &[OpenField], here: Position) {
        let mut path = self.root.clone();
        for level in levels {
            match level {
                OpenField::Map(None) => {}
                OpenField::Map(Some((key, _))) if path.is_empty() => path.push_str(key),
                OpenField::Map(Some((key, _))) => path.extend([".", key]),
                OpenField::List(index) => path.push_str(&format!("[{index}]")),
            }
        }
        let place = match levels.last() {
            Some(OpenField::Map(Some((_, place)))) => *place,
            _ => here,
        };
        self.places.insert(path, place);
    }
}

#[cfg(test)]
mod tests {
    use super::super::parts::split;
    use super::super::source::InputSource;
    use super::*;

    /// The position of a field in a document.
    fn found(text: &str, document: u32, path: &str) -> Option<Position> {
        let (parts, _) = split(&InputSource::StandardInput, text);
        let of_it = parts.iter().filter(|part| part.origin.document == document);
        let mut of_it = of_it.filter(|part| path.starts_with(&part.origin.path()));
        Positions::of(of_it.next()?).find(path)
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
        let array = "[{\"kind\":\"é\"}, {\"kind\":\"B\"}]\n[{\"kind\":\"C\"}]";
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
            (array, 2, "items[0].kind", (2, 3)),
            (list, 1, "items[1].kind", (2, 4)),
        ];
        for (text, document, path, (line, column)) in cases {
            let found = found(text, document, path);
            assert_eq!(found, Some(Position { line, column }), "{document}: {path}");
        }
        assert_eq!(found("", 1, "kind"), None);
    }
}
