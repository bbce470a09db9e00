//! What the pods of a batch ask for, by their bytes.

use hashbrown::HashMap;

use super::asks_by_version::AsksByVersion;

/// How many bytes of pods [`KnownAsks`] keeps, at most.
const MAX_KNOWN_BYTES: usize = 256 << 10;

/// What the pods of a batch ask for, by their bytes: those of a workload ask for the
/// same, which is decoded once.
#[derive(Debug, Default)]
pub struct KnownAsks {
    by_rest: HashMap<Box<[u8]>, AsksByVersion>,
    bytes: usize,
}

impl KnownAsks {
    /// Returns what a pod with this rest ([`PodParts::find`](super::pod_parts::PodParts::find))
    /// asks for, if that is known: then the rest is valid, too.
    pub fn find(&self, rest: &[u8]) -> Option<AsksByVersion> {
        match rest.is_empty() {
            true => Some(AsksByVersion::default()),
            false => self.by_rest.get(rest).cloned(),
        }
    }

    /// Notes what a valid pod with this rest asks for, if all with the same rest do.
    pub fn note(&mut self, rest: &[u8], asks: &AsksByVersion) {
        let bytes = self.bytes + rest.len();
        let is_own = asks.chosen.as_ref().is_some_and(|asks| asks.is_own);
        if bytes <= MAX_KNOWN_BYTES && !is_own {
            self.bytes = bytes;
            self.by_rest.insert(rest.into(), asks.clone());
        }
    }
}
