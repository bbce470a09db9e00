//! The blobs and keys of a fake log, as its users reach them.

use prost::bytes::Bytes;

use super::faults::Call;
use super::streams::FakeLog;
use evenkeel::log::interface::{Blobs, Error, Keys, Wait};

impl Blobs for FakeLog {
    fn put<'a>(&'a self, name: &'a str, blob: Bytes) -> Wait<'a, ()> {
        self.call(Call::Write, move || {
            let mut keeping = self.shared.keeping.lock();
            keeping.blobs.insert(name.to_owned(), blob);
            Ok(())
        })
    }

    fn get<'a>(&'a self, name: &'a str) -> Wait<'a, Bytes> {
        self.call(Call::Read, move || {
            let blob = self.with_keeping(|keeping| keeping.blobs.get(name).cloned());
            blob.ok_or_else(|| Error::NotFound(format!("blob {name}")))
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Wait<'a, Vec<String>> {
        self.call(Call::Read, move || {
            Ok(self.with_keeping(|keeping| {
                let names = keeping.blobs.keys();
                let named = names.filter(|name| name.starts_with(prefix));
                named.cloned().collect()
            }))
        })
    }

    fn drop_blob<'a>(&'a self, name: &'a str) -> Wait<'a, ()> {
        self.call(Call::Write, move || {
            self.shared.keeping.lock().blobs.remove(name);
            Ok(())
        })
    }
}

impl Keys for FakeLog {
    fn get<'a>(&'a self, key: &'a str) -> Wait<'a, Option<(Bytes, u64)>> {
        self.call(Call::Read, move || {
            Ok(self.with_keeping(|keeping| keeping.keys.get(key).cloned()))
        })
    }

    fn set_if<'a>(&'a self, key: &'a str, revision: Option<u64>, value: Bytes) -> Wait<'a, u64> {
        self.call(Call::Write, move || {
            let mut keeping = self.shared.keeping.lock();
            let actual = keeping.keys.get(key).map(|(_, revision)| *revision);
            if actual != revision {
                return Err(Error::Conflict);
            }
            keeping.revision += 1;
            let revision = keeping.revision;
            keeping.keys.insert(key.to_owned(), (value, revision));
            Ok(revision)
        })
    }
}
