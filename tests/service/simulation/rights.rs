//! Changes by a server that loses the right to make them.

use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel::snapshot::{Error, Fence};
use support::fake_log::FakeLog;

use crate::simulation::alone::{Alone, offer};
use crate::simulation::world::NAME;

/// A feed loses its right after its change was checked, and another server feeds before that change
/// is appended.
#[test]
fn what_a_former_feeder_wanted_never_comes_after_what_the_next_one_did() {
    let log = FakeLog::default();
    let former = Alone::on(&log, "former");
    let next = Alone::on(&log, "next");
    former.put(0);
    let asked = AtomicU64::new(0);
    let fence = Fence::new(move || match asked.fetch_add(1, Ordering::Relaxed) {
        // This question comes when the change is wanted.
        0 => Some(1),
        // This question comes when the change is first checked.
        1 => {
            next.put(1);
            Some(1)
        }
        _ => None,
    });
    let wanted = former.registry.update(NAME, offer(2, Some(fence.of_now())));
    assert!(matches!(wanted, Err(Error::Superseded(_))), "{wanted:?}");
    assert_eq!(former.snapshot().revision(), 2);
    // A change that was wanted in one tenure is not made in a later one.
    let tenure = AtomicU64::new(0);
    let fence = Fence::new(move || Some(tenure.fetch_add(1, Ordering::Relaxed)));
    let wanted = former.registry.update(NAME, offer(2, Some(fence.of_now())));
    assert!(matches!(wanted, Err(Error::Superseded(_))), "{wanted:?}");
}
