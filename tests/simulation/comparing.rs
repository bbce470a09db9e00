//! Servers whose states differ, and that notice it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use evenkeel::log::Log;
use evenkeel::log::fake::{Call, FakeLog, Fate, Faults};
use evenkeel::snapshot::Now;
use tokio::runtime::Runtime;

use crate::alone::{Alone, offer};
use crate::world::{NAME, digest};

/// The fates of the first message that a server asks for once this is set, and of all later ones.
struct Reads {
    is_set: AtomicBool,
    has_read: AtomicBool,
    first: Fate,
    later: Fate,
}

impl Reads {
    fn of(first: Fate, later: Fate) -> Arc<Self> {
        Arc::new(Self {
            is_set: AtomicBool::new(false),
            has_read: AtomicBool::new(false),
            first,
            later,
        })
    }

    fn set(&self, is_set: bool) {
        self.is_set.store(is_set, Ordering::Relaxed);
    }
}

impl Faults for Reads {
    fn fate(&self, call: Call) -> Fate {
        if call != Call::Next || !self.is_set.load(Ordering::Relaxed) {
            return Fate::Done;
        }
        match self.has_read.swap(true, Ordering::Relaxed) {
            false => self.first,
            true => self.later,
        }
    }
}

fn differences(server: &Alone) -> u64 {
    let counts = server.replica.counts();
    counts.differences.load(Ordering::Relaxed)
}

#[test]
fn a_server_that_holds_something_else_than_the_others_reads_it_anew() {
    for is_deceived in [false, true] {
        let runtime = Runtime::new().expect("a runtime");
        let seconds = Arc::new(AtomicU64::new(1_000_000_000));
        let clock = {
            let seconds = Arc::clone(&seconds);
            move || UNIX_EPOCH + Duration::from_secs(seconds.load(Ordering::Relaxed))
        };
        let log = FakeLog::with_clock(clock.clone());
        let late = Reads::of(Fate::NotYet, Fate::Done);
        // This server reads a refused record in the place of the one that was appended, and then
        // nothing more.
        let deceived = Reads::of(Fate::Forged, Fate::NotYet);
        let seen_late = log.seen_with(Arc::clone(&late) as _);
        let seen = log.seen_with(Arc::clone(&deceived) as _);
        let servers = [(&log, "a"), (&seen_late, "b"), (&seen, "c")].map(|(log, name)| {
            let clock = clock.clone();
            Alone::at(log, name, &runtime, move || Now::from(clock()))
        });
        let put = |server: &Alone, number| {
            let update = server.registry.update(NAME, offer(number, None));
            update.expect("it is applied");
        };
        put(&servers[0], 0);
        servers.iter().for_each(Alone::read);
        seconds.fetch_add(1_000, Ordering::Relaxed);
        deceived.set(is_deceived);
        put(&servers[0], 1);
        late.set(true);
        // This server is behind, so its first append is refused.
        put(&servers[1], 2);
        let followed = servers[2].replica.follow(NAME, false);
        followed.expect("it can be read");
        for _ in 0..5 {
            for server in &servers {
                assert_eq!(differences(server), 0, "who is right is not known yet");
                server.replica.copy_for_comparing(NAME);
                server.replica.compare_all();
            }
        }
        let told = runtime.block_on(log.keys().list("digest/"));
        let told = told.expect("it is there").pop().expect("there is one");
        assert!(told.1.len() > 3 * 32, "all have said what they held");
        for (server, other) in servers.iter().zip(["a", "b", "c"]) {
            let is_wrong = is_deceived && other == "c";
            assert_eq!(differences(server) > 0, is_deceived, "{other}");
            assert_eq!(server.snapshot().is_synced(), !is_wrong, "{other}");
            let trouble = server.replica.lags()[0].trouble.clone();
            assert_eq!(trouble.is_some(), is_wrong, "{other}: {trouble:?}");
        }
        deceived.set(false);
        servers.iter().for_each(Alone::follow);
        let held = servers.each_ref().map(|server| digest(&server.snapshot()));
        assert!(held[0] == held[1] && held[1] == held[2], "{held:?}");
        assert!(servers[2].snapshot().is_synced());
    }
}
