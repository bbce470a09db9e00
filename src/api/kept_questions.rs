//! Compiled questions about pods that were asked about before, by the encoding
//! of the pod: orchestrators ask about the pods of one workload again and again.
//! A question that is asked again is not decoded, checked and compiled again.
//!
//! What was compiled depends on nothing but these bytes, the dialect and the
//! limits of the process. The default constraints that hold for a pod depend on
//! more, and say so themselves ([`crate::spread::Question::constraints_on`]).

use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use hashbrown::DefaultHashBuilder;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{Equivalent, OptionsBuilder, Weighter};

use super::asked::Outline;
use super::dialect::Dialect;
use crate::account::{Account, Charge, Part, heap};

/// How many questions are remembered as asked once, each as a hash in a place of
/// its own.
const PLACES: usize = 1_024;

/// What a question takes in the tables of the cache.
const ENTRY_BYTES: usize = 128;

/// What most kept questions take, roughly.
const USUAL_BYTES: usize = 4 << 10;

/// A pod that was checked and compiled by a dialect, to be asked by many.
#[derive(Debug)]
pub struct CompiledQuestion {
    dialect: Box<dyn Dialect>,
    /// What it takes, while it is kept.
    charge: OnceLock<Charge>,
}

impl CompiledQuestion {
    /// A question that is not kept.
    pub fn of(dialect: Box<dyn Dialect>) -> Arc<Self> {
        Arc::new(Self {
            dialect,
            charge: OnceLock::new(),
        })
    }
}

impl Deref for CompiledQuestion {
    type Target = dyn Dialect;

    fn deref(&self) -> &Self::Target {
        &*self.dialect
    }
}

/// What a question is found by. The bytes are compared, so a hash that two pods
/// share confuses nobody.
#[derive(Debug, PartialEq, Eq, Hash)]
struct QuestionKey {
    dialect: i32,
    pod: Box<[u8]>,
}

/// Hashed like the [`QuestionKey`] that it looks for.
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

/// The questions that are kept with one snapshot.
pub struct KeptQuestions {
    cache: Cache<QuestionKey, Arc<CompiledQuestion>, ByBytes, DefaultHashBuilder>,
    /// Questions that came once. Only what comes twice is kept, so that
    /// a stream of questions that never come again costs next to nothing.
    recent: Box<[AtomicU32]>,
    /// Seeded, so that clients cannot choose questions that take the places of
    /// others.
    seed: DefaultHashBuilder,
    account: Arc<Account>,
    most: usize,
}

/// Weighs questions by what they take.
#[derive(Clone)]
struct ByBytes;

impl Weighter<QuestionKey, Arc<CompiledQuestion>> for ByBytes {
    fn weight(&self, _: &QuestionKey, question: &Arc<CompiledQuestion>) -> u64 {
        question.charge.get().map_or(0, Charge::bytes) as u64
    }
}

impl KeptQuestions {
    /// None yet, of at most `most` bytes.
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

    /// Keeps a question with this outline, if it was asked before and there is
    /// memory for it.
    pub fn offer(&self, outline: Outline<'_>, question: &Arc<CompiledQuestion>) {
        if !self.was_asked(outline) {
            return;
        }
        let bytes = ENTRY_BYTES
            .saturating_add(heap::block(outline.pod.len()))
            .saturating_add(heap::shared(size_of::<CompiledQuestion>()))
            .saturating_add(question.memory_bytes());
        if bytes > self.most {
            return;
        }
        let Ok(charge) = self.account.charge(Part::Views, bytes) else {
            return;
        };
        // Nobody else keeps a question that was just compiled.
        let _ = question.charge.set(charge);
        let key = QuestionKey {
            dialect: outline.dialect,
            pod: outline.pod.into(),
        };
        self.cache.insert(key, Arc::clone(question));
    }

    /// Notes a question. Returns whether it was asked before.
    fn was_asked(&self, outline: Outline<'_>) -> bool {
        let hash = self.seed.hash_one(outline);
        let (place, mark) = (hash as usize % PLACES, (hash >> 32) as u32 | 1);
        self.recent[place].swap(mark, Ordering::Relaxed) == mark
    }
}
