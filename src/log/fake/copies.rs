//! The copies of the fake logs. Three servers keep each log. One copy may lack messages silently,
//! so that an answer depends on the copy that is read.

use std::collections::BTreeSet;

use super::kept::COPIES;
use super::streams::FakeLog;
use crate::log::interface::{Error, LogCopy, Message};

impl FakeLog {
    /// Makes one copy lack some of the present messages, and the other copies none.
    pub fn damage(&self, copy: usize, mut lacks: impl FnMut(u64) -> bool) {
        let mut lacking = BTreeSet::new();
        for (name, stream) in &self.shared.streams.lock().by_name {
            let sequences = stream.messages.iter().map(|message| message.sequence);
            lacking.extend(
                sequences
                    .filter(|it| lacks(*it))
                    .map(|it| (name.clone(), it)),
            );
        }
        self.shared.copies.lock().damaged = Some((copy % COPIES, lacking));
    }

    /// Makes the server with this copy the leader, whatever the copy lacks.
    pub fn lead(&self, copy: usize) {
        self.shared.copies.lock().leader = copy % COPIES;
    }

    /// Returns whether the leader's copy lacks a message.
    pub(super) fn leader_lacks(&self, name: &str, sequence: u64) -> bool {
        let copies = self.shared.copies.lock();
        copies.lacks(copies.leader, name, sequence)
    }

    /// Returns whether a copy lacks a message.
    pub(super) fn copy_lacks(&self, copy: usize, name: &str, sequence: u64) -> bool {
        let copies = self.shared.copies.lock();
        copies.lacks(copy % COPIES, name, sequence)
    }

    /// Returns those of the messages that each server's copy has.
    pub(super) fn of_each_copy(
        &self,
        name: &str,
        messages: &[Message],
    ) -> Vec<(String, Vec<Message>)> {
        let copies = self.shared.copies.lock();
        let of_copy = |copy| {
            let has = |message: &&Message| !copies.lacks(copy, name, message.sequence);
            let server = format!("n{copy}");
            (server, messages.iter().filter(has).cloned().collect())
        };
        (0..COPIES).map(of_copy).collect()
    }

    /// Counts the messages in each copy of a log. If the leader's copy lacks some, a server with
    /// more messages leads from then on.
    pub(super) fn count_copies(&self, name: &str) -> Result<Vec<LogCopy>, Error> {
        let messages = self.with_log(name, |stream| Ok(stream.messages.clone()))?;
        let counted = self.of_each_copy(name, &messages);
        let has = |copy: usize| counted[copy].1.len();
        let mut copies = self.shared.copies.lock();
        if let Some(best) = (0..COPIES).max_by_key(|copy| has(*copy))
            && has(copies.leader) < has(best)
        {
            copies.leader = best;
        }
        let copy = |(server, has): (String, Vec<Message>)| LogCopy {
            server,
            of: name.to_owned(),
            has: has.len() as u64,
            wanted: messages.len() as u64,
            is_current: true,
        };
        Ok(counted.into_iter().map(copy).collect())
    }
}
