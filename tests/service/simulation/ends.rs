//! No wrong clock ends a reservation, and the other clocks end it on time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel::log::Log;
use evenkeel::snapshot::{Error, JournalError, Retryable};
use tokio::runtime::Runtime;

use crate::simulation::alone::{Alone, offer};
use crate::simulation::clocks::Clocks;
use crate::simulation::unclaimed::reserve;
use crate::simulation::world::{NAME, World};

/// The time that [`reserve`] holds a place, in seconds.
const TTL: u64 = 3_600;

const REQUEST: Retryable = Retryable {
    key: [1; 32],
    question: [0; 32],
};

/// Servers in one world where nothing else goes wrong.
struct Fleet {
    runtime: Runtime,
    world: Arc<World>,
}

impl Fleet {
    fn new() -> Self {
        let world = World::of(0);
        world.calm.store(true, Ordering::Relaxed);
        let runtime = Runtime::new().expect("a runtime");
        Self { runtime, world }
    }

    fn start(&self, name: &str) -> (Alone, Arc<Clocks>) {
        let clocks = Arc::new(Clocks::new(&self.world));
        let now = Arc::clone(&clocks);
        let server = Alone::at(&self.world.log, name, &self.runtime, move || now.now());
        (server, clocks)
    }

    /// A server that holds a reservation.
    fn holding(&self) -> Alone {
        let (server, _) = self.start("right");
        let begun = server.registry.update(NAME, offer(0, None));
        begun.expect("it is applied");
        let repeated = reserve(&server, Some(REQUEST));
        assert!(!repeated.expect("nobody is in the way"));
        server
    }

    fn pass(&self, seconds: u64) {
        self.world.pass_time(Duration::from_secs(seconds));
    }
}

/// Ends the reservations whose time is over, and returns the number of the others.
fn held(server: &Alone) -> usize {
    server.read();
    // A server whose clock is wrong may not end any.
    let _ = server.registry.end_expired();
    server.snapshot().reservations(0, "", 9).len()
}

#[test]
fn a_wrong_clock_ends_nothing_and_appends_nothing() {
    for (off, rate) in [
        (Some(7_200_000), None),
        (Some(-3_600_000), None),
        (None, Some(10_000)),
    ] {
        for starts_so in [true, false] {
            let fleet = Fleet::new();
            let right = fleet.holding();
            let (wrong, clocks) = fleet.start("wrong");
            if starts_so {
                clocks.set(off, rate);
            }
            wrong.read();
            clocks.set(off, rate);
            for _ in 0..2 {
                fleet.pass(1_000);
                assert_eq!(held(&wrong), 1, "{off:?} {rate:?}");
                let refused = wrong.registry.update(NAME, offer(1, None));
                let refused = refused.expect_err("its clock is wrong");
                let is_told = matches!(&refused, Error::NotStored(JournalError::WrongClock(_)));
                assert!(is_told, "{refused:?}");
                let trouble = wrong.replica.lags()[0].trouble.clone();
                assert!(trouble.is_some_and(|why| why.contains("clock")));
                let again = reserve(&wrong, Some(REQUEST));
                assert_ne!(again.ok(), Some(false), "it was placed before");
                assert_eq!(held(&right), 1);
            }
            clocks.set_right();
            assert_eq!(held(&wrong), 1, "what it measured is wrong");
            let updated = wrong.registry.update(NAME, offer(2, None));
            updated.expect("its clock is right");
            assert_eq!(wrong.replica.lags()[0].trouble, None);
            fleet.pass(TTL - 2_001);
            assert_eq!(held(&right), 1, "too early");
            fleet.pass(3);
            assert_eq!(held(&right), 0, "its time is over");
            assert_eq!(held(&wrong), 0);
        }
    }
}

/// Servers restart in turn, each before it has held the reservation for its whole time. The next
/// server begins with the records, or with a checkpoint.
#[test]
fn a_reservation_ends_on_time_although_servers_restart_in_turn() {
    for keeps in [false, true] {
        let fleet = Fleet::new();
        let mut server = fleet.holding();
        for number in 0..4 {
            if keeps {
                server.replica.checkpoint(NAME).expect("it is written");
                let (runtime, log) = (&fleet.runtime, &fleet.world.log);
                let last = runtime
                    .block_on(log.bounds(NAME))
                    .expect("it is there")
                    .last;
                runtime.block_on(log.trim(NAME, last)).expect("it is there");
            }
            fleet.pass(TTL / 4 - 10);
            (server, _) = fleet.start(&format!("s{number}"));
            server.follow();
            assert_eq!(held(&server), 1, "too early");
        }
        // Each restart from a checkpoint may lose what the clocks of nats-servers may differ by.
        fleet.pass(60);
        assert_eq!(held(&server), 0, "keeps {keeps}: its time is over");
    }
}

#[test]
fn what_a_server_renews_that_knows_it_for_a_short_time_is_held_for_so_long() {
    let fleet = Fleet::new();
    let first = fleet.holding();
    fleet.pass(3_000);
    let (second, _) = fleet.start("second");
    second.follow();
    let id = second.snapshot().reservations(0, "", 1)[0].id.clone();
    let ttl = Some(Duration::from_secs(1_000));
    let renewed = second.snapshot().renew(vec![id], ttl);
    assert!(renewed.expect("it is held").unknown.is_empty());
    fleet.pass(999);
    assert_eq!((held(&first), held(&second)), (1, 1));
}
