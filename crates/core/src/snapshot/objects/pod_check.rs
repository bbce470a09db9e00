//! Checks the pods of a batch. The parts that nearly all pods consist of are checked in their
//! bytes. A pod that has more, or a fault, is decoded and checked by the rules of `compiled.rs`,
//! which word all faults.

#[cfg(test)]
mod tests;

use hashbrown::HashMap;
use prost::Message;

use super::asks_by_version::AsksByVersion;
use super::compiled;
use super::pod::{CompiledPod, Phase};
use super::pod_parts::{LabelSpans, PodParts};
use crate::limits::{Limit, Limits};
use crate::matching::{Path, PodTerm, RequestsByVersion, Violations, names, times};
use crate::proto::v1;

/// Checks pods by these limits.
pub struct PodCheck<'l> {
    limits: &'l Limits,
    known: KnownAsks,
    /// The bytes of a pod besides its parts.
    rest: Vec<u8>,
    /// The positions of the last pod's labels: the next one uses their room.
    labels: LabelSpans,
    /// Valid keys of labels by their index in a pod: most pods have the same.
    keys: Vec<Vec<u8>>,
}

/// The number of labels of a pod whose keys are remembered.
const MAX_KEYS: usize = 16;

/// The requirements of the pods of a batch, by their bytes. Pods of a workload have the same
/// requirements, which are decoded once.
#[derive(Default)]
struct KnownAsks {
    by_rest: HashMap<Box<[u8]>, AsksByVersion>,
    bytes: usize,
}

/// The most bytes of pods that [`KnownAsks`] keeps.
const MAX_KNOWN_BYTES: usize = 256 << 10;

impl KnownAsks {
    /// Returns the requirements of a pod with this rest ([`PodParts::find`]), if they are known:
    /// then the rest is valid, too.
    fn find(&self, rest: &[u8]) -> Option<AsksByVersion> {
        match rest.is_empty() {
            true => Some(AsksByVersion::default()),
            false => self.by_rest.get(rest).cloned(),
        }
    }

    /// Remembers the requirements of a valid pod with this rest, if they hold for all pods with the
    /// same rest.
    fn note(&mut self, rest: &[u8], asks: &AsksByVersion) {
        let bytes = self.bytes + rest.len();
        let is_own = asks.chosen.as_ref().is_some_and(|asks| asks.is_own);
        if bytes <= MAX_KNOWN_BYTES && !is_own {
            self.bytes = bytes;
            self.by_rest.insert(rest.into(), asks.clone());
        }
    }
}

impl<'l> PodCheck<'l> {
    /// A check of one batch.
    pub fn new(limits: &'l Limits) -> Self {
        Self {
            limits,
            known: KnownAsks::default(),
            rest: Vec::new(),
            labels: LabelSpans::default(),
            keys: Vec::new(),
        }
    }

    /// Checks and compiles an encoded pod, whose field is at `path`. `None` when it has a fault.
    ///
    /// # Errors
    /// The pod cannot be decoded.
    pub fn check(
        &mut self,
        bytes: &[u8],
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Result<Option<CompiledPod>, prost::DecodeError> {
        self.rest.clear();
        let labels = std::mem::take(&mut self.labels);
        let Some(parts) = PodParts::find(bytes, &mut self.rest, labels) else {
            let pod = v1::Pod::decode(bytes)?;
            let asks = self.check_decoded(&pod, path, faults);
            let encoded = pod.encode_to_vec();
            return Ok(asks.and_then(|asks| CompiledPod::of(&PodParts::of(&encoded), asks)));
        };
        let asks = match self.known.find(&self.rest) {
            Some(asks) if self.are_valid(&parts) => Some(asks),
            _ => {
                let asks = self.check_decoded(&v1::Pod::decode(bytes)?, path, faults);
                if let Some(asks) = &asks {
                    self.known.note(&self.rest, asks);
                }
                asks
            }
        };
        let pod = asks.and_then(|asks| CompiledPod::of(&parts, asks));
        self.labels = parts.label_spans;
        Ok(pod)
    }

    /// Returns the requirements of a pod, if it is valid.
    fn check_decoded(
        &self,
        pod: &v1::Pod,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Option<AsksByVersion> {
        let before = faults.total();
        compiled::check_pod(pod, self.limits, path, faults);
        let requests = RequestsByVersion::compile(pod, path, faults);
        PodTerm::compile_existing(pod, path, faults);
        (faults.total() == before).then(|| AsksByVersion::of(pod, requests))
    }

    /// Returns whether the parts of a pod keep to the rules.
    fn are_valid(&mut self, parts: &PodParts<'_>) -> bool {
        let node =
            |name: &[u8]| name.is_empty() || names::is_node_name(name, self.limits.node_names);
        let keys = &mut self.keys;
        let mut is_key = |place: usize, key: &[u8]| {
            if keys.get(place).is_some_and(|known| known == key) {
                return true;
            }
            let is_key = names::is_label_key(key);
            if is_key && place <= keys.len() && place < MAX_KEYS {
                keys.truncate(place);
                keys.push(key.to_vec());
            }
            is_key
        };
        let mut labels = parts.labels().enumerate();
        let uid = parts.uid;
        names::is_name(parts.name)
            && names::is_namespace(parts.namespace)
            && labels
                .all(|(place, (key, value))| is_key(place, key) && names::is_label_value(value))
            && uid.len() <= self.limits.get(Limit::StringBytes)
            && std::str::from_utf8(uid).is_ok()
            && node(parts.node_name)
            && node(parts.nominated_node_name)
            && parts.deletion.is_none_or(times::can_be_written)
            && Phase::parse(parts.phase).is_some()
    }
}
