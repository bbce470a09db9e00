//! Many runs, each with a seed of its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use support::linearizable;

use crate::simulation::schedule::Actor;
use crate::simulation::server;
use crate::simulation::world::World;

/// The number of seeds that are tried, unless `SEEDS` says otherwise.
const SEEDS: u64 = 1_000;

/// The number of servers.
const SERVERS: usize = 3;

/// The most steps of a run. A run that takes more is stuck.
const STEPS: usize = 100_000;

/// Runs the servers of a seed until all have ended.
fn run(seed: u64) {
    fastrand::seed(seed);
    let world = World::of(seed);
    let mut actors: Vec<Actor> = (0..SERVERS)
        .map(|number| {
            let world = world.clone();
            Actor::begin(move || server::run(number, &world))
        })
        .collect();
    let mut left: Vec<usize> = (0..SERVERS).collect();
    for _ in 0..STEPS {
        if world.finished.load(Ordering::Relaxed) == SERVERS {
            // Messages that are still on their way are lost.
            world.calm.store(true, Ordering::Relaxed);
            world.log_ahead.store(0, Ordering::Relaxed);
        }
        if left.is_empty() {
            let faults = linearizable::faults(&world.ledger().history, None);
            if let Some(fault) = faults.first() {
                world.fail(fault);
            }
            return;
        }
        let next = world.dice.below(left.len());
        if actors[left[next]].step() {
            left.remove(next);
        }
    }
    for actor in &mut actors {
        actor.stop();
    }
    world.fail("it never ends");
}

/// The number in a variable, if it is set.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("it is a number"))
}

#[test]
fn no_fault_breaks_a_promise() {
    if let Some(seed) = number("SEED") {
        return run(seed);
    }
    let seeds = number("SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(number("FIRST_SEED").unwrap_or(0));
    let end = next.load(Ordering::Relaxed) + seeds;
    let workers = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    run(seed);
                }
            });
        }
    });
}
