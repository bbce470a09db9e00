//! The size of the protocol's messages in memory, by its descriptors: upper
//! bounds for any order of fields.

use std::collections::HashMap;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto};

use crate::limits::{Limit, Limits};

/// The bytes of a list, a map or a text in the struct that it is a field of.
const HANDLE: usize = 24;

/// The bytes of a `bytes` field in its struct.
const BYTES_HANDLE: usize = 32;

/// Entries that a node of an ordered map has room for.
const MAP_NODE: usize = 11;

/// Entries that such a node has at least, in a map of several nodes.
const MAP_NODE_MIN: usize = 5;

/// A message.
#[derive(Default)]
pub struct Layout {
    /// The size of the message's struct, without the memory that it points to.
    pub size: usize,
    /// The fields, by number.
    pub fields: Vec<Option<Field>>,
}

/// The memory that a field of a message points to.
pub struct Field {
    /// The field's name, as in the JSON of the message.
    pub name: String,
    /// The bytes for the first occurrence.
    pub first: usize,
    /// The bytes for each further occurrence.
    pub more: usize,
    /// The limit of its entries; `None` if it is neither a list nor a map.
    pub list: Option<ListLimit>,
    /// The limit of its bytes, if it is an object or a selector.
    pub object: Option<ListLimit>,
    pub content: Content,
}

/// The limit of the entries of a list or a map, or of the bytes of an object.
#[derive(Clone, Copy)]
pub struct ListLimit {
    /// The number among all lists, maps and objects of the protocol.
    pub number: usize,
    pub limit: Limit,
    pub most: usize,
}

/// The content of a field.
#[derive(Clone, Copy)]
pub enum Content {
    /// A number, which has this many bytes where lists of them are packed; 0 if that
    /// differs from number to number.
    Number(usize),
    /// A text, or a message of numbers and this many texts. It takes at most as many bytes as on
    /// the wire, in this many pieces.
    Texts(usize),
    Message(usize),
}

/// Layouts that are being computed.
#[derive(Default)]
pub struct LayoutPlan<'a> {
    numbers: HashMap<String, usize>,
    /// The messages; `None` for one that is named and not described.
    messages: Vec<Option<&'a DescriptorProto>>,
}

impl<'a> LayoutPlan<'a> {
    /// Adds a message that is declared in a scope, and the messages within it.
    pub fn add(&mut self, scope: &str, message: &'a DescriptorProto) {
        let name = format!("{scope}.{}", message.name());
        let number = self.number(&name);
        self.messages[number] = Some(message);
        for nested in &message.nested_type {
            self.add(&name, nested);
        }
    }

    /// The number of a message, by its full name.
    pub fn number(&mut self, name: &str) -> usize {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.messages.len();
        self.messages.push(None);
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// The layouts of all messages, by number.
    pub fn layouts(&self, limits: &Limits) -> Vec<Layout> {
        let (all, mut lists) = (0..self.messages.len(), 0);
        all.map(|number| self.layout(number, limits, &mut lists))
            .collect()
    }

    fn layout(&self, number: usize, limits: &Limits, lists: &mut usize) -> Layout {
        let mut layout = Layout {
            size: self.size(number, &mut Vec::new()),
            fields: Vec::new(),
        };
        for field in self.fields(number) {
            let Ok(at) = usize::try_from(field.number()) else {
                continue;
            };
            let missing = (at + 1).saturating_sub(layout.fields.len());
            layout.fields.extend((0..missing).map(|_| None));
            let mut limited = |limit| {
                *lists += 1;
                ListLimit {
                    number: *lists - 1,
                    limit,
                    most: limits.get(limit),
                }
            };
            let list = field.label() == Label::Repeated;
            let list = list.then(|| limited(self.limit(number, field)));
            let object = self.message(field).filter(|number| self.is_object(*number));
            layout.fields[at] = Some(Field {
                object: object.map(|_| limited(Limit::ObjectBytes)),
                ..self.field(number, field, list)
            });
        }
        layout
    }

    fn fields(&self, number: usize) -> &'a [FieldDescriptorProto] {
        self.messages[number].map_or(&[], |message| &message.field)
    }

    /// Returns whether a message is an object of Kubernetes, which has metadata, or a selector.
    fn is_object(&self, number: usize) -> bool {
        let mut fields = self.fields(number).iter();
        let name = self.messages[number].map_or("", DescriptorProto::name);
        name == "LabelSelector" || fields.any(|field| field.type_name().ends_with(".ObjectMeta"))
    }

    /// The limit of the entries of a list. A list that is not named here has the general limit. The
    /// constraints of a pod have it, too: only questions have a lower limit, which is checked
    /// later, and stored pods keep all constraints.
    fn limit(&self, within: usize, field: &FieldDescriptorProto) -> Limit {
        let message = self.messages[within].map_or("", DescriptorProto::name);
        match (message, field.name()) {
            ("UpdateSnapshotRequest", "changes") => Limit::ChangesPerBatch,
            (_, "overlay") => Limit::OverlayChanges,
            ("DefaultConstraints", "constraints") => Limit::ConstraintsPerPod,
            ("NodeNames", "names")
            | ("PlaceRequest", "bonuses" | "capacities" | "holders" | "sticky") => Limit::Nodes,
            ("ConfirmReservationsRequest", "confirmations")
            | ("RenewReservationsRequest" | "ReleaseReservationsRequest", "ids")
            | ("ReservePodsRequest", "pods") => Limit::Replicas,
            _ => Limit::ListEntries,
        }
    }

    /// The message type of a field, if it has one.
    fn message(&self, field: &FieldDescriptorProto) -> Option<usize> {
        let is_message = matches!(field.r#type(), Type::Message | Type::Group);
        let number = || self.numbers.get(field.type_name()).copied();
        is_message.then(number).flatten()
    }

    fn is_map(&self, field: &FieldDescriptorProto) -> bool {
        let message = self.message(field).and_then(|number| self.messages[number]);
        let options = message.and_then(|message| message.options.as_ref());
        options.is_some_and(|options| options.map_entry())
    }

    fn field(&self, within: usize, field: &FieldDescriptorProto, list: Option<ListLimit>) -> Field {
        let message = self.message(field);
        let content = match (message, field.r#type()) {
            (Some(number), _) => match self.texts(number) {
                Some(texts) => Content::Texts(texts),
                None => Content::Message(number),
            },
            (None, Type::String | Type::Bytes) => Content::Texts(1),
            (None, Type::Double | Type::Fixed64 | Type::Sfixed64) => Content::Number(8),
            (None, Type::Float | Type::Fixed32 | Type::Sfixed32) => Content::Number(4),
            (None, _) => Content::Number(0),
        };
        let size = self.value_size(field, &mut Vec::new());
        let (first, more) = if self.is_map(field) {
            let node = MAP_NODE * size + 2 * HANDLE;
            (node, node.div_ceil(MAP_NODE_MIN))
        } else if list.is_some() {
            // A list has room for four entries at first and then doubles.
            (4 * size, 2 * size)
        } else if message.is_some_and(|number| self.is_boxed(within, number)) {
            (size, size)
        } else {
            (0, 0)
        };
        Field {
            name: field.json_name().to_owned(),
            first,
            more,
            list,
            object: None,
            content,
        }
    }

    /// Returns the number of texts of a message, if it has only single texts and numbers.
    fn texts(&self, message: usize) -> Option<usize> {
        let mut texts = 0;
        for field in self.fields(message) {
            match (field.label(), field.r#type()) {
                (Label::Repeated, _) | (_, Type::Message | Type::Group) => return None,
                (_, Type::String | Type::Bytes) => texts += 1,
                _ => {}
            }
        }
        Some(texts)
    }

    /// Returns whether `message` can contain the message `within` again, so that it is boxed.
    fn is_boxed(&self, within: usize, message: usize) -> bool {
        let mut looked_at = vec![message];
        let mut next = 0;
        while let Some(&number) = looked_at.get(next) {
            next += 1;
            if number == within {
                return true;
            }
            for field in self.fields(number) {
                if let Some(inner) = self.message(field)
                    && !looked_at.contains(&inner)
                {
                    looked_at.push(inner);
                }
            }
        }
        false
    }

    /// Returns the largest size of the struct of a message.
    fn size(&self, number: usize, within: &mut Vec<usize>) -> usize {
        if within.contains(&number) {
            return 8;
        }
        within.push(number);
        let mut size = 0;
        let mut choices: HashMap<i32, usize> = HashMap::new();
        for field in self.fields(number) {
            let takes = match field.label() {
                Label::Repeated => HANDLE,
                _ => self.value_size(field, within) + self.absence(field),
            };
            match field.oneof_index {
                Some(choice) if !field.proto3_optional() => {
                    let most = choices.entry(choice).or_default();
                    *most = takes.max(*most);
                }
                _ => size += takes,
            }
        }
        within.pop();
        // Each choice has a discriminant.
        let chosen: usize = choices.values().map(|most| most + 8).sum();
        (size + chosen).max(8)
    }

    /// Returns the bytes that mark a field as absent, where its value cannot show that itself.
    fn absence(&self, field: &FieldDescriptorProto) -> usize {
        match (self.message(field), field.r#type()) {
            (None, Type::String | Type::Bytes) => 0,
            (None, _) if !field.proto3_optional() => 0,
            _ => 8,
        }
    }

    fn value_size(&self, field: &FieldDescriptorProto, within: &mut Vec<usize>) -> usize {
        match (self.message(field), field.r#type()) {
            (Some(number), _) => self.size(number, within),
            (None, Type::String) => HANDLE,
            (None, Type::Bytes) => BYTES_HANDLE,
            (None, _) => 8,
        }
    }
}
