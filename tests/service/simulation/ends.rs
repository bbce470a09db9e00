//! No wrong clock ends a reservation or refuses a change, and reservations end on time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel::log::Log;
use evenkeel::snapshot::Retryable;

use crate::simulation::alone::{Alone, runtime};
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
    world: Arc<World>,
}

impl Fleet {
    fn new() -> Self {
        let world = World::of(0);
        world.calm.store(true, Ordering::Relaxed);
        Self { world }
    }

    fn start(&self, name: &str) -> (Alone, Arc<Clocks>) {
        let clocks = Arc::new(Clocks::new(&self.world));
        let now = Arc::clone(&clocks);
        let server = Alone::at(&self.world.log, name, move || now.now());
        (server, clocks)
    }

    /// A server that holds a reservation.
    fn holding(&self) -> Alone {
        let (server, _) = self.start("right");
        server.put(0);
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
    let ended = server.registry.end_expired();
    ended.expect("it is recorded");
    server.snapshot().reservations(0, "", 9).len()
}

#[test]
fn no_wrong_wall_clock_refuses_a_change_or_moves_an_end() {
    for off in [7_200_000, -3_600_000, 2_000] {
        let fleet = Fleet::new();
        let right = fleet.holding();
        let (wrong, clocks) = fleet.start("wrong");
        clocks.set(off);
        wrong.follow();
        for number in 1..3 {
            fleet.pass(1_000);
            assert_eq!((held(&wrong), held(&right)), (1, 1), "{off}");
            wrong.put(number);
            let again = reserve(&wrong, Some(REQUEST));
            assert!(again.expect("it is answered"), "it was placed before");
            assert_eq!(wrong.replica.lags()[0].trouble, None);
        }
        // A server that begins with a wrong clock knows how much time is over.
        let (late, clocks) = fleet.start("late");
        clocks.set(-off);
        late.follow();
        fleet.pass(TTL - 2_001);
        for server in [&right, &wrong, &late] {
            assert_eq!(held(server), 1, "{off}: too early");
        }
        fleet.pass(4);
        assert_eq!(held(&late), 0, "{off}: its time is over");
        assert_eq!((held(&wrong), held(&right)), (0, 0));
    }
}

/// The nats-servers that lead the log in turn differ by two seconds, and by hours from all others.
#[test]
fn no_wrong_clock_of_a_nats_server_refuses_a_change_or_moves_an_end() {
    const SECOND: u64 = 1_000;
    for (begun, later) in [(7_200, 7_200), (0, 2), (2, 0)] {
        let fleet = Fleet::new();
        let ahead = |seconds: u64| {
            let log_ahead = &fleet.world.log_ahead;
            log_ahead.store(seconds * SECOND, Ordering::Relaxed);
        };
        ahead(begun);
        let mut servers = vec![fleet.holding()];
        for number in 0..3 {
            ahead(if number % 2 == 0 { later } else { begun });
            fleet.pass(TTL / 4);
            let (server, _) = fleet.start(&format!("s{number}"));
            server.follow();
            server.put(number);
            servers.push(server);
        }
        fleet.pass(TTL / 4 - 1);
        for server in &servers {
            assert_eq!(held(server), 1, "{begun} {later}: too early");
        }
        // Each of them alone ends it by then.
        let last = servers.pop().expect("it began");
        fleet.pass(6);
        assert_eq!(held(&last), 0, "{begun} {later}: its time is over");
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
                let log = &fleet.world.log;
                let last = runtime()
                    .block_on(log.bounds(NAME))
                    .expect("it is there")
                    .last;
                runtime()
                    .block_on(log.trim(NAME, last))
                    .expect("it is there");
            }
            fleet.pass(TTL / 4 - 10);
            (server, _) = fleet.start(&format!("s{number}"));
            server.follow();
            assert_eq!(held(&server), 1, "too early");
        }
        // Each restart from a checkpoint may lose what the clocks of nats-servers may differ by.
        fleet.pass(50);
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
