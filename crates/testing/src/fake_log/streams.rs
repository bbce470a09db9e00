//! The fake log itself.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use event_listener::Event;
use parking_lot::Mutex;
use prost::bytes::Bytes;

use super::faults::{Call, Fate, Faults, fault, flipped, full, lost};
use super::kept::{Append, StoredValues, Stream, Streams};
use evenkeel::log::interface::{Bounds, Error, FleetBounds, Follower, Log, Message, Values, Wait};

/// A log inside the process. Clones made by [`Self::seen_with`] share its content, as servers share
/// a log.
#[derive(Clone)]
pub struct FakeLog {
    pub(super) shared: Arc<Shared>,
    pub(super) faults: Arc<dyn Faults>,
}

/// The state that all users of a log share.
pub(super) struct Shared {
    pub(super) streams: Mutex<Streams>,
    changed: Event,
    clock: Box<dyn Fn() -> SystemTime + Send + Sync>,
    pub(super) values: Mutex<StoredValues>,
}

impl Default for FakeLog {
    fn default() -> Self {
        Self::with_clock(SystemTime::now)
    }
}

impl FakeLog {
    /// An empty log whose servers have this clock. Nothing goes wrong.
    pub fn with_clock(clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self {
            shared: Arc::new(Shared {
                streams: Mutex::default(),
                changed: Event::new(),
                clock: Box::new(clock),
                values: Mutex::default(),
            }),
            faults: Arc::new(()),
        }
    }

    /// Returns the same log for a server whose calls meet these faults.
    #[must_use]
    pub fn seen_with(&self, faults: Arc<dyn Faults>) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            faults,
        }
    }

    pub(super) fn now(&self) -> SystemTime {
        (self.shared.clock)()
    }

    /// Returns how many appends are on their way.
    pub fn late(&self) -> usize {
        self.shared.streams.lock().late.len()
    }

    /// Lets one of the appends that are on their way arrive.
    pub fn arrive(&self, index: usize) {
        let mut streams = self.shared.streams.lock();
        if index < streams.late.len() {
            let append = streams.late.remove(index);
            // Nobody waits for the answer.
            let _ = streams.append(&append, self.now());
        }
        drop(streams);
        self.shared.changed.notify(usize::MAX);
    }

    /// Appends a message, whatever the log ends with.
    pub fn intrude(&self, name: &str, message: Bytes) {
        let mut streams = self.shared.streams.lock();
        let after = streams.by_name.get(name).map_or(0, Stream::last);
        let append = Append {
            name: name.to_owned(),
            after,
            message,
        };
        let appended = streams.append(&append, self.now());
        drop(streams);
        appended.expect("it follows on the last message");
        self.shared.changed.notify(usize::MAX);
    }

    /// Loses the messages after a sequence, as a broker does that acknowledged messages before they
    /// were on its disks.
    pub fn lose_after(&self, name: &str, last: u64) {
        let mut streams = self.shared.streams.lock();
        if let Some(stream) = streams.by_name.get_mut(name) {
            stream.messages.retain(|message| message.sequence <= last);
        }
        drop(streams);
        self.shared.changed.notify(usize::MAX);
    }

    /// Returns the messages of a log, for tests to look at.
    pub fn messages(&self, name: &str) -> Vec<Message> {
        let streams = self.shared.streams.lock();
        let messages = streams.get(name).map(|stream| stream.messages.clone());
        messages.unwrap_or_default()
    }

    /// Does a call, or lets it go wrong as [`Faults`] decide.
    pub(super) fn call<'a, T: 'a>(
        &'a self,
        call: Call,
        act: impl FnOnce() -> Result<T, Error> + Send + 'a,
    ) -> Wait<'a, T> {
        Box::pin(async move {
            let result = match self.faults.fate(call) {
                _ if call == Call::Write && self.faults.stale_leader().is_some() => Err(lost()),
                Fate::Unreachable => Err(fault()),
                Fate::Lost | Fate::AnswerLost if call == Call::Read => Err(fault()),
                Fate::Lost => Err(lost()),
                Fate::AnswerLost => act().and_then(|_| Err(lost())),
                _ => act(),
            };
            self.faults.over(call);
            result
        })
    }

    fn append(&self, append: Append) -> Result<u64, Error> {
        let fate = self.faults.fate(Call::Append);
        let mut streams = self.shared.streams.lock();
        let stale = self.faults.stale_leader();
        let result = match fate {
            Fate::Unreachable => Err(fault()),
            _ if let Some(stale) = stale => Err(Self::refuse(&stale, append, fate, &mut streams)),
            Fate::Full => Err(full()),
            Fate::Lost => Err(lost()),
            Fate::Late => {
                streams.late.push(append);
                Err(lost())
            }
            Fate::AnswerLost => {
                // The caller does not learn whether the append was refused.
                let _ = streams.append(&append, self.now());
                Err(lost())
            }
            Fate::Twice => {
                let appended = streams.append(&append, self.now());
                streams.late.push(append);
                appended
            }
            Fate::Unchecked => {
                let after = streams.by_name.get(&append.name).map_or(0, Stream::last);
                streams.append(&Append { after, ..append }, self.now())
            }
            _ => streams.append(&append, self.now()),
        };
        drop(streams);
        self.shared.changed.notify(usize::MAX);
        self.faults.over(Call::Append);
        result
    }

    fn next(&self, of: &FakeFollower, after: u64) -> Result<Option<Message>, Error> {
        let name = &of.name;
        let (message, skipped) = self.with_log(name, |stream| {
            if *of.stream.lock().get_or_insert(stream.number) != stream.number && after > 0 {
                return Err(Error::Shorter(stream.last()));
            }
            if stream.first > after + 1 {
                return Err(Error::Trimmed(stream.first));
            }
            if stream.last() < after {
                return Err(Error::Shorter(stream.last()));
            }
            let message = |sequence: u64| stream.get(sequence).cloned();
            Ok((message(after + 1), message(after + 2)))
        })?;
        let Some(message) = message else {
            return Ok(None);
        };
        let fate = self.faults.fate(Call::Next);
        self.faults.over(Call::Next);
        Ok(match fate {
            Fate::Unreachable => return Err(fault()),
            Fate::NotYet => None,
            Fate::Skipped => skipped,
            Fate::Flipped => Some(flipped(message)),
            _ => Some(message),
        })
    }
}

impl FakeLog {
    fn bounds_of(&self, stream: &Stream) -> Bounds {
        let bytes = stream.messages.iter().map(|m| m.bytes.len() as u64);
        let behind = self.faults.keepers()..3;
        Bounds {
            first: stream.first,
            last: stream.last(),
            bytes: bytes.sum(),
            max_bytes: 0,
            copies: 3,
            behind: behind.map(|it| format!("n{it}")).collect(),
            now: Some(self.now()),
        }
    }
}

impl Log for FakeLog {
    fn names(&self) -> Wait<'_, Vec<String>> {
        self.call(Call::Read, move || {
            Ok(self.with_logs(|logs| logs.keys().cloned().collect()))
        })
    }

    fn append_if<'a>(
        &'a self,
        name: &'a str,
        after: u64,
        message: Bytes,
        within: Duration,
    ) -> Wait<'a, u64> {
        Box::pin(async move {
            let appended = self.append(Append {
                name: name.to_owned(),
                after,
                message,
            });
            if matches!(appended, Err(Error::UnknownFate(_))) {
                self.faults.silent(within);
            }
            appended
        })
    }

    fn follow(&self, name: &str, _: u64) -> Arc<dyn Follower> {
        Arc::new(FakeFollower {
            log: self.clone(),
            name: name.to_owned(),
            stream: Mutex::default(),
        })
    }

    fn connection(&self) -> u64 {
        self.faults.connection()
    }

    fn bounds<'a>(&'a self, name: &'a str) -> Wait<'a, Bounds> {
        self.call(Call::Read, move || {
            self.with_log(name, |stream| Ok(self.bounds_of(stream)))
        })
    }

    fn read<'a>(&'a self, name: &'a str, sequence: u64) -> Wait<'a, Message> {
        self.call(Call::Read, move || {
            let message = self.with_log(name, |stream| Ok(stream.get(sequence).cloned()))?;
            message.ok_or_else(|| Error::NotFound(format!("message {sequence} of {name}")))
        })
    }

    fn survey(&self) -> Wait<'_, FleetBounds> {
        self.call(Call::Read, || {
            let bounds = |(name, it): (&String, &Stream)| (name.clone(), self.bounds_of(it));
            Ok(FleetBounds {
                logs: self.with_logs(|logs| logs.iter().map(bounds).collect()),
                ..FleetBounds::default()
            })
        })
    }

    fn troubles(&self) -> Vec<String> {
        Vec::new()
    }

    fn trim<'a>(&'a self, name: &'a str, before: u64) -> Wait<'a, ()> {
        self.call(Call::Write, move || {
            let mut streams = self.shared.streams.lock();
            let stream = streams.by_name.get_mut(name);
            let stream = stream.ok_or_else(|| Error::NotFound(name.to_owned()))?;
            let first = before.clamp(stream.first, stream.last() + 1);
            stream.messages.retain(|message| message.sequence >= first);
            stream.first = first;
            Ok(())
        })
    }

    fn remove_if<'a>(&'a self, name: &'a str, last: &'a Message) -> Wait<'a, ()> {
        let remove = move || {
            let mut streams = self.shared.streams.lock();
            let end = streams.get(name)?.messages.last();
            if end.is_none_or(|end| (end.sequence, &end.bytes) != (last.sequence, &last.bytes)) {
                return Err(Error::Conflict);
            }
            streams.by_name.remove(name);
            Ok(())
        };
        Box::pin(async move {
            let removed = self.call(Call::Write, remove).await;
            self.shared.changed.notify(usize::MAX);
            removed
        })
    }

    fn blobs(&self) -> &dyn Values {
        self
    }

    fn keys(&self) -> &dyn Values {
        self
    }
}

/// Follows a fake log.
struct FakeFollower {
    log: FakeLog,
    name: String,
    /// The number of the stream that it follows.
    stream: Mutex<Option<u64>>,
}

impl Follower for FakeFollower {
    fn next(&self, after: u64, within: Duration) -> Wait<'_, Option<Message>> {
        Box::pin(async move {
            // Listening starts before looking, so that no change is missed.
            let changed = self.log.shared.changed.listen();
            if let Some(message) = self.log.next(self, after)? {
                return Ok(Some(message));
            }
            if within.is_zero() {
                return Ok(None);
            }
            self.log.faults.wait(changed, within).await;
            self.log.next(self, after)
        })
    }
}
