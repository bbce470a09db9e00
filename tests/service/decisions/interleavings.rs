//! Random changes in any order: every answer is the oracle's recount of the objects that are left.

use proptest::prelude::*;
use support::history::{cases, history, live_through};
use support::server::Server;

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn answers_are_recounts_after_any_history(steps in history()) {
        let (runtime, server) = Server::shared();
        runtime.block_on(live_through(server, steps));
    }
}
