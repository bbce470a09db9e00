//! Compiled questions about pods that were asked about before, by the encoding of the pod:
//! orchestrators ask about the pods of one workload again and again. A question that is asked again
//! is not decoded, checked and compiled again.
//!
//! A compiled question depends only on these bytes, the dialect and the limits of the process. The
//! default constraints that hold for a pod depend on more, and check that themselves
//! ([`crate::spread::Question::constraints_on`]).

use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hashbrown::DefaultHashBuilder;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{Equivalent, OptionsBuilder, Weighter};

use super::dialect::Dialect;
use super::pod_request::Outline;
use crate::account::{Account, Purpose};

/// The number of places for hashes of questions that were asked once.
const PLACES: usize = 1_024;

/// The bytes that a question takes beside those of its pod.
const ENTRY_BYTES: usize = 1_024;

/// The times by which a compiled pod is larger than its encoding, which is kept as well.
const TIMES_ENCODED: usize = 4;

/// Returns the approximate bytes of a question whose pod has this many.
fn weight(pod: usize) -> usize {
    ENTRY_BYTES.saturating_add(pod.saturating_mul(TIMES_ENCODED))
}

/// The approximate bytes of most kept questions.
const USUAL_BYTES: usize = 4 << 10;

/// A pod that was checked and compiled by a dialect, shared by all requests about it.
#[derive(Debug)]
pub struct CompiledQuestion {
    dialect: Box<dyn Dialect>,
}

impl CompiledQuestion {
    /// A question that is not kept.
    pub fn of(dialect: Box<dyn Dialect>) -> Arc<Self> {
        Arc::new(Self { dialect })
    }
}

impl Deref for CompiledQuestion {
    type Target = dyn Dialect;

    fn deref(&self) -> &Self::Target {
        &*self.dialect
    }
}

/// The key by which a question is found. The bytes are compared, so two pods may share a hash.
#[derive(Debug, PartialEq, Eq, Hash)]
struct QuestionKey {
    dialect: i32,
    pod: Box<[u8]>,
}

/// Hashed like the [`QuestionKey`] that it finds.
impl Hash for Outline<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.dialect.hash(state);
        self.pod.hash(state);
    }
}

impl Equivalent<QuestionKey> for Outline<'_> {
    fn equivalent(&self, key: &QuestionKey) -> bool {
        self.dialect == key.dialect && *self.pod == *key.pod
    }
}

/// The questions that are kept, whichever snapshot they are about.
pub struct KeptQuestions {
    cache: Cache<QuestionKey, Arc<CompiledQuestion>, ByBytes, DefaultHashBuilder>,
    /// Hashes of questions that came once. Only a question that comes twice is kept, so a stream of
    /// questions that never come again costs next to nothing.
    recent: Box<[AtomicU32]>,
    /// The seed is random, so that clients cannot choose questions that displace those of other
    /// clients.
    seed: DefaultHashBuilder,
    account: Arc<Account>,
    most: usize,
}

/// Weighs questions by their bytes.
#[derive(Clone)]
struct ByBytes;

impl Weighter<QuestionKey, Arc<CompiledQuestion>> for ByBytes {
    fn weight(&self, key: &QuestionKey, _: &Arc<CompiledQuestion>) -> u64 {
        weight(key.pod.len()) as u64
    }
}

impl KeptQuestions {
    /// An empty cache of at most `most` bytes.
    pub fn new(account: &Arc<Account>, most: usize) -> Self {
        let seed = DefaultHashBuilder::default();
        let options = OptionsBuilder::new()
            .estimated_items_capacity((most / USUAL_BYTES).max(1))
            .weight_capacity(most as u64)
            .build()
            .expect("both sizes are given");
        Self {
            cache: Cache::with_options(options, ByBytes, seed.clone(), DefaultLifecycle::default()),
            recent: (0..PLACES).map(|_| AtomicU32::new(0)).collect(),
            seed,
            account: Arc::clone(account),
            most,
        }
    }

    /// The question with this outline, if it is kept.
    pub fn find(&self, outline: Outline<'_>) -> Option<Arc<CompiledQuestion>> {
        self.cache.get(&outline)
    }

    /// Keeps a question with this outline, if it was asked before and there is memory for it.
    pub fn offer(&self, outline: Outline<'_>, question: &Arc<CompiledQuestion>) {
        if !self.was_asked(outline) {
            return;
        }
        if weight(outline.pod.len()) > self.most || !self.account.has_room(Purpose::Cache, 0) {
            return;
        }
        let key = QuestionKey {
            dialect: outline.dialect,
            pod: outline.pod.into(),
        };
        self.cache.insert(key, Arc::clone(question));
    }

    /// Remembers a question. Returns whether it was asked before.
    fn was_asked(&self, outline: Outline<'_>) -> bool {
        let hash = self.seed.hash_one(outline);
        let (place, mark) = (hash as usize % PLACES, (hash >> 32) as u32 | 1);
        self.recent[place].swap(mark, Ordering::Relaxed) == mark
    }
}
