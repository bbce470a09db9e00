//! The blobs and keys of a fake log, as its users reach them.

use prost::bytes::Bytes;

use super::faults::Call;
use super::streams::FakeLog;
use evenkeel::log::interface::{Error, Values, Wait};

/// Names of blobs are no names of keys, so one map has both.
impl Values for FakeLog {
    fn get<'a>(&'a self, name: &'a str) -> Wait<'a, Option<(Bytes, u64)>> {
        self.call(Call::Read, move || {
            Ok(self.with_values(|values| values.by_name.get(name).cloned()))
        })
    }

    fn set_if<'a>(&'a self, name: &'a str, revision: Option<u64>, value: Bytes) -> Wait<'a, u64> {
        self.call(Call::Write, move || {
            let mut values = self.shared.values.lock();
            let actual = values.by_name.get(name).map(|(_, revision)| *revision);
            if actual != revision {
                return Err(Error::Conflict);
            }
            values.revision += 1;
            let revision = values.revision;
            values.by_name.insert(name.to_owned(), (value, revision));
            Ok(revision)
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Wait<'a, Vec<String>> {
        self.call(Call::Read, move || {
            Ok(self.with_values(|values| {
                let names = values.by_name.keys();
                let named = names.filter(|name| name.starts_with(prefix));
                named.cloned().collect()
            }))
        })
    }

    fn remove<'a>(&'a self, name: &'a str) -> Wait<'a, ()> {
        self.call(Call::Write, move || {
            self.shared.values.lock().by_name.remove(name);
            Ok(())
        })
    }
}
