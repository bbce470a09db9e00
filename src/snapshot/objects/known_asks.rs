//! The requirements of the pods of a batch, by their bytes.

use hashbrown::HashMap;

use super::asks_by_version::AsksByVersion;

/// The most bytes of pods that [`KnownAsks`] keeps.
const MAX_KNOWN_BYTES: usize = 256 << 10;

/// The requirements of the pods of a batch, by their bytes. Pods of a workload have the same
/// requirements, which are decoded once.
#[derive(Debug, Default)]
pub struct KnownAsks {
    by_rest: HashMap<Box<[u8]>, AsksByVersion>,
    bytes: usize,
}

impl KnownAsks {
    /// Returns the requirements of a pod with this rest
    /// ([`PodParts::find`](super::pod_parts::PodParts::find)), if they are known: then the rest is
    /// valid, too.
    pub fn find(&self, rest: &[u8]) -> Option<AsksByVersion> {
        match rest.is_empty() {
            true => Some(AsksByVersion::default()),
            false => self.by_rest.get(rest).cloned(),
        }
    }

    /// Remembers the requirements of a valid pod with this rest, if they hold for all pods with the
    /// same rest.
    pub fn note(&mut self, rest: &[u8], asks: &AsksByVersion) {
        let bytes = self.bytes + rest.len();
        let is_own = asks.chosen.as_ref().is_some_and(|asks| asks.is_own);
        if bytes <= MAX_KNOWN_BYTES && !is_own {
            self.bytes = bytes;
            self.by_rest.insert(rest.into(), asks.clone());
        }
    }
}
