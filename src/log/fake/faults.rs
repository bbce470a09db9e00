//! What can go wrong between a server and a log.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use event_listener::EventListener;
use prost::bytes::Bytes;

use super::kept::StaleLeader;
use crate::log::interface::{Error, Message};

/// A call to a fake log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Something is asked of it.
    Read,
    /// The next message is asked for, while there is one.
    Next,
    /// A message is appended.
    Append,
    /// Something else is changed.
    Write,
}

/// The fate of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fate {
    /// It is done.
    #[default]
    Done,
    /// It is not done, and the caller learns that.
    Unreachable,
    /// It is done, and the answer is lost.
    AnswerLost,
    /// It is lost.
    Lost,
    /// No answer comes, and the call arrives later: when
    /// [`super::FakeLog::arrive`] says so. Of an append.
    Late,
    /// It is done, and arrives a second time later. Of an append.
    Twice,
    /// The log has no room. Of an append.
    Full,
    /// The message is not there yet. Of a `Next`.
    NotYet,
    /// The message is passed over. Of a `Next`.
    Skipped,
    /// It is done although the log does not end there: the engine breaks its
    /// promise. Of an append.
    Unchecked,
    /// Another message comes in the place of one: one that was refused there. Of a
    /// `Next`.
    Forged,
    /// A bit of the message is flipped on its way. Of a `Next`.
    Flipped,
}

/// The follower that asks for the next message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NextCall {
    /// The number of the follower among all of its log.
    pub follower: u64,
    /// The sequence after which it asks.
    pub after: u64,
}

/// Decides what goes wrong. Each server has its own.
pub trait Faults: Send + Sync {
    /// Returns what becomes of a call. May take its time: whatever happens meanwhile
    /// happens before the call.
    fn fate(&self, call: Call) -> Fate;

    /// Returns what becomes of appending a message.
    fn fate_of_append(&self, _: &Bytes) -> Fate {
        self.fate(Call::Append)
    }

    /// Returns what becomes of asking for the next message.
    fn fate_of_next(&self, _: NextCall) -> Fate {
        self.fate(Call::Next)
    }

    /// Returns how many of three servers keep the log now. Where one is left it goes on leading,
    /// and tells what it has.
    fn keepers(&self) -> usize {
        3
    }

    /// The leader that is reached now, where that is one which was cut off from the others.
    fn stale_leader(&self) -> Option<StaleLeader> {
        None
    }

    /// The copy that a follower reads now, of three.
    fn copy(&self) -> usize {
        0
    }

    /// The number of the connection.
    fn connection(&self) -> u64 {
        0
    }

    /// Is told that a call is over. May take its time: whatever happens
    /// meanwhile happens after the call, and before the caller knows.
    fn over(&self, call: Call) {
        let _ = call;
    }

    /// Is told that somebody waited for an answer to an append for so long, in vain.
    fn silent(&self, within: Duration) {
        let _ = within;
    }

    /// Waits for something to happen to the log, for this long at most.
    fn wait<'a>(
        &'a self,
        changed: EventListener,
        within: Duration,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async move {
            // Whether anything has happened is looked up.
            let _ = tokio::time::timeout(within, changed).await;
        })
    }
}

pub(super) fn fault() -> Error {
    Error::Unreachable("a fault".to_owned())
}

pub(super) fn full() -> Error {
    Error::Full("a fault".to_owned())
}

pub(super) fn lost() -> Error {
    Error::UnknownFate("the answer was lost".to_owned())
}

/// The message with a bit flipped: which one, its sequence says.
pub(super) fn flipped(message: Message) -> Message {
    let mut bytes = message.bytes.to_vec();
    if !bytes.is_empty() {
        let at = usize::try_from(message.sequence).unwrap_or_default() * 31 % bytes.len();
        bytes[at] ^= 4;
    }
    Message {
        bytes: bytes.into(),
        ..message
    }
}

/// Nothing goes wrong.
impl Faults for () {
    fn fate(&self, _: Call) -> Fate {
        Fate::Done
    }
}
