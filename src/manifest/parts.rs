//! Takes a text apart into the parts that hold one object each, in one pass
//! that keeps nothing of what is in them. So a part that nobody needs is never
//! read, and places of fields are found in the parts that somebody asks about.

use std::borrow::Cow;
use std::rc::Rc;

use granit_parser::{Event, Marker, Parser, Span};

use super::error::ManifestError;
use super::json_parts;
use super::list_type::ListType;
use super::part::ObjectText;
use super::position::Position;
use super::source::{InputSource, Syntax};

/// Takes `text`, which is that of `source`, apart. Objects of YAML that a
/// controller made, as their fields say, are left out: reading them costs most.
///
/// # Errors
/// Where the text stops to be JSON or YAML, with the parts of the documents
/// before that.
pub(crate) fn split<'t>(
    source: &InputSource,
    text: &'t str,
) -> (Vec<ObjectText<'t>>, Result<(), ManifestError>) {
    let syntax = source.format(text.as_bytes());
    if syntax == Syntax::Json {
        return json_parts::split(source, text);
    }
    let mut walk = Walk::new(text);
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        match event {
            Ok((event, span)) => walk.take(event, span),
            Err(error) => {
                let fault = ManifestError::Syntax {
                    file: source.to_string(),
                    format: "YAML",
                    message: error.to_string(),
                    at: Some(Position::of(error.marker())),
                };
                return (walk.parts, Err(fault));
            }
        }
    }
    (walk.parts, Ok(()))
}

/// What is being read: a map with the key of its value, or a list.
enum OpenCollection<'t> {
    Map(Option<Cow<'t, str>>),
    List(u32),
}

impl OpenCollection<'_> {
    fn is_at(&self, key: &str) -> bool {
        matches!(self, OpenCollection::Map(Some(at)) if at == key)
    }
}

/// An object whose end was not read yet.
struct OpenObject {
    item: u32,
    /// How many levels are around it.
    depth: usize,
    start: Marker,
    is_made: bool,
}

/// A pass over the events of a text.
struct Walk<'t> {
    text: &'t str,
    document: u32,
    levels: Vec<OpenCollection<'t>>,
    /// The document that is being read, from where on.
    start: Marker,
    open: Option<OpenObject>,
    /// The items of the document, and what it says of them.
    items: Vec<(OpenObject, Marker)>,
    is_list: bool,
    list: ListType,
    /// Whether a part of the document may need another.
    has_alias: bool,
    parts: Vec<ObjectText<'t>>,
}

impl<'t> Walk<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            text,
            document: 0,
            levels: Vec::new(),
            start: Marker::default(),
            open: None,
            items: Vec::new(),
            is_list: false,
            list: ListType::default(),
            has_alias: false,
            parts: Vec::new(),
        }
    }

    fn take(&mut self, event: Event<'t>, span: Span) {
        match event {
            Event::DocumentStart(..) => {
                self.levels.clear();
                (self.is_list, self.has_alias) = (false, false);
                self.list = ListType::default();
            }
            Event::Scalar(value, ..) => self.scalar(value, span),
            Event::Alias(_) => {
                self.has_alias = true;
                self.next();
            }
            Event::MappingStart(..) => self.enter(OpenCollection::Map(None), span),
            Event::SequenceStart(..) => self.enter(OpenCollection::List(0), span),
            Event::MappingEnd | Event::SequenceEnd => self.leave(span.end),
            _ => {}
        }
    }

    fn scalar(&mut self, value: Cow<'t, str>, span: Span) {
        match &mut *self.levels {
            [] => {
                let is_nothing = matches!(&*value, "" | "~" | "null");
                if !is_nothing {
                    self.begin_document(span.start);
                    self.end_document(span.end);
                }
                return;
            }
            [.., OpenCollection::Map(key @ None)] => {
                *key = Some(value);
                return;
            }
            [OpenCollection::Map(Some(key))] => self.list.note(key, &value),
            _ => {}
        }
        if let Some(open) = &mut self.open
            && value == "true"
            && let [metadata, owners, OpenCollection::List(_), owner] = &self.levels[open.depth..]
        {
            let is_owner = metadata.is_at("metadata") && owners.is_at("ownerReferences");
            open.is_made |= is_owner && owner.is_at("controller");
        }
        if self.is_item() {
            let open = self.opened(span.start);
            self.items.push((open, span.end));
        }
        self.next();
    }

    fn enter(&mut self, level: OpenCollection<'t>, span: Span) {
        match &*self.levels {
            [] => {
                self.begin_document(span.start);
                self.is_list = matches!(level, OpenCollection::List(_));
                if !self.is_list {
                    self.open = Some(self.opened(span.start));
                }
            }
            [OpenCollection::Map(Some(key))]
                if key == "items" && matches!(level, OpenCollection::List(_)) =>
            {
                self.is_list = true;
                self.open = None;
            }
            _ if self.is_item() => self.open = Some(self.opened(span.start)),
            _ => {}
        }
        self.levels.push(level);
    }

    fn leave(&mut self, end: Marker) {
        self.levels.pop();
        let depth = self.levels.len();
        if let Some(open) = self.open.take_if(|open| open.depth == depth) {
            self.items.push((open, end));
        }
        match depth {
            0 => self.end_document(end),
            _ => self.next(),
        }
    }

    /// Whether the next value is an item of the document's list.
    fn is_item(&self) -> bool {
        match &*self.levels {
            [OpenCollection::List(_)] => true,
            [OpenCollection::Map(Some(key)), OpenCollection::List(_)] => key == "items",
            _ => false,
        }
    }

    /// The object that begins here.
    fn opened(&self, start: Marker) -> OpenObject {
        OpenObject {
            item: match self.levels.last() {
                Some(OpenCollection::List(index)) => index + 1,
                _ => 0,
            },
            depth: self.levels.len(),
            start,
            is_made: false,
        }
    }

    /// A value was read: a map waits for a key again, a list for its next item.
    fn next(&mut self) {
        match self.levels.last_mut() {
            Some(OpenCollection::Map(key)) => *key = None,
            Some(OpenCollection::List(index)) => *index += 1,
            None => {}
        }
    }

    fn begin_document(&mut self, start: Marker) {
        self.document += 1;
        self.start = start;
    }

    fn end_document(&mut self, end: Marker) {
        let list = Rc::new(std::mem::take(&mut self.list));
        let mut items = std::mem::take(&mut self.items);
        if self.has_alias || items.is_empty() && !self.is_list {
            // What an item repeats of another can be read with that one alone.
            let whole = OpenObject {
                item: 0,
                depth: 0,
                start: self.start,
                is_made: false,
            };
            items = vec![(whole, end)];
        }
        let items = items.into_iter().filter(|(open, _)| !open.is_made);
        let parts = items.filter_map(|(open, end)| {
            Some(ObjectText {
                document: self.document,
                item: open.item,
                list: Rc::clone(&list),
                syntax: Syntax::Yaml,
                text: self
                    .text
                    .get(open.start.byte_offset()?..end.byte_offset()?)?,
                start: Position::of(&open.start),
            })
        });
        self.parts.extend(parts);
    }
}
