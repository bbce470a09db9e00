//! The clocks of a server: its wall clock may start wrong, and be set wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use evenkeel::snapshot::Now;

use crate::simulation::world::World;

/// The offsets of a wall clock that is set wrong, in milliseconds.
const OFF: [i64; 6] = [-3_600_000, -400, 300, 60_000, 3_600_000, 7_200_000];

/// The clocks of a server.
pub struct Clocks {
    world: Arc<World>,
    /// The milliseconds by which the wall clock is ahead.
    ahead: AtomicI64,
}

impl Clocks {
    /// The clocks of a server that begins, whose wall clock is wrong now and then.
    pub fn new(world: &Arc<World>) -> Self {
        let clocks = Self {
            world: Arc::clone(world),
            ahead: AtomicI64::new(0),
        };
        if !world.is_calm() && world.dice.happens(100) {
            clocks.jump();
        }
        clocks
    }

    pub fn now(&self) -> Now {
        let real = self.world.now();
        let ahead = self.ahead.load(Ordering::Relaxed);
        let by = Duration::from_millis(ahead.unsigned_abs());
        Now {
            wall: if ahead < 0 { real - by } else { real + by },
            steady: Now::from(real).steady,
        }
    }

    /// Sets the wall clock right or wrong. Returns the milliseconds by which it is ahead.
    pub fn jump(&self) -> i64 {
        let dice = &self.world.dice;
        let ahead = match dice.happens(500) {
            true => OFF[dice.below(OFF.len())],
            false => 0,
        };
        self.set(ahead);
        ahead
    }

    /// Sets the milliseconds by which the wall clock is ahead.
    pub fn set(&self, ahead: i64) {
        self.ahead.store(ahead, Ordering::Relaxed);
    }
}
