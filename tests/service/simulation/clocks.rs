//! The clocks of a server, which may start wrong, be set wrong, and run fast or slow.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use evenkeel::snapshot::Now;

use crate::simulation::world::World;

/// The offsets of a wall clock that is set wrong, in milliseconds.
const OFF: [i64; 6] = [-3_600_000, -400, 300, 60_000, 3_600_000, 7_200_000];

/// The speeds of clocks, in thousandths.
const RATES: [u64; 5] = [500, 990, 1_010, 1_500, 10_000];

/// The clocks of a server.
pub struct Clocks {
    world: Arc<World>,
    last: Mutex<Reading>,
}

/// The times that the clocks told when they were last set, and their speed.
struct Reading {
    real: SystemTime,
    wall: SystemTime,
    steady: SystemTime,
    rate: u64,
}

impl Clocks {
    /// The clocks of a server that begins, which are wrong now and then.
    pub fn new(world: &Arc<World>) -> Self {
        let real = world.now();
        let clocks = Self {
            world: Arc::clone(world),
            last: Mutex::new(Reading {
                real,
                wall: real,
                steady: real,
                rate: 1_000,
            }),
        };
        if !world.is_calm() && world.dice.happens(100) {
            clocks.jump();
        }
        clocks
    }

    pub fn now(&self) -> Now {
        let last = self.last.lock().expect("nobody panics here");
        let (wall, steady) = last.at(self.world.now());
        Now {
            wall,
            steady: Now::from(steady).steady,
        }
    }

    /// Sets the wall clock right or wrong, or changes the speed of both clocks. Returns what was
    /// done.
    pub fn jump(&self) -> String {
        let dice = &self.world.dice;
        match dice.below(4) {
            0 => {
                let off = OFF[dice.below(OFF.len())];
                self.set(Some(off), None);
                format!("off by {off} ms")
            }
            1 => {
                let rate = RATES[dice.below(RATES.len())];
                self.set(None, Some(rate));
                format!("at {rate}/1000")
            }
            _ => {
                self.set_right();
                "right".to_owned()
            }
        }
    }

    /// Sets the wall clock right, and both clocks to the right speed.
    pub fn set_right(&self) {
        self.set(Some(0), Some(1_000));
    }

    /// Sets the offset of the wall clock in milliseconds and the speed of both clocks, where they
    /// are given.
    pub fn set(&self, off: Option<i64>, rate: Option<u64>) {
        let mut last = self.last.lock().expect("nobody panics here");
        let real = self.world.now();
        let (wall, steady) = last.at(real);
        let set = |off: i64| match Duration::from_millis(off.unsigned_abs()) {
            by if off < 0 => real - by,
            by => real + by,
        };
        *last = Reading {
            real,
            wall: off.map_or(wall, set),
            steady,
            rate: rate.unwrap_or(last.rate),
        };
    }
}

impl Reading {
    /// The wall clock and the monotonic one at a moment.
    fn at(&self, real: SystemTime) -> (SystemTime, SystemTime) {
        let passed = real.duration_since(self.real).expect("time goes on");
        let nanos = u64::try_from(passed.as_nanos()).expect("runs are short");
        let passed = Duration::from_nanos(nanos / 1_000 * self.rate + nanos % 1_000);
        (self.wall + passed, self.steady + passed)
    }
}
