//! The faults that tests put between a server and a log.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use event_listener::EventListener;

use super::kept::StaleLeader;
use evenkeel::log::interface::{Error, Message};

/// A call to a fake log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Something is read.
    Read,
    /// A follower asks for the next message, and there is one.
    Next,
    /// A message is appended.
    Append,
    /// Something else is changed, such as a blob or a key.
    Write,
}

/// The fate of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fate {
    /// The call is done.
    #[default]
    Done,
    /// The call is not done, and the caller learns that.
    Unreachable,
    /// The call is done, and the answer is lost.
    AnswerLost,
    /// The call is lost: it is not done, and no answer comes.
    Lost,
    /// Only for an append. No answer comes, and the call arrives when [`super::FakeLog::arrive`] is
    /// called.
    Late,
    /// Only for an append. The call is done, and arrives a second time later.
    Twice,
    /// Only for an append. The log has no room.
    Full,
    /// Only for a `Next`. The message is not there yet.
    NotYet,
    /// Only for a `Next`. The message is skipped: the one after it comes.
    Skipped,
    /// Only for an append. The call is done although the log does not end where the caller said:
    /// the engine breaks its promise.
    Unchecked,
    /// Only for a `Next`. A bit of the message is flipped on its way.
    Flipped,
}

/// Decides what goes wrong. Each server has its own faults.
pub trait Faults: Send + Sync {
    /// Returns the fate of a call. May block: whatever happens meanwhile happens before the call.
    fn fate(&self, call: Call) -> Fate;

    /// Returns how many of the three servers keep the log now. A single server that is left goes on
    /// leading, and answers reads.
    fn keepers(&self) -> usize {
        3
    }

    /// The leader that this server reaches, if that leader was cut off from the other servers.
    fn stale_leader(&self) -> Option<StaleLeader> {
        None
    }

    /// The number of the connection.
    fn connection(&self) -> u64 {
        0
    }

    /// Is called when a call is over. May block: whatever happens meanwhile happens after the call,
    /// and before the caller knows its result.
    fn over(&self, _: Call) {}

    /// Is called when a caller has waited this long for the answer to an append, in vain.
    fn silent(&self, _: Duration) {}

    /// Lets the time pass for which a caller waits for the log to change. Returns whether it has:
    /// then the caller does not wait.
    fn passes(&self, _: Duration) -> bool {
        false
    }

    /// Waits until the log changes, for this long at most.
    fn wait<'a>(
        &'a self,
        changed: EventListener,
        within: Duration,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        let has_passed = self.passes(within);
        Box::pin(async move {
            if has_passed {
                return;
            }
            // The result does not matter: the caller looks at the log again.
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

/// The message with one bit flipped. Its sequence selects the byte.
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

/// With `()` nothing goes wrong.
impl Faults for () {
    fn fate(&self, _: Call) -> Fate {
        Fate::Done
    }
}
