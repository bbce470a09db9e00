//! The memory for decoding a message, computed from its bytes before it is decoded.
//!
//! Two bytes on the wire can become a struct of hundreds: an empty message in a list. So the fields
//! of a message are counted first, by the protocol's descriptors. The result is an upper bound. A
//! message with any list or object that is longer than its limit is refused at that point.

use std::collections::HashMap;

use prost::{DecodeError, Message};
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};

use super::requests::HEAD;
use crate::api;
use crate::limits::{Limit, Limits};
use crate::matching::{Path, Violations};
use crate::proto::encoded::{LENGTH_DELIMITED, next_field};
use crate::proto::v1::FILE_DESCRIPTOR_SET;

/// The bytes of a list, a map, a text or `bytes` in the struct that it is a field of.
const HANDLE: usize = 32;

/// Entries that a node of an ordered map has room for. Of several nodes each is half full.
const MAP_NODE: usize = 11;

/// The sizes of the protocol's messages.
pub struct DecodedSizes {
    layouts: Vec<Layout>,
    /// The layout of the request of each method, by its path.
    requests: HashMap<String, usize>,
}

/// The layout of a method's requests.
#[derive(Debug, Clone, Copy)]
pub struct RequestLayout(usize);

/// A message in memory.
struct Layout {
    /// The size of the message's struct, without the memory that it points to.
    size: usize,
    /// The number of things that are counted in it: the entries of its lists and maps, its bytes if
    /// they have a limit, and what is counted in messages that it has at most once. A decoder puts the
    /// parts of such a message together, so all parts share the counts.
    counts: usize,
    /// The bytes that it may have on the wire, if it is an object of Kubernetes or a selector. They are
    /// its first count.
    max_bytes: Option<usize>,
    /// The fields, by number.
    fields: Vec<Option<Field>>,
}

/// The memory that a field of a message points to.
struct Field {
    /// The field's name, as in the JSON of the message.
    name: String,
    /// The bytes for the first occurrence, without its content.
    first: usize,
    /// The bytes for each further occurrence.
    more: usize,
    /// The place among the counts of its message: of the entries of a list, or of the first count of a
    /// message that is in no list.
    count: usize,
    /// The limit of its entries; `None` if it is neither a list nor a map.
    list: Option<(Limit, usize)>,
    content: Content,
}

#[derive(Clone, Copy)]
enum Content {
    /// A number, or several that are packed.
    Numbers,
    Text,
    /// A message, by the number of its layout.
    Message(usize),
}

impl DecodedSizes {
    /// The sizes of the service's messages.
    ///
    /// # Errors
    /// When the descriptors cannot be read.
    pub fn new(limits: &Limits) -> Result<Self, DecodeError> {
        let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET)?.file;
        let mut protocol = Protocol::default();
        for file in &files {
            for message in &file.message_type {
                protocol.add(&format!(".{}", file.package()), message);
            }
        }
        let mut requests = HashMap::new();
        for file in &files {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    let request = protocol.numbers.get(method.input_type());
                    requests.extend(request.map(|number| (path, *number)));
                }
            }
        }
        let layouts = protocol.messages.iter();
        Ok(Self {
            layouts: layouts.map(|it| protocol.layout(it, limits)).collect(),
            requests,
        })
    }

    /// Returns the layout of the requests of a path, if it is known.
    pub fn request(&self, path: &str) -> Option<RequestLayout> {
        self.requests.get(path).copied().map(RequestLayout)
    }

    /// An upper bound of the bytes that a request takes when it is decoded, without its own bytes; 0 for
    /// one whose layout is not known.
    ///
    /// # Errors
    /// When the bytes are no message, or a list or an object is longer than its limit allows. Then the
    /// message is not read to its end.
    pub fn of(&self, request: Option<RequestLayout>, message: &[u8]) -> Result<usize, api::Error> {
        let Some(RequestLayout(layout)) = request else {
            return Ok(0);
        };
        let layout = &self.layouts[layout];
        let mut scan = Scan {
            layouts: &self.layouts,
            weight: layout.size,
            counts: vec![0; layout.counts],
        };
        match scan.message(layout, 0, message.get(HEAD..).unwrap_or_default()) {
            Ok(()) => Ok(scan.weight),
            Err(Fault::TooLong { path, limit, most }) => {
                Err(Violations::too_long(Path::root(&path), limit, most).into())
            }
            Err(Fault::Undecodable) => {
                let fault = "its bytes are no message of the protocol";
                Err(api::Error::Undecodable(fault.to_owned()))
            }
        }
    }
}

/// The messages of the protocol. None of them contains itself.
#[derive(Default)]
struct Protocol<'a> {
    /// The numbers of the messages, by their full names.
    numbers: HashMap<String, usize>,
    messages: Vec<&'a DescriptorProto>,
}

impl<'a> Protocol<'a> {
    /// Adds a message that is declared in a scope, and the messages within it.
    fn add(&mut self, scope: &str, message: &'a DescriptorProto) {
        let name = format!("{scope}.{}", message.name());
        for nested in &message.nested_type {
            self.add(&name, nested);
        }
        self.numbers.insert(name, self.messages.len());
        self.messages.push(message);
    }

    fn layout(&self, message: &DescriptorProto, limits: &Limits) -> Layout {
        let max_bytes = is_object(message).then(|| limits.get(Limit::ObjectBytes));
        let mut layout = Layout {
            size: self.size(message),
            counts: usize::from(max_bytes.is_some()),
            max_bytes,
            fields: Vec::new(),
        };
        for field in &message.field {
            let at = usize::try_from(field.number()).unwrap_or(0);
            let length = layout.fields.len().max(at + 1);
            layout.fields.resize_with(length, || None);
            let list = (field.label() == Label::Repeated).then(|| {
                let limit = list_limit(message, field);
                (limit, limits.get(limit))
            });
            layout.fields[at] = Some(self.field(field, layout.counts, list));
            layout.counts += self.counts(field);
        }
        layout
    }

    /// The number of things that are counted in a field of a message.
    fn counts(&self, field: &FieldDescriptorProto) -> usize {
        let message = self.message(field).map(|number| self.messages[number]);
        match (field.label(), message) {
            (Label::Repeated, _) => 1,
            (_, None) => 0,
            (_, Some(message)) => {
                let fields = message.field.iter().map(|field| self.counts(field));
                usize::from(is_object(message)) + fields.sum::<usize>()
            }
        }
    }

    /// The number of the message type of a field, if it has one.
    fn message(&self, field: &FieldDescriptorProto) -> Option<usize> {
        self.numbers.get(field.type_name()).copied()
    }

    fn field(
        &self,
        field: &FieldDescriptorProto,
        count: usize,
        list: Option<(Limit, usize)>,
    ) -> Field {
        let message = self.message(field);
        let options = message.and_then(|number| self.messages[number].options.as_ref());
        let size = self.value_size(field);
        let (first, more) = match list {
            Some(_) if options.is_some_and(|options| options.map_entry()) => {
                let node = MAP_NODE * size + 2 * HANDLE;
                (node, node.div_ceil(MAP_NODE / 2))
            }
            // A list has room for four entries at first and then doubles.
            Some(_) => (4 * size, 2 * size),
            None => (0, 0),
        };
        Field {
            name: field.json_name().to_owned(),
            first,
            more,
            count,
            list,
            content: match (message, field.r#type()) {
                (Some(number), _) => Content::Message(number),
                (None, Type::String | Type::Bytes) => Content::Text,
                (None, _) => Content::Numbers,
            },
        }
    }

    /// Returns the largest size of the struct of a message. A field that may be absent takes 8
    /// bytes more, and so does a choice among fields.
    fn size(&self, message: &DescriptorProto) -> usize {
        let mut size = 0;
        let mut choices: HashMap<i32, usize> = HashMap::new();
        for field in &message.field {
            let takes = match field.label() {
                Label::Repeated => HANDLE,
                _ => self.value_size(field) + 8,
            };
            match field.oneof_index {
                Some(choice) if !field.proto3_optional() => {
                    let most = choices.entry(choice).or_default();
                    *most = takes.max(*most);
                }
                _ => size += takes,
            }
        }
        size + choices.values().sum::<usize>()
    }

    fn value_size(&self, field: &FieldDescriptorProto) -> usize {
        match (self.message(field), field.r#type()) {
            (Some(number), _) => self.size(self.messages[number]),
            (None, Type::String | Type::Bytes) => HANDLE,
            (None, _) => 8,
        }
    }
}

/// Returns whether a message is an object of Kubernetes, which has metadata, or a selector.
fn is_object(message: &DescriptorProto) -> bool {
    let mut fields = message.field.iter();
    message.name() == "LabelSelector"
        || fields.any(|field| field.type_name().ends_with(".ObjectMeta"))
}

/// The limit of the entries of a list before it is decoded. Lower limits of some lists are checked
/// later.
fn list_limit(message: &DescriptorProto, field: &FieldDescriptorProto) -> Limit {
    match (message.name(), field.name()) {
        ("NodeNames", "names")
        | ("PlaceRequest", "bonuses" | "capacities" | "holders" | "sticky") => Limit::Nodes,
        _ => Limit::ListEntries,
    }
}

/// The reason why a message is not read to its end.
enum Fault {
    /// The bytes are no message.
    Undecodable,
    /// A list or an object is longer than its limit allows. The path is in the message that is being
    /// read.
    TooLong {
        path: String,
        limit: Limit,
        most: usize,
    },
}

impl Fault {
    /// Puts a field before the rest of the path; the `index` is that of an element.
    fn within(self, field: &Field, index: Option<usize>) -> Self {
        let Self::TooLong { path, limit, most } = self else {
            return self;
        };
        let index = index.map_or(String::new(), |index| format!("[{index}]"));
        let dot = if path.is_empty() { "" } else { "." };
        let path = format!("{}{index}{dot}{path}", field.name);
        Self::TooLong { path, limit, most }
    }
}

/// A message that is being read.
struct Scan<'a> {
    layouts: &'a [Layout],
    weight: usize,
    /// The counts of the messages that are being read, those of the innermost last.
    counts: Vec<usize>,
}

impl Scan<'_> {
    /// Adds the memory of the fields of a message, or of a part of one, whose counts begin at `counts`.
    fn message(&mut self, layout: &Layout, counts: usize, message: &[u8]) -> Result<(), Fault> {
        let layouts = self.layouts;
        if let Some(most) = layout.max_bytes {
            self.count(counts, message.len(), (Limit::ObjectBytes, most))?;
        }
        let (mut rest, mut seen) = (message, 0_u128);
        while !rest.is_empty() {
            let (key, content) = next_field(&mut rest).ok_or(Fault::Undecodable)?;
            let number = usize::try_from(key >> 3).unwrap_or(usize::MAX);
            let Some(field) = layout.fields.get(number).and_then(Option::as_ref) else {
                continue;
            };
            let bit = 1_u128.checked_shl(number as u32).unwrap_or(0);
            self.add(if seen & bit == 0 {
                field.first
            } else {
                field.more
            });
            seen |= bit;
            let entries = match field.content {
                // Each has at least one byte on the wire, and a list grows by doubling.
                Content::Numbers if key & 7 == LENGTH_DELIMITED => {
                    self.add(content.len().saturating_mul(16));
                    content.len()
                }
                // Allocators round sizes up.
                Content::Text => {
                    self.add(content.len() + content.len() / 8 + 16);
                    1
                }
                _ => 1,
            };
            let count = counts + field.count;
            let mut index = None;
            if let Some(limit) = field.list {
                let counted = self.count(count, entries, limit);
                let counted = counted.map_err(|fault| fault.within(field, None))?;
                index = Some(counted.saturating_sub(1));
            }
            if let Content::Message(inner) = field.content {
                let inner = &layouts[inner];
                let end = self.counts.len();
                let read = match index {
                    None => self.message(inner, count, content),
                    Some(_) => {
                        self.counts.resize(end + inner.counts, 0);
                        self.message(inner, end, content)
                    }
                };
                read.map_err(|fault| fault.within(field, index))?;
                self.counts.truncate(end);
            }
        }
        Ok(())
    }

    /// Adds to a count, and returns it.
    fn count(&mut self, at: usize, more: usize, limit: (Limit, usize)) -> Result<usize, Fault> {
        let count = &mut self.counts[at];
        *count = count.saturating_add(more);
        let (limit, most) = limit;
        match *count <= most {
            true => Ok(*count),
            false => Err(Fault::TooLong {
                path: String::new(),
                limit,
                most,
            }),
        }
    }

    fn add(&mut self, bytes: usize) {
        self.weight = self.weight.saturating_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1;

    fn request(weights: &DecodedSizes, method: &str) -> Option<RequestLayout> {
        let path = format!("/evenkeel.v1.SpreadService/{method}");
        let layout = weights.request(&path);
        Some(layout.expect("a method of the service"))
    }

    fn weight(weights: &DecodedSizes, method: &str, message: &impl Message) -> usize {
        let mut bytes = vec![0; HEAD];
        message.encode(&mut bytes).expect("there is room");
        weights
            .of(request(weights, method), &bytes)
            .expect("no list is too long")
    }

    #[test]
    fn structs_are_no_larger_than_told() {
        let weights = DecodedSizes::new(&Limits::default()).expect("descriptors");
        let empty = [
            ("Filter", size_of::<v1::FilterRequest>()),
            ("Place", size_of::<v1::PlaceRequest>()),
            ("UpdateSnapshot", size_of::<v1::UpdateSnapshotRequest>()),
            ("StreamSnapshot", size_of::<v1::StreamSnapshotRequest>()),
            ("DescribeSpread", size_of::<v1::DescribeSpreadRequest>()),
        ];
        for (method, size) in empty {
            let told = weight(&weights, method, &v1::FilterRequest::default());
            assert!(told >= size, "{method}: {size} bytes, told {told}");
            assert!(told <= 2 * size, "{method}: {size} bytes, told {told}");
        }
    }

    #[test]
    fn lists_of_nothing_weigh_what_they_become() {
        let weights = DecodedSizes::new(&Limits::default()).expect("descriptors");
        let count = 10_000;
        let tolerations = v1::FilterRequest {
            pod: Some(v1::Pod {
                spec: Some(v1::PodSpec {
                    tolerations: vec![v1::Toleration::default(); count],
                    ..v1::PodSpec::default()
                }),
                ..v1::Pod::default()
            }),
            ..v1::FilterRequest::default()
        };
        let told = weight(&weights, "Filter", &tolerations);
        assert!(told >= count * size_of::<v1::Toleration>());
        assert!(told <= 4 * count * size_of::<v1::Toleration>());
        let changes = v1::UpdateSnapshotRequest {
            changes: vec![v1::Change::default(); count],
            ..v1::UpdateSnapshotRequest::default()
        };
        let told = weight(&weights, "UpdateSnapshot", &changes);
        assert!(told >= count * size_of::<v1::Change>());
        assert!(told <= 4 * count * size_of::<v1::Change>());
        let names = v1::FilterRequest {
            candidates: Some(v1::NodeNames {
                names: vec![String::new(); count],
            }),
            ..v1::FilterRequest::default()
        };
        let told = weight(&weights, "Filter", &names);
        assert!(told >= count * size_of::<String>());
    }

    /// Returns the fault of a message of several parts, where lists have at most three entries.
    fn refusal(parts: &[v1::FilterRequest]) -> String {
        let limits = Limits {
            max_list_entries: 3,
            ..Limits::default()
        };
        let weights = DecodedSizes::new(&limits).expect("descriptors");
        let mut bytes = vec![0; HEAD];
        for part in parts {
            part.encode(&mut bytes).expect("there is room");
        }
        let refused = weights.of(request(&weights, "Filter"), &bytes);
        refused.map_or_else(|error| error.to_string(), |_| String::new())
    }

    fn with_tolerations(count: usize) -> v1::Pod {
        v1::Pod {
            spec: Some(v1::PodSpec {
                tolerations: vec![v1::Toleration::default(); count],
                ..v1::PodSpec::default()
            }),
            ..v1::Pod::default()
        }
    }

    fn about(pod: v1::Pod) -> v1::FilterRequest {
        v1::FilterRequest {
            pod: Some(pod),
            ..v1::FilterRequest::default()
        }
    }

    fn overlaid(pod: v1::Pod) -> v1::FilterRequest {
        let change = v1::Change {
            object: Some(v1::change::Object::Pod(pod)),
        };
        v1::FilterRequest {
            overlay: vec![change],
            ..v1::FilterRequest::default()
        }
    }

    #[test]
    fn a_list_has_a_limit_in_each_element() {
        let told = "pod.spec.tolerations: has too many entries, over max-list-entries of 3";
        assert_eq!(refusal(&[about(with_tolerations(3))]), "");
        assert_eq!(refusal(&[about(with_tolerations(4))]), told);
        let three = || overlaid(with_tolerations(3));
        assert_eq!(refusal(&[three(), three(), about(with_tolerations(3))]), "");
        let told = "overlay[1].pod.spec.tolerations: has too many entries, over \
                max-list-entries of 3";
        assert_eq!(refusal(&[three(), overlaid(with_tolerations(4))]), told);
        let told = "overlay: has too many entries, over max-list-entries of 3";
        assert_eq!(refusal(&[three(), three(), three(), three()]), told);
    }

    /// A decoder puts the parts of a message together, and so their lists.
    #[test]
    fn a_list_in_several_parts_is_one() {
        let part = |count| about(with_tolerations(count));
        let told = "pod.spec.tolerations: has too many entries, over max-list-entries of 3";
        assert_eq!(refusal(&[part(1), part(1), part(1)]), "");
        assert_eq!(refusal(&[part(2), part(2)]), told);
        assert_eq!(refusal(&[part(1), part(0), part(1), part(2)]), told);
    }

    #[test]
    fn an_object_has_a_limit() {
        let annotated = |bytes: usize| v1::Pod {
            metadata: Some(v1::ObjectMeta {
                annotations: [("note".to_owned(), "x".repeat(bytes))].into(),
                ..v1::ObjectMeta::default()
            }),
            ..v1::Pod::default()
        };
        let (small, large) = (2 << 20, (3 << 20) + 1);
        let told = |field| format!("{field}: is too long, over object-bytes of {}", 3 << 20);
        let fits = [about(annotated(small)), overlaid(annotated(small))];
        assert_eq!(refusal(&fits), "");
        assert_eq!(refusal(&[about(annotated(large))]), told("pod"));
        let second = [overlaid(annotated(small)), overlaid(annotated(large))];
        assert_eq!(refusal(&second), told("overlay[1].pod"));
        let in_parts = [about(annotated(small)), about(annotated(small))];
        assert_eq!(refusal(&in_parts), told("pod"));
    }

    #[test]
    fn no_bytes_are_too_strange() {
        let weights = DecodedSizes::new(&Limits::default()).expect("descriptors");
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2_000 {
            let bytes: Vec<u8> = (0..random.usize(..200)).map(|_| random.u8(..)).collect();
            let _ = weights.of(request(&weights, "Filter"), &bytes);
        }
    }
}
