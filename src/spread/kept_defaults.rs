//! The default constraints that were in force for a question when it was last
//! asked, with the selector that was deduced for them. They hold for as long as
//! the defaults and owners that they were deduced from.

use std::sync::Arc;

use parking_lot::Mutex;

use super::active::Constraints;
use crate::snapshot::{DeducedFrom, ReadView};

/// Constraints and what they were deduced from. A copy keeps nothing yet.
#[derive(Debug, Default)]
pub struct KeptDefaults(Mutex<Option<(DeducedFrom, Arc<Constraints>)>>);

impl Clone for KeptDefaults {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl KeptDefaults {
    /// What is kept takes no more than this. Larger constraints are made anew each
    /// time.
    pub const MAX_BYTES: usize = 8 << 10;

    /// The constraints in force on a read view; `make` makes them if those that are
    /// kept do not hold there.
    pub fn on(
        &self,
        read_view: &ReadView<'_>,
        make: impl FnOnce() -> Constraints,
    ) -> Arc<Constraints> {
        if let Some((from, kept)) = &*self.0.lock()
            && from.holds_on(read_view)
        {
            return Arc::clone(kept);
        }
        let made = Arc::new(make());
        if made.memory_bytes() <= Self::MAX_BYTES {
            let old = self
                .0
                .lock()
                .replace((read_view.deduced_from(), Arc::clone(&made)));
            drop(old);
        }
        made
    }
}
