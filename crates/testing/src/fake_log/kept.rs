//! The messages, blobs and keys that a fake log keeps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use prost::bytes::Bytes;

use evenkeel::log::interface::{Error, Message};

/// The logs of all snapshots.
#[derive(Default)]
pub(super) struct Streams {
    pub by_name: BTreeMap<String, Stream>,
    /// Appends that were sent and have not arrived yet.
    pub late: Vec<Append>,
    /// The number of logs that were made.
    pub made: u64,
}

/// Blobs and keys.
#[derive(Clone, Default)]
pub(super) struct StoredValues {
    pub by_name: BTreeMap<String, (Bytes, u64)>,
    /// The revision of the last change.
    pub revision: u64,
}

/// The state that a leader had when it was cut off.
#[derive(Clone)]
pub struct StaleLeader {
    pub(super) streams: Arc<BTreeMap<String, Stream>>,
    pub(super) values: Arc<StoredValues>,
}

/// The log of a snapshot: the messages from `first` on.
#[derive(Clone)]
pub(super) struct Stream {
    /// The number of the stream among all that were made.
    pub number: u64,
    pub first: u64,
    pub messages: Vec<Message>,
}

/// An append, as it was sent.
pub(super) struct Append {
    pub name: String,
    pub after: u64,
    pub message: Bytes,
}

impl Stream {
    pub fn last(&self) -> u64 {
        self.first + self.messages.len() as u64 - 1
    }

    pub fn get(&self, sequence: u64) -> Option<&Message> {
        let index = sequence.checked_sub(self.first)?;
        self.messages.get(usize::try_from(index).ok()?)
    }
}

impl Streams {
    pub fn get(&self, name: &str) -> Result<&Stream, Error> {
        let stream = self.by_name.get(name);
        stream.ok_or_else(|| Error::NotFound(name.to_owned()))
    }

    pub fn append(&mut self, append: &Append, at: SystemTime) -> Result<u64, Error> {
        let last = self.by_name.get(&append.name).map(Stream::last);
        match last {
            None if append.after > 0 => return Err(Error::NotFound(append.name.clone())),
            Some(last) if last != append.after => return Err(Error::Conflict),
            _ => {}
        }
        let stream = self.by_name.entry(append.name.clone());
        let stream = stream.or_insert_with(|| {
            self.made += 1;
            Stream {
                number: self.made,
                first: 1,
                messages: Vec::new(),
            }
        });
        let sequence = append.after + 1;
        stream.messages.push(Message {
            sequence,
            at,
            bytes: append.message.clone(),
        });
        Ok(sequence)
    }
}
