//! Map keys whose copies share one value. The value is hashed only once, because it may be large.

use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use hashbrown::DefaultHashBuilder;

/// The seed is random, so clients cannot choose values with the same hash.
static SEED: LazyLock<DefaultHashBuilder> = LazyLock::new(DefaultHashBuilder::default);

/// A value and its hash. Copies share both.
#[derive(Debug, Clone)]
pub(super) struct Keyed<T>(Arc<(u64, T)>);

impl<T: Hash> Keyed<T> {
    /// Hashes a value that copies will share.
    pub(super) fn of(value: T) -> Self {
        Self(Arc::new((SEED.hash_one(&value), value)))
    }
}

impl<T: Hash + Default> Default for Keyed<T> {
    fn default() -> Self {
        Self::of(T::default())
    }
}

impl<T> Deref for Keyed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.1
    }
}

impl<T: PartialEq> PartialEq for Keyed<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.0 == other.0.0 && self.0.1 == other.0.1
    }
}

impl<T: Eq> Eq for Keyed<T> {}

impl<T> Hash for Keyed<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.0);
    }
}
