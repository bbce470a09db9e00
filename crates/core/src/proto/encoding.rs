//! Writes messages field by field from their values, without building them first.
//!
//! The length of an inner message comes before it. Therefore a message can give its fields to any
//! [`Sink`], first to one that only adds up their lengths.

use prost::encoding::{WireType, encode_varint, encoded_len_varint};

/// A value that can be written as a message.
pub trait Fields {
    /// Writes the fields of the message.
    fn put<S: Sink>(&self, to: &mut S);
}

/// A target for fields. As everywhere in proto3, a field with the default value is left out, unless
/// its method says otherwise.
pub trait Sink: Sized {
    /// Writes a number as a varint.
    fn varint(&mut self, value: u64);

    /// Writes bytes without a change.
    fn raw(&mut self, bytes: &[u8]);

    /// Writes the key of a field.
    fn key(&mut self, tag: u32, kind: WireType) {
        self.varint(u64::from(tag) << 3 | kind as u64);
    }

    /// Writes an integer of any width, or the number of an enum's value.
    fn int(&mut self, tag: u32, value: i64) {
        if value != 0 {
            self.key(tag, WireType::Varint);
            self.varint(value.cast_unsigned());
        }
    }

    /// Writes a truth value.
    fn flag(&mut self, tag: u32, value: bool) {
        self.int(tag, value.into());
    }

    /// Writes a number with a fraction.
    fn double(&mut self, tag: u32, value: f64) {
        if value != 0.0 {
            self.key(tag, WireType::SixtyFourBit);
            self.raw(&value.to_le_bytes());
        }
    }

    /// Writes a text.
    fn text(&mut self, tag: u32, text: &str) {
        if !text.is_empty() {
            self.item(tag, text.as_bytes());
        }
    }

    /// Writes one of a list of texts, or an encoded message, even if it is empty.
    fn item(&mut self, tag: u32, bytes: &[u8]) {
        self.key(tag, WireType::LengthDelimited);
        self.varint(bytes.len() as u64);
        self.raw(bytes);
    }

    /// Writes a message, even if it is empty.
    fn message(&mut self, tag: u32, message: &impl Fields) {
        self.key(tag, WireType::LengthDelimited);
        let mut length = Length(0);
        message.put(&mut length);
        self.varint(length.0 as u64);
        message.put(self);
    }
}

/// Adds up the lengths of fields.
pub struct Length(pub usize);

impl Sink for Length {
    fn varint(&mut self, value: u64) {
        self.0 += encoded_len_varint(value);
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

impl Sink for Vec<u8> {
    fn varint(&mut self, value: u64) {
        // Most values are small.
        match value {
            0..0x80 => self.push(value as u8),
            _ => encode_varint(value, self),
        }
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
