//! Some pods of a namespace with their names, packed: 32 bytes a pod, and the part of its name that
//! it does not share with others. Pods of one workload have names that begin alike, and they mostly
//! come one after another.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use super::label_sets::LabelSetId;
use super::pod::{Life, Phase, PodRecord, Rare};
use super::slots::Slot;
use super::templates::TemplateId;
use crate::account::heap;

/// The most prefixes of names that a block keeps: as many as fit four bits, one of which means
/// none.
const MAX_PREFIXES: usize = 15;

/// The length below which a prefix of names is not kept.
const MIN_PREFIX: usize = 4;

/// Pods with their names, at most as many as have a number of 8 bits.
#[derive(Debug, Clone, Default)]
pub struct PodBlock {
    pods: Vec<PackedPod>,
    /// The prefixes and the ends of names. Some of it may be unused.
    text: String,
    prefixes: Vec<Piece>,
    /// The fields that few pods have, ascending by the number of the pod.
    rare: Vec<(u8, Arc<Rare>)>,
    /// The bytes of these fields on the heap.
    rare_bytes: usize,
    /// The number of unused bytes of the text, without unused prefixes.
    unused: usize,
}

/// A pod, packed.
#[derive(Debug, Clone)]
struct PackedPod {
    labels: LabelSetId,
    node: Option<Slot>,
    template: TemplateId,
    /// The position of the end of its name.
    suffix: u16,
    suffix_length: u8,
    /// The phase, and shifted by 4 bits the number of the prefix, from 1; or 0.
    phase_and_prefix: u8,
    uid: Uuid,
}

/// A piece of the text.
#[derive(Debug, Clone, Copy)]
struct Piece {
    start: u16,
    length: u8,
}

/// A name in two parts.
#[derive(Debug, Clone, Copy)]
pub struct PodName<'a> {
    prefix: &'a str,
    suffix: &'a str,
}

impl PodName<'_> {
    /// Returns whether it is the name `name`.
    pub fn is(self, name: &str) -> bool {
        let rest = name.as_bytes().strip_prefix(self.prefix.as_bytes());
        rest == Some(self.suffix.as_bytes())
    }

    /// Calls `read` with the whole name.
    pub fn with<R>(self, read: impl FnOnce(&[u8]) -> R) -> R {
        let Self { prefix, suffix } = self;
        let mut whole = [0; NAME_BYTES];
        let length = prefix.len() + suffix.len();
        whole[..prefix.len()].copy_from_slice(prefix.as_bytes());
        whole[prefix.len()..length].copy_from_slice(suffix.as_bytes());
        read(&whole[..length])
    }

    /// Compares two names.
    pub fn order(self, other: Self) -> std::cmp::Ordering {
        match self.prefix == other.prefix {
            true => self.suffix.cmp(other.suffix),
            false => self.with(|a| other.with(|b| a.cmp(b))),
        }
    }

    /// The beginning of the name: at least its first character.
    pub fn beginning(&self) -> &str {
        match self.prefix {
            "" => self.suffix,
            prefix => prefix,
        }
    }
}

impl fmt::Display for PodName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.prefix)?;
        f.write_str(self.suffix)
    }
}

/// The most bytes of a pod's name: a length has 8 bits.
const NAME_BYTES: usize = 255;

impl PodBlock {
    /// Returns the number of pods.
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// An empty block with room for this many pods.
    pub fn with_capacity(pods: usize) -> Self {
        Self {
            pods: Vec::with_capacity(pods),
            ..Self::default()
        }
    }

    /// The name of a pod.
    pub fn name(&self, at: usize) -> PodName<'_> {
        let pod = &self.pods[at];
        let prefix = match pod.phase_and_prefix >> 4 {
            0 => "",
            number => self.piece(self.prefixes[usize::from(number) - 1]),
        };
        PodName {
            prefix,
            suffix: self.piece(pod.suffix()),
        }
    }

    fn piece(&self, piece: Piece) -> &str {
        let (start, length) = (usize::from(piece.start), usize::from(piece.length));
        match length {
            0 => "",
            _ => &self.text[start..start + length],
        }
    }

    /// A pod.
    pub fn pod(&self, at: usize) -> PodRecord {
        let pod = &self.pods[at];
        PodRecord {
            labels: pod.labels,
            node: pod.node,
            life: Life {
                uid: pod.uid,
                phase: pod.phase(),
                template: pod.template,
                rare: self
                    .rare_of(at)
                    .ok()
                    .map(|place| Arc::clone(&self.rare[place].1)),
            },
        }
    }

    /// The index of a pod's rare fields, or else the index at which they would be inserted.
    fn rare_of(&self, at: usize) -> Result<usize, usize> {
        let number = |(number, _): &(u8, Arc<Rare>)| usize::from(*number);
        self.rare.binary_search_by_key(&at, number)
    }

    fn set_rare(&mut self, at: usize, rare: Option<Arc<Rare>>) {
        let place = match self.rare_of(at) {
            Ok(place) => {
                self.rare_bytes -= self.rare.remove(place).1.memory_bytes();
                place
            }
            Err(place) => place,
        };
        if let Some(rare) = rare {
            self.rare_bytes += rare.memory_bytes();
            self.rare.insert(place, (number_of(at), rare));
        }
    }

    /// Replaces the pod of the same name.
    pub fn set(&mut self, at: usize, pod: PodRecord) {
        let PodRecord { labels, node, life } = pod;
        self.set_rare(at, life.rare);
        let packed = &mut self.pods[at];
        packed.labels = labels;
        packed.node = node;
        packed.template = life.template;
        packed.uid = life.uid;
        packed.phase_and_prefix = packed.phase_and_prefix & 0xf0 | life.phase as u8;
    }

    /// Adds a pod at the end.
    pub fn push(&mut self, name: &str, pod: PodRecord) {
        let (phase_and_prefix, suffix) = self.add_name(name);
        self.pods.push(PackedPod {
            labels: pod.labels,
            node: None,
            template: pod.life.template,
            suffix: suffix.start,
            suffix_length: suffix.length,
            phase_and_prefix,
            uid: Uuid::nil(),
        });
        self.set(self.pods.len() - 1, pod);
    }

    /// Removes the last pod.
    pub fn pop(&mut self) -> Option<(String, PodRecord)> {
        let at = self.pods.len().checked_sub(1)?;
        let last = (self.name(at).to_string(), self.pod(at));
        self.set_rare(at, None);
        let suffix = self.pods.pop()?.suffix();
        self.free(suffix);
        Some(last)
    }

    /// Replaces a pod by one of another name.
    pub fn replace(&mut self, at: usize, name: &str, pod: PodRecord) {
        self.free(self.pods[at].suffix());
        // The old name is cleared, so that a rebuilt text does not have it.
        self.pods[at].suffix_length = 0;
        let (phase_and_prefix, suffix) = self.add_name(name);
        let packed = &mut self.pods[at];
        packed.phase_and_prefix = phase_and_prefix;
        packed.suffix = suffix.start;
        packed.suffix_length = suffix.length;
        self.set(at, pod);
    }

    /// Records that an end of a name is not used any more.
    fn free(&mut self, suffix: Piece) {
        let (start, length) = (usize::from(suffix.start), usize::from(suffix.length));
        match start + length == self.text.len() {
            true => self.text.truncate(start),
            false => self.unused += length,
        }
    }

    /// Adds a name to the text. Returns the number of its prefix, shifted, and its end.
    fn add_name(&mut self, name: &str) -> (u8, Piece) {
        if self.text.len() + name.len() > usize::from(u16::MAX) || self.unused > self.text.len() / 2
        {
            self.tidy();
        }
        let (prefix, suffix) = name.split_at(name.rfind('-').map_or(0, |dash| dash + 1));
        let number = self.prefix_number(prefix);
        let suffix = self.add_text(if number == 0 { name } else { suffix });
        (number << 4, suffix)
    }

    /// The number of a prefix, which is added if there is room; 0 stands for no prefix.
    fn prefix_number(&mut self, prefix: &str) -> u8 {
        if prefix.len() < MIN_PREFIX {
            return 0;
        }
        let mut known = self.prefixes.iter();
        let known = known.rposition(|piece| self.piece(*piece) == prefix);
        let place = match known {
            Some(place) => place,
            None if self.prefixes.len() == MAX_PREFIXES => return 0,
            None => {
                let piece = self.add_text(prefix);
                self.prefixes.push(piece);
                self.prefixes.len() - 1
            }
        };
        number_of(place + 1)
    }

    fn add_text(&mut self, text: &str) -> Piece {
        let start = u16::try_from(self.text.len()).expect("names of a block fit 64 KiB");
        self.text.push_str(text);
        Piece {
            start,
            length: u8::try_from(text.len()).expect("a name has at most 253 bytes"),
        }
    }

    /// Rebuilds the text without its unused parts.
    fn tidy(&mut self) {
        let mut fresh = Self::with_capacity(self.pods.capacity());
        fresh.text.reserve(self.text.len() - self.unused);
        let names = (0..self.pods.len()).map(|at| {
            let name = self.name(at).to_string();
            fresh.add_name(&name)
        });
        let names: Vec<(u8, Piece)> = names.collect();
        for (pod, (prefix, suffix)) in self.pods.iter_mut().zip(names) {
            pod.phase_and_prefix = pod.phase() as u8 | prefix;
            pod.suffix = suffix.start;
            pod.suffix_length = suffix.length;
        }
        self.text = fresh.text;
        self.prefixes = fresh.prefixes;
        self.unused = 0;
    }

    /// Gives back spare room for names. This takes a copy, because allocators shrink in place.
    pub fn fit(&mut self) {
        self.text = self.text.clone();
        self.prefixes = self.prefixes.clone();
    }

    /// Returns the bytes in memory.
    pub fn memory_bytes(&self) -> usize {
        heap::shared(size_of::<Self>())
            + heap::list::<PackedPod>(self.pods.capacity())
            + heap::block(self.text.capacity())
            + heap::list::<Piece>(self.prefixes.capacity())
            + heap::list::<(u8, Arc<Rare>)>(self.rare.capacity())
            + self.rare_bytes
    }
}

impl PackedPod {
    fn suffix(&self) -> Piece {
        Piece {
            start: self.suffix,
            length: self.suffix_length,
        }
    }

    fn phase(&self) -> Phase {
        Phase::of_number(self.phase_and_prefix & 0xf)
    }
}

fn number_of(at: usize) -> u8 {
    u8::try_from(at).expect("a block has at most 256 pods")
}
