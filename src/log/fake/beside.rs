//! The blobs and keys of a fake log, as its users reach them.

use std::time::SystemTime;

use prost::bytes::Bytes;

use super::faults::Call;
use super::streams::FakeLog;
use crate::log::error::Error;
use crate::log::interface::{Blob, Blobs, Keys, Wait};

impl Blobs for FakeLog {
    fn put<'a>(&'a self, name: &'a str, blob: Bytes) -> Wait<'a, ()> {
        let put = move || {
            let kept = (blob, self.now());
            self.shared
                .keeping
                .lock()
                .blobs
                .insert(name.to_owned(), kept);
            Ok(())
        };
        Box::pin(async move { self.call(Call::Write, put) })
    }

    fn get<'a>(&'a self, name: &'a str) -> Wait<'a, Bytes> {
        let get = move || {
            let keeping = self.shared.keeping.lock();
            let blob = keeping.blobs.get(name).map(|(blob, _)| blob.clone());
            blob.ok_or_else(|| Error::NotFound(format!("blob {name}")))
        };
        Box::pin(async move { self.call(Call::Read, get) })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Wait<'a, Vec<Blob>> {
        let list = move || {
            let keeping = self.shared.keeping.lock();
            let named = keeping
                .blobs
                .iter()
                .filter(|(name, _)| name.starts_with(prefix));
            let blob = |(name, (blob, at)): (&String, &(Bytes, SystemTime))| Blob {
                name: name.clone(),
                bytes: blob.len() as u64,
                at: *at,
            };
            Ok(named.map(blob).collect())
        };
        Box::pin(async move { self.call(Call::Read, list) })
    }

    fn drop_blob<'a>(&'a self, name: &'a str) -> Wait<'a, ()> {
        let drop_blob = move || {
            self.shared.keeping.lock().blobs.remove(name);
            Ok(())
        };
        Box::pin(async move { self.call(Call::Write, drop_blob) })
    }
}

impl Keys for FakeLog {
    fn get<'a>(&'a self, key: &'a str) -> Wait<'a, Option<(Bytes, u64)>> {
        let get = move || Ok(self.shared.keeping.lock().keys.get(key).cloned());
        Box::pin(async move { self.call(Call::Read, get) })
    }

    fn set_if<'a>(&'a self, key: &'a str, revision: Option<u64>, value: Bytes) -> Wait<'a, u64> {
        let set = move || {
            let mut keeping = self.shared.keeping.lock();
            let actual = keeping.keys.get(key).map(|(_, revision)| *revision);
            if actual != revision {
                return Err(Error::Conflict);
            }
            keeping.revision += 1;
            let revision = keeping.revision;
            keeping.keys.insert(key.to_owned(), (value, revision));
            Ok(revision)
        };
        Box::pin(async move { self.call(Call::Write, set) })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Wait<'a, Vec<(String, Bytes)>> {
        let list = move || {
            let keeping = self.shared.keeping.lock();
            let named = keeping
                .keys
                .iter()
                .filter(|(key, _)| key.starts_with(prefix));
            Ok(named
                .map(|(key, (value, _))| (key.clone(), value.clone()))
                .collect())
        };
        Box::pin(async move { self.call(Call::Read, list) })
    }
}
