//! The requests of feeds in the form in which the server reads them. The changes in them stay
//! encoded until they are checked.

use prost::bytes::{Buf, BufMut, Bytes};
use prost::encoding::{DecodeContext, WireType, bytes};
use prost::{DecodeError, Message, Oneof};

use super::v1;

/// The number of the field `changes`.
const CHANGES: u32 = 2;

/// An `UpdateSnapshotRequest`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReceivedUpdate {
    /// The request without its changes.
    pub request: v1::UpdateSnapshotRequest,
    /// The encoded changes.
    pub changes: Vec<Bytes>,
}

impl Message for ReceivedUpdate {
    fn encode_raw(&self, to: &mut impl BufMut) {
        self.request.encode_raw(to);
        bytes::encode_repeated(CHANGES, &self.changes, to);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        from: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        match tag {
            CHANGES => bytes::merge_repeated(wire_type, &mut self.changes, from, context),
            _ => self.request.merge_field(tag, wire_type, from, context),
        }
    }

    fn encoded_len(&self) -> usize {
        self.request.encoded_len() + bytes::encoded_len_repeated(CHANGES, &self.changes)
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// A `StreamSnapshotRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct ReceivedStep {
    /// The step.
    #[prost(oneof = "FeedStep", tags = "1, 2, 3")]
    pub step: Option<FeedStep>,
}

/// A step of a feed.
#[derive(Clone, PartialEq, Oneof)]
pub enum FeedStep {
    /// A batch, or a replace in one message.
    #[prost(message, tag = "1")]
    Update(ReceivedUpdate),
    /// The start of a replace.
    #[prost(message, tag = "2")]
    BeginReplace(v1::BeginReplace),
    /// The commit of a replace.
    #[prost(message, tag = "3")]
    CommitReplace(v1::CommitReplace),
}
