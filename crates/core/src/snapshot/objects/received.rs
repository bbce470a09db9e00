//! Changes of a request before they are checked.

use prost::Message;
use prost::bytes::{Buf, Bytes};

use super::kind::ObjectKind;
use crate::proto::v1;
use crate::proto::v1::change::Object;
use crate::proto::wire::WireFields;

/// The number of pods in a `Change`.
pub const POD_FIELD: u32 = 2;

/// The number of deletes in a `Change`.
const DELETE_FIELD: u32 = 15;

/// A change before it is checked. Pods stay encoded.
#[derive(Debug)]
pub enum Received {
    /// A pod, encoded.
    Pod(Bytes),
    /// Any other object.
    Other(Box<Object>),
    /// An empty change.
    Nothing,
    /// An encoded change of a kind that is not known here, e.g. of a newer client. It may be empty,
    /// because JSON that is read with the messages of this version loses what they do not have.
    Unknown,
}

impl Received {
    /// A change that was decoded.
    pub fn of(change: v1::Change) -> Self {
        match change.object {
            Some(Object::Pod(pod)) => Self::Pod(pod.encode_to_vec().into()),
            Some(object) => Self::Other(Box::new(object)),
            None => Self::Nothing,
        }
    }

    /// An encoded change, decoded unless it is a pod. Pods are checked for validity later.
    ///
    /// # Errors
    /// The change cannot be decoded.
    pub fn read(mut bytes: Bytes) -> Result<Self, prost::DecodeError> {
        match only_field(&bytes) {
            Some((POD_FIELD, start)) => {
                bytes.advance(start);
                Ok(Self::Pod(bytes))
            }
            Some((DELETE_FIELD, start)) => {
                let reference = v1::ObjectReference::decode(&bytes[start..])?;
                Ok(
                    match is_misspelt(&reference.kind) || is_known(&reference.kind) {
                        true => Self::Other(Box::new(Object::Delete(reference))),
                        false => Self::Unknown,
                    },
                )
            }
            _ => match Self::of(v1::Change::decode(bytes)?) {
                Self::Nothing => Ok(Self::Unknown),
                received => Ok(received),
            },
        }
    }
}

fn is_known(kind: &str) -> bool {
    ObjectKind::parse(kind).is_some()
}

/// Returns whether a text is no kind, or a known kind in other letters or in the plural. Then it is
/// no kind of a newer client.
fn is_misspelt(text: &str) -> bool {
    let is_kind = text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric());
    let single = text.strip_suffix('s').unwrap_or(text);
    !is_kind || ObjectKind::all().any(|kind| kind.as_str().eq_ignore_ascii_case(single))
}

/// The number of the only field in a message, and the start of its content.
fn only_field(message: &[u8]) -> Option<(u32, usize)> {
    let mut fields = WireFields::new(message);
    let field = fields.next()??;
    fields.content(&field)?;
    fields.is_at_end().then_some((field.number, field.content))
}
