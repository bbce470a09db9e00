//! An audit reads a whole log that is out of reach now and then, and gives up if the log stays out
//! of reach.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use evenkeel::log::Error;
use evenkeel::log::audit::audit;
use prost::bytes::Bytes;
use support::fake_log::{Call, FakeLog, Fate, Faults};

const NAME: &str = "default";

/// Lets one call in so many through.
struct OneIn(u32, AtomicU32);

impl OneIn {
    fn new(calls: u32) -> Arc<Self> {
        Arc::new(Self(calls, AtomicU32::new(1)))
    }
}

impl Faults for OneIn {
    fn fate(&self, _: Call) -> Fate {
        let number = self.1.fetch_add(1, Ordering::Relaxed);
        match number.is_multiple_of(self.0) {
            true => Fate::Done,
            false => Fate::Unreachable,
        }
    }
}

#[tokio::test]
async fn a_log_is_read_whole_although_it_cannot_be_reached_now_and_then() {
    let log = FakeLog::default();
    for bytes in ["what", "is", "this"] {
        log.intrude(NAME, Bytes::from_static(bytes.as_bytes()));
    }
    let expected = audit(&log, NAME).await.expect("it can be read");
    assert_eq!((expected.bounds.last, expected.faulty), (3, 3));
    let faulty = log.seen_with(OneIn::new(3));
    assert_eq!(audit(&faulty, NAME).await, Ok(expected));
}

#[tokio::test]
async fn a_log_that_stays_out_of_reach_is_not_waited_for_for_ever() {
    let gone = FakeLog::default().seen_with(OneIn::new(u32::MAX));
    let refused = audit(&gone, NAME).await;
    assert!(matches!(refused, Err(Error::Unreachable(_))), "{refused:?}");
}
