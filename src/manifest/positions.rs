//! Where the fields of a file are: line and column by document and path.

use std::collections::HashMap;

use granit_parser::{Event, Marker, Parser, ScanError};

/// A place in a text, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// The line.
    pub(crate) line: usize,
    /// The column, in characters.
    pub(crate) column: usize,
}

/// The places of all fields of a YAML or JSON text.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    /// By number of the document and path, e.g. `spec.containers[0].name`.
    places: HashMap<(u32, String), Position>,
    stopped: Option<Position>,
}

/// What is being read: a map waiting for a key or for a value, or a list.
enum Level {
    Key,
    Value(String, Position),
    Item(usize),
}

impl Position {
    /// The parser counts columns from 0.
    fn of(marker: &Marker) -> Self {
        Self {
            line: marker.line(),
            column: marker.col() + 1,
        }
    }
}

impl Positions {
    /// Finds the fields of a text. One that does not parse has those up to
    /// where it stops.
    pub(crate) fn of(text: &str) -> Self {
        let mut positions = Self::default();
        if let Err(error) = positions.read(text) {
            positions.stopped = Some(Position::of(error.marker()));
        }
        positions
    }

    /// Where the text stops to parse, if it does.
    pub(crate) fn stopped(&self) -> Option<Position> {
        self.stopped
    }

    /// The place of a field, or of the nearest field around it.
    pub(crate) fn find(&self, document: u32, path: &str) -> Option<Position> {
        let mut path = path;
        loop {
            if let Some(position) = self.places.get(&(document, path.to_owned())) {
                return Some(*position);
            }
            if path.is_empty() {
                return None;
            }
            path = &path[..path.rfind(['.', '[']).unwrap_or(0)];
        }
    }

    fn read(&mut self, text: &str) -> Result<(), ScanError> {
        let mut parser = Parser::new_from_str(text);
        let (mut document, mut levels) = (0, Vec::new());
        while let Some(event) = parser.next_event() {
            let (event, span) = event?;
            let here = Position::of(&span.start);
            match event {
                Event::DocumentEnd => levels.clear(),
                Event::Scalar(value, ..) => match levels.last_mut() {
                    Some(level @ Level::Key) => *level = Level::Value(value.into_owned(), here),
                    // An empty document is none.
                    None => {}
                    Some(_) => self.enter(document, &mut levels, here),
                },
                Event::Alias(_) => self.enter(document, &mut levels, here),
                Event::MappingStart(..) | Event::SequenceStart(..) => {
                    if levels.is_empty() {
                        document += 1;
                        self.places.insert((document, String::new()), here);
                    }
                    self.note(document, &levels, here);
                    levels.push(match event {
                        Event::MappingStart(..) => Level::Key,
                        _ => Level::Item(0),
                    });
                }
                Event::MappingEnd | Event::SequenceEnd => {
                    levels.pop();
                    next(&mut levels);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Notes a plain value, and continues with the next one.
    fn enter(&mut self, document: u32, levels: &mut [Level], here: Position) {
        self.note(document, levels, here);
        next(levels);
    }

    /// Notes where the value that is being read is: at its key, if it has one.
    fn note(&mut self, document: u32, levels: &[Level], here: Position) {
        let Some(last) = levels.last() else { return };
        let mut path = String::new();
        for level in levels {
            match level {
                Level::Key => {}
                Level::Value(key, _) if path.is_empty() => path.push_str(key),
                Level::Value(key, _) => path.push_str(&format!(".{key}")),
                Level::Item(index) => path.push_str(&format!("[{index}]")),
            }
        }
        let place = match last {
            Level::Value(_, key) => *key,
            _ => here,
        };
        self.places.insert((document, path), place);
    }
}

/// A value was read: a map waits for a key again, a list for its next item.
fn next(levels: &mut [Level]) {
    match levels.last_mut() {
        Some(level @ Level::Value(..)) => *level = Level::Key,
        Some(Level::Item(index)) => *index += 1,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
";
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
            (json, 1, "spec.list[1]", (4, 5)),
        ];
        for (text, document, path, (line, column)) in cases {
            let found = Positions::of(text).find(document, path);
            assert_eq!(found, Some(Position { line, column }), "{document}: {path}");
        }
        assert_eq!(Positions::of("").find(1, "kind"), None);
        let torn = Positions::of("a: 1\nb: }\n");
        assert_eq!(torn.stopped().map(|at| at.line), Some(2));
    }
}
