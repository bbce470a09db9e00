//! Random changes in any order: every answer is the oracle's recount of the objects that are left,
//! whether views stay, go, or are never kept for want of memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use evenkeel::account::Account;
use evenkeel::snapshot::{Limits, Registry, Unobserved};
use proptest::prelude::*;
use support::history::{cases, history, live_through};
use support::server::Server;
use tokio::runtime::Runtime;

/// The bytes that the allocator says are in use, of 1 GiB, each time that it is asked: none, so many
/// that nothing is cached, and so many now and then.
const IN_USE: [fn(usize) -> usize; 3] = [|_| 0, |_| 900 << 20, |times| times % 3 * (450 << 20)];

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn answers_are_recounts_after_any_history(steps in history(), of in 0..IN_USE.len()) {
        let (runtime, servers) = shared();
        runtime.block_on(live_through(&servers[of], steps));
    }
}

/// A server for each figure of `IN_USE`.
fn shared() -> &'static (Runtime, Vec<Server>) {
    static SHARED: OnceLock<(Runtime, Vec<Server>)> = OnceLock::new();
    SHARED.get_or_init(|| {
        let runtime = Runtime::new().expect("a runtime");
        let servers = IN_USE.map(|in_use| {
            let registry = Registry::new(Limits::default(), Arc::new(Unobserved));
            let times = AtomicUsize::new(0);
            let account = Account::measured(1 << 30, move |_| {
                in_use(times.fetch_add(1, Ordering::Relaxed))
            });
            runtime.block_on(Server::with_registry(registry.with_account(account)))
        });
        (runtime, servers.into())
    })
}
