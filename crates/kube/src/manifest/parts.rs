//! Splits a text into parts with one object each, in one pass that does not decode the objects. So
//! parts that are not needed are never decoded, and positions of fields are searched only if
//! needed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use granit_parser::{Event, Marker, Span};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::error::{ManifestError, Position};
use super::item::ObjectOrigin;
use super::source::{InputSource, Syntax};
use super::yaml;

/// The text of one object of a file, or of a whole document that could not be split.
#[derive(Debug, Clone)]
pub struct ObjectText<'t> {
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

/// Splits `text`, the text of `source`. YAML objects that a controller created are left out,
/// because decoding them costs most.
///
/// # Errors
/// The position where the text stops being JSON or YAML, with the parts of the documents before it.
pub fn split<'t>(
    source: &InputSource,
    text: &'t str,
) -> (Vec<ObjectText<'t>>, Result<(), ManifestError>) {
    let syntax = source.format(text.as_bytes());
    if syntax == Syntax::Json {
        return split_json(source, text);
    }
    let mut walk = Walk {
        text,
        ..Walk::default()
    };
    let mut parser = yaml::events(text);
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

/// The collection that is being read: a map with the key of its value, or a list with
/// the index of its item.
pub(super) enum OpenCollection<K> {
    Map(Option<K>),
    List(u32),
}

impl OpenCollection<Cow<'_, str>> {
    fn is_at(&self, key: &str) -> bool {
        matches!(self, OpenCollection::Map(Some(at)) if at == key)
    }
}

/// Continues after a value: a map expects a key next, a list its next item.
pub(super) fn next<K>(levels: &mut [OpenCollection<K>]) {
    match levels.last_mut() {
        Some(OpenCollection::Map(key)) => *key = None,
        Some(OpenCollection::List(index)) => *index += 1,
        None => {}
    }
}

/// An object whose end was not read yet.
struct OpenObject {
    item: u32,
    /// The number of collections around the object.
    depth: usize,
    start: Marker,
    is_made: bool,
}

/// A pass over the parser events of a text.
#[derive(Default)]
struct Walk<'t> {
    text: &'t str,
    document: u32,
    levels: Vec<OpenCollection<Cow<'t, str>>>,
    /// The start of the document that is being read.
    start: Marker,
    open: Option<OpenObject>,
    /// The items of the document, with their ends.
    items: Vec<(OpenObject, Marker)>,
    is_list: bool,
    list: ListType,
    /// True if a part of the document may refer to another.
    has_alias: bool,
    parts: Vec<ObjectText<'t>>,
}

impl<'t> Walk<'t> {
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
                next(&mut self.levels);
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
        next(&mut self.levels);
    }

    fn enter(&mut self, level: OpenCollection<Cow<'t, str>>, span: Span) {
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
            _ => next(&mut self.levels),
        }
    }

    /// Returns whether the next value is an item of the document's list.
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

    fn begin_document(&mut self, start: Marker) {
        self.document += 1;
        self.start = start;
    }

    fn end_document(&mut self, end: Marker) {
        let list = Rc::new(std::mem::take(&mut self.list));
        let mut items = std::mem::take(&mut self.items);
        if self.has_alias || items.is_empty() && !self.is_list {
            // With an alias, an item may refer to another, so the document stays whole.
            items = vec![(self.opened(self.start), end)];
        }
        let items = items.into_iter().filter(|(open, _)| !open.is_made);
        let parts = items.filter_map(|(open, end)| {
            Some(ObjectText {
                origin: ObjectOrigin {
                    source: 0,
                    document: self.document,
                    item: open.item,
                },
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

/// Splits the JSON `text`.
fn split_json<'t>(
    source: &InputSource,
    text: &'t str,
) -> (Vec<ObjectText<'t>>, Result<(), ManifestError>) {
    let mut parts = Vec::new();
    let mut places = Places {
        text,
        counted_bytes: 0,
        line: 1,
        line_start: 0,
    };
    let documents = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    for (document, read) in (1..).zip(documents) {
        let whole = match read {
            Ok(whole) => whole,
            Err(error) => return (parts, Err(source.not_json(&error))),
        };
        let (items, list) = match items_of(whole) {
            Some((items, list)) => ((1..).zip(items).collect(), list),
            None => (vec![(0, whole)], ListType::default()),
        };
        let list = Rc::new(list);
        parts.extend(items.into_iter().map(|(item, value)| ObjectText {
            origin: ObjectOrigin {
                source: 0,
                document,
                item,
            },
            list: Rc::clone(&list),
            syntax: Syntax::Json,
            text: value.get(),
            start: places.of(value.get()),
        }));
    }
    (parts, Ok(()))
}

/// The items of a list, and the type that it declares.
fn items_of(document: &RawValue) -> Option<(Vec<&RawValue>, ListType)> {
    if let Ok(items) = serde_json::from_str(document.get()) {
        return Some((items, ListType::default()));
    }
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(document.get()).ok()?;
    let items = serde_json::from_str(fields.get("items")?.get()).ok()?;
    let mut list = ListType::default();
    for (key, value) in &fields {
        if let Ok(value) = serde_json::from_str::<String>(value.get()) {
            list.note(key, &value);
        }
    }
    Some((items, list))
}

/// Finds the positions of parts of a text in order, so that lines are counted only once.
struct Places<'t> {
    text: &'t str,
    counted_bytes: usize,
    line: usize,
    line_start: usize,
}

impl Places<'_> {
    /// The position of `part`, which must be a slice of the text after the last part.
    fn of(&mut self, part: &str) -> Position {
        let start = part.as_ptr().addr() - self.text.as_ptr().addr();
        let between = &self.text[self.counted_bytes..start];
        if let Some(end) = between.rfind('\n') {
            self.line += between.bytes().filter(|byte| *byte == b'\n').count();
            self.line_start = self.counted_bytes + end + 1;
        }
        self.counted_bytes = start;
        Position {
            line: self.line,
            column: self.text[self.line_start..start].chars().count() + 1,
        }
    }
}
