//! A log that is deleted by somebody other than the servers.

use std::time::Duration;

use evenkeel::log::{Log, Message};
use evenkeel::snapshot::{Error, JournalError};
use support::fake_log::FakeLog;

use crate::simulation::alone::{Alone, offer, runtime};
use crate::simulation::world::NAME;

/// Two servers that have read all of a log before it was deleted, and the messages that it held.
fn bereft(log: &FakeLog) -> ([Alone; 2], Vec<Message>) {
    let servers = ["a", "b"].map(|name| Alone::on(log, name));
    for number in 0..3 {
        servers[0].put(number);
    }
    servers[1].follow();
    let held = log.messages(NAME);
    let last = held.last().expect("there are three");
    let removed = runtime().block_on(log.remove_if(NAME, last));
    removed.expect("it is there");
    (servers, held)
}

/// Returns the reason why a server does not follow.
fn trouble(server: &Alone) -> Option<String> {
    server.replica.lags().pop().expect("it has a log").trouble
}

#[test]
fn a_log_that_is_gone_is_noticed_and_what_was_read_of_it_answers() {
    let log = FakeLog::default();
    for server in bereft(&log).0 {
        let names = server.replica.discover().expect("the log is there");
        assert_eq!(names, [NAME], "it is still followed");
        let is_due = runtime().block_on(server.replica.wait(NAME, Duration::ZERO));
        assert!(is_due, "it is looked at");
        for all in [false, true] {
            let refused = server.replica.follow(NAME, all);
            assert!(matches!(refused, Err(Error::NotStored(_))), "{refused:?}");
            let trouble = trouble(&server).expect("there is");
            assert_eq!(trouble, "the log is gone: somebody has deleted it");
        }
        let refused = server.registry.update(NAME, offer(3, None));
        let is_told = matches!(
            &refused,
            Err(Error::NotStored(JournalError::Unreachable(why))) if why.contains("gone")
        );
        assert!(is_told, "{refused:?}");
        let snapshot = server.snapshot();
        assert!(snapshot.is_synced() && snapshot.revision() == 3);
    }
}

#[test]
fn a_log_that_is_made_anew_is_read_anew_and_one_that_is_back_is_read_on() {
    for is_back in [false, true] {
        let log = FakeLog::default();
        let ([server, _], kept) = bereft(&log);
        server.replica.follow(NAME, false).expect_err("it is gone");
        let epoch = server.snapshot().epoch().to_owned();
        if is_back {
            for message in kept {
                log.intrude(NAME, message.bytes);
            }
        }
        let next = Alone::on(&log, "c");
        let update = next.put(7);
        assert_eq!(update.epoch == epoch, is_back);
        assert_eq!(update.revision, if is_back { 4 } else { 1 });
        server.follow();
        assert_eq!(trouble(&server), None);
        let snapshot = server.snapshot();
        let stands_at = (snapshot.epoch().to_owned(), snapshot.revision());
        assert_eq!(stands_at, (update.epoch, update.revision));
    }
}
