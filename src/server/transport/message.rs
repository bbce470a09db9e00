//! One message of a request, in the blocks that it came in.

use std::collections::VecDeque;

use prost::bytes::{Bytes, BytesMut};
use tonic::Status;

use super::request_charge::RequestCharge;

/// The header of each message: whether it is compressed, and its length.
pub(super) const HEAD: usize = 5;

/// The least and the most that is reserved at once for bytes to come.
const BLOCK: (usize, usize) = (1 << 10, 256 << 10);

/// A message that has arrived, with its head.
#[derive(Debug, Default)]
pub(super) struct WholeMessage {
    /// All of it, if it came in one piece.
    first: Bytes,
    more: VecDeque<Bytes>,
    length: usize,
}

impl From<Bytes> for WholeMessage {
    fn from(first: Bytes) -> Self {
        Self {
            length: first.len(),
            first,
            more: VecDeque::new(),
        }
    }
}

impl WholeMessage {
    /// Returns how many bytes it has, its head among them.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Its parts.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &Bytes> {
        std::iter::once(&self.first).chain(&self.more)
    }

    /// Takes its next part away.
    pub(super) fn next_block(&mut self) -> Option<Bytes> {
        if !self.first.is_empty() {
            return Some(std::mem::take(&mut self.first));
        }
        self.more.pop_front()
    }

    /// Returns whether nothing is left of it.
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.more.is_empty()
    }
}

/// A message that has arrived in part, copied to blocks of its own: a slice of
/// what a connection has read would keep all of that in memory.
#[derive(Default)]
pub(super) struct Partial {
    full: VecDeque<Bytes>,
    last: BytesMut,
    pub(super) length: usize,
}

impl Partial {
    /// Adds the received bytes of a message of `whole` bytes.
    pub(super) fn add(
        &mut self,
        mut data: &[u8],
        whole: usize,
        charge: &mut RequestCharge,
    ) -> Result<(), Status> {
        while !data.is_empty() {
            let mut room = self.last.capacity() - self.last.len();
            if room == 0 {
                let missing = whole - self.length;
                room = self.length.clamp(BLOCK.0, BLOCK.1).min(missing);
                charge.grow(room)?;
                let last = std::mem::replace(&mut self.last, BytesMut::with_capacity(room));
                if !last.is_empty() {
                    self.full.push_back(last.freeze());
                }
            }
            let (now, later) = data.split_at(room.min(data.len()));
            self.last.extend_from_slice(now);
            self.length += now.len();
            data = later;
        }
        Ok(())
    }

    /// The message, once all of it has come.
    pub(super) fn finish(&mut self) -> WholeMessage {
        let Self {
            mut full,
            last,
            length,
        } = std::mem::take(self);
        full.push_back(last.freeze());
        WholeMessage {
            first: Bytes::new(),
            more: full,
            length,
        }
    }
}
