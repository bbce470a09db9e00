//! What is asked of a log that does not acknowledge anything any more.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel::log::fake::{Call, FakeLog, Fate, Faults};
use evenkeel::snapshot::{Error, JournalError};
use event_listener::EventListener;
use tokio::runtime::Runtime;

use crate::alone::{Alone, offer};
use crate::world::NAME;

/// A log of three servers. When two are away, the third one goes on leading: it answers
/// what it has, and acknowledges nothing.
#[derive(Default)]
struct Leader {
    is_alone: AtomicBool,
    appends: AtomicUsize,
}

impl Faults for Leader {
    fn fate(&self, call: Call) -> Fate {
        if call != Call::Append {
            return Fate::Done;
        }
        self.appends.fetch_add(1, Ordering::Relaxed);
        match self.is_alone.load(Ordering::Relaxed) {
            true => Fate::Lost,
            false => Fate::Done,
        }
    }

    fn keepers(&self) -> usize {
        match self.is_alone.load(Ordering::Relaxed) {
            true => 1,
            false => 3,
        }
    }

    fn wait<'a>(
        &'a self,
        _: EventListener,
        _: Duration,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async {})
    }
}

#[test]
fn changes_are_refused_at_once_while_one_server_leads_alone() {
    let (runtime, leader) = (Runtime::new().expect("a runtime"), Arc::<Leader>::default());
    let log = FakeLog::default().seen_with(Arc::clone(&leader) as _);
    let server = Alone::on(&log, "a", &runtime);
    let update = |number| server.registry.update(NAME, offer(number, None));
    update(0).expect("all are there");

    leader.is_alone.store(true, Ordering::Relaxed);
    let doubted = update(1).expect_err("nothing is acknowledged");
    let is_doubt = matches!(doubted, Error::NotStored(JournalError::UnknownFate(_)));
    assert!(is_doubt, "it was sent: {doubted:?}");
    let sent = leader.appends.load(Ordering::Relaxed);
    for number in 2..5 {
        let refused = update(number).expect_err("nothing is acknowledged");
        let is_known = matches!(refused, Error::NotStored(JournalError::Unreachable(_)));
        assert!(is_known, "nothing was sent: {refused:?}");
    }
    assert_eq!(leader.appends.load(Ordering::Relaxed), sent);

    leader.is_alone.store(false, Ordering::Relaxed);
    update(5).expect("all are there again");
}
