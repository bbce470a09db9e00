//! The contract of a log, which the fake log and NATS both keep: one table of cases.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::{Duration, Instant, SystemTime};

use evenkeel::log::{Error, Follower, Log, Message};
use prost::bytes::Bytes;
use support::fake_log::FakeLog;

use crate::replicas::brokers::Brokers;
use crate::replicas::process::DEADLINE;

const WITHIN: Duration = Duration::from_secs(10);

/// Makes `check` run each case by its name. A case uses only the log of the snapshot with that
/// name.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        async fn check(log: &dyn Log) {
            $(
                println!("{}", stringify!($case));
                $case(log, stringify!($case)).await;
            )*
        }
    };
}

cases![
    an_append_needs_the_end,
    a_log_tells_the_time,
    of_many_appends_one_wins,
    a_follower_gets_all_in_order,
    a_follower_waits,
    a_follower_says_what_is_missing,
    an_error_of_a_follower_is_of_the_present,
    a_follower_moves_on,
    a_trimmed_log_goes_on,
    a_removed_log_begins_anew,
    a_log_that_is_made_anew_is_another_one,
    a_log_is_removed_only_where_it_ends,
    messages_are_read_one_by_one,
    logs_are_listed,
    blobs_are_kept_whole,
    keys_change_by_compare_and_set,
];

#[tokio::test(flavor = "multi_thread")]
async fn the_fake_log_keeps_the_contract() {
    check(&FakeLog::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn one_nats_server_keeps_the_contract() {
    let brokers = Brokers::start(1);
    check(&brokers.connect("contract").await).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn three_nats_servers_keep_the_contract() {
    let brokers = Brokers::start(3);
    check(&brokers.connect("contract").await).await;
}

fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// Appends messages `1`, `2`… up to a number.
async fn fill(log: &dyn Log, name: &str, last: u64) {
    for after in 0..last {
        let message = text(&(after + 1).to_string());
        assert_eq!(
            log.append_if(name, after, message, WITHIN).await,
            Ok(after + 1)
        );
    }
}

/// Returns the next message, whatever errors come before it.
async fn next(follower: &dyn Follower, after: u64) -> Message {
    let start = Instant::now();
    loop {
        match follower.next(after, Duration::from_secs(1)).await {
            Ok(Some(message)) => return message,
            outcome => assert!(start.elapsed() < DEADLINE, "after {after}: {outcome:?}"),
        }
    }
}

/// Returns the error that comes instead of a message.
async fn fault(follower: &dyn Follower, after: u64) -> Error {
    let start = Instant::now();
    loop {
        match follower.next(after, Duration::from_secs(1)).await {
            Err(error) => return error,
            outcome => assert!(start.elapsed() < DEADLINE, "after {after}: {outcome:?}"),
        }
    }
}

/// Asserts that an answer says that the object is not there.
#[track_caller]
fn assert_missing<T: Debug>(answer: Result<T, Error>) {
    assert!(matches!(answer, Err(Error::NotFound(_))), "{answer:?}");
}

/// Waits until a follower is told that its log was made anew, and is shorter than before.
async fn until_anew(follower: &dyn Follower, after: u64) {
    let start = Instant::now();
    while fault(follower, after).await != Error::Shorter(2) {
        assert!(start.elapsed() < DEADLINE, "the log was made anew");
    }
}

async fn an_append_needs_the_end(log: &dyn Log, name: &str) {
    let append = |after, message| log.append_if(name, after, text(message), WITHIN);
    assert_missing(append(1, "early").await);
    assert_eq!(append(0, "a").await, Ok(1));
    assert_eq!(append(0, "a").await, Err(Error::Conflict));
    assert_eq!(append(1, "b").await, Ok(2));
    for after in [0, 1, 3, u64::from(u32::MAX)] {
        assert_eq!(append(after, "c").await, Err(Error::Conflict), "{after}");
    }
    let bounds = log.bounds(name).await.expect("it is there");
    assert_eq!((bounds.first, bounds.last), (1, 2));
}

/// The log tells the time by the same clock that stamps its messages.
async fn a_log_tells_the_time(log: &dyn Log, name: &str) {
    assert_missing(log.bounds(name).await);
    fill(log, name, 1).await;
    let message = log.read(name, 1).await;
    let taken = message.expect("it is there").at;
    let told = log.bounds(name).await.expect("it is there").now;
    assert!(Some(taken) <= told && told <= Some(SystemTime::now()));
}

async fn of_many_appends_one_wins(log: &dyn Log, name: &str) {
    fill(log, name, 1).await;
    for after in 1..20 {
        let writers = (0..8)
            .map(|writer| log.append_if(name, after, text(&format!("{after}/{writer}")), WITHIN));
        let outcomes = futures::future::join_all(writers).await;
        let count = |wanted| outcomes.iter().filter(|it| **it == wanted).count();
        let (won, lost) = (count(Ok(after + 1)), count(Err(Error::Conflict)));
        assert_eq!((won, lost), (1, 7), "{outcomes:?}");
    }
    assert_eq!(log.bounds(name).await.expect("it is there").last, 20);
}

async fn a_follower_gets_all_in_order(log: &dyn Log, name: &str) {
    fill(log, name, 30).await;
    for after in [0, 7, 29] {
        let follower = log.follow(name, after);
        for after in after..30 {
            let message = next(&*follower, after).await;
            assert_eq!(message.sequence, after + 1);
            assert_eq!(message.bytes, text(&(after + 1).to_string()));
            // The same question gets the same message again.
            assert_eq!(next(&*follower, after).await, message);
        }
        assert_eq!(follower.next(30, Duration::from_millis(20)).await, Ok(None));
    }
}

async fn a_follower_waits(log: &dyn Log, name: &str) {
    fill(log, name, 1).await;
    let follower = log.follow(name, 1);
    let (first, second, appended) = tokio::join!(
        next(&*follower, 1),
        next(&*follower, 1),
        log.append_if(name, 1, text("late"), WITHIN),
    );
    assert_eq!(appended, Ok(2));
    assert_eq!((first.sequence, &first.bytes), (2, &text("late")));
    assert_eq!(first, second);
}

async fn a_follower_says_what_is_missing(log: &dyn Log, name: &str) {
    let early = log.follow(name, 0);
    assert!(matches!(fault(&*early, 0).await, Error::NotFound(_)));
    fill(log, name, 5).await;
    assert_eq!(next(&*early, 0).await.sequence, 1);
    assert_eq!(fault(&*log.follow(name, 9), 9).await, Error::Shorter(5));
    log.trim(name, 4).await.expect("it is there");
    assert_eq!(fault(&*log.follow(name, 2), 2).await, Error::Trimmed(4));
    assert_eq!(next(&*log.follow(name, 3), 3).await.sequence, 4);
}

async fn an_error_of_a_follower_is_of_the_present(log: &dyn Log, name: &str) {
    let follower = log.follow(name, 0);
    assert!(matches!(fault(&*follower, 0).await, Error::NotFound(_)));
    fill(log, name, 1).await;
    let next = follower.next(0, WITHIN).await;
    assert_eq!(
        next.map(|message| message.map(|it| it.sequence)),
        Ok(Some(1))
    );
}

async fn a_follower_moves_on(log: &dyn Log, name: &str) {
    fill(log, name, 8).await;
    log.trim(name, 5).await.expect("it is there");
    let follower = log.follow(name, 1);
    assert_eq!(fault(&*follower, 1).await, Error::Trimmed(5));
    assert_eq!(next(&*follower, 6).await.sequence, 7);
}

async fn a_trimmed_log_goes_on(log: &dyn Log, name: &str) {
    fill(log, name, 5).await;
    let bounds = async || {
        let bounds = log.bounds(name).await.expect("it is there");
        (bounds.first, bounds.last)
    };
    for (before, expected) in [(1, (1, 5)), (3, (3, 5)), (2, (3, 5)), (6, (6, 5))] {
        log.trim(name, before).await.expect("it is there");
        assert_eq!(bounds().await, expected, "{before}");
    }
    // A log that was emptied by trimming is not a new one.
    assert_eq!(
        log.append_if(name, 0, text("0"), WITHIN).await,
        Err(Error::Conflict)
    );
    assert_eq!(log.append_if(name, 5, text("6"), WITHIN).await, Ok(6));
    assert_eq!(bounds().await, (6, 6));
}

/// The last message of a log.
async fn last(log: &dyn Log, name: &str) -> Message {
    let last = log.bounds(name).await.expect("it is there").last;
    let read = log.read(name, last).await;
    read.expect("it is there")
}

async fn a_removed_log_begins_anew(log: &dyn Log, name: &str) {
    fill(log, name, 3).await;
    let follower = log.follow(name, 3);
    let last = last(log, name).await;
    log.remove_if(name, &last).await.expect("it was there");
    assert_missing(log.bounds(name).await);
    assert_missing(log.remove_if(name, &last).await);
    assert!(!names(log).await.contains(name));
    fill(log, name, 2).await;
    assert_eq!(log.bounds(name).await.expect("it is back").last, 2);
    until_anew(&*follower, 3).await;
}

async fn a_log_that_is_made_anew_is_another_one(log: &dyn Log, name: &str) {
    fill(log, name, 2).await;
    let follower = log.follow(name, 0);
    assert_eq!(next(&*follower, 1).await.sequence, 2);
    let last = last(log, name).await;
    log.remove_if(name, &last).await.expect("it is there");
    // The new log ends where the former one ended.
    fill(log, name, 2).await;
    until_anew(&*follower, 2).await;
}

async fn a_log_is_removed_only_where_it_ends(log: &dyn Log, name: &str) {
    for other in 0..3 {
        fill(log, name, 2).await;
        let end = last(log, name).await;
        let read = log.read(name, 1).await;
        let early = read.expect("it is there");
        let differs = Message {
            bytes: text("2 of another log"),
            ..end.clone()
        };
        for not_the_last in [early, differs] {
            let refused = log.remove_if(name, &not_the_last).await;
            assert_eq!(refused, Err(Error::Conflict), "{not_the_last:?}");
        }
        assert_eq!(last(log, name).await, end, "{other}");
        log.remove_if(name, &end).await.expect("it ends there");
    }
}

async fn messages_are_read_one_by_one(log: &dyn Log, name: &str) {
    assert_missing(log.read(name, 1).await);
    fill(log, name, 4).await;
    log.trim(name, 2).await.expect("it is there");
    let read = log.read(name, 3).await.expect("it is there");
    assert_eq!((read.sequence, read.bytes), (3, text("3")));
    for sequence in [1, 5] {
        assert_missing(log.read(name, sequence).await);
    }
    let found = log.survey().await.expect("it can be reached");
    let mut own = log.bounds(name).await.expect("it is there");
    let told = found.logs.get(name).cloned().expect("it is there");
    own.now = told.now;
    assert_eq!(told, own);
    for (of, bounds) in found.logs.into_iter().chain(found.beside) {
        assert!(
            bounds.copies > 0 && bounds.has_majority(),
            "{of}: {bounds:?}"
        );
    }
    assert_eq!(log.troubles(), Vec::<String>::new());
}

/// The names of all logs.
async fn names(log: &dyn Log) -> BTreeSet<String> {
    log.names().await.expect("a list").into_iter().collect()
}

async fn logs_are_listed(log: &dyn Log, name: &str) {
    let before = names(log).await;
    let long = format!("{name}/{}", "x.".repeat(100));
    let made = [name, "eu/a.b_1", "eu.a/b_1", &long].map(str::to_owned);
    for name in &made {
        fill(log, name, 1).await;
    }
    let after = names(log).await;
    let added: BTreeSet<_> = after.difference(&before).cloned().collect();
    assert_eq!(added, BTreeSet::from(made));
}

async fn blobs_are_kept_whole(log: &dyn Log, name: &str) {
    let blobs = log.blobs();
    let named = |part: &str| format!("{name}/{part}");
    assert_eq!(blobs.get(&named("none")).await, Ok(None));
    let large: Vec<u8> = (0..800_000_u32).map(|i| (i % 251) as u8).collect();
    let kept = [
        (named("empty"), Bytes::new()),
        (named("small"), text("small")),
        (named("large"), Bytes::from(large)),
    ];
    for (name, blob) in &kept {
        let put = blobs.set_if(name, None, blob.clone()).await;
        let revision = put.expect("it is put");
        let again = blobs.set_if(name, None, blob.clone()).await;
        assert_eq!(again, Err(Error::Conflict), "it is there already");
        let there = blobs.get(name).await;
        assert_eq!(there, Ok(Some((blob.clone(), revision))), "{name}");
    }
    let mut listed = blobs.list(&named("")).await.expect("a list");
    listed.sort();
    assert_eq!(listed, ["empty", "large", "small"].map(named));
    let long = named(&"f".repeat(600));
    let put = blobs.set_if(&long, None, text("long")).await;
    put.expect("it is put");
    assert_eq!(blobs.list(&long[..500]).await.expect("a list"), [&*long]);
    blobs.remove(&long).await.expect("it is dropped");
    for _ in 0..2 {
        let dropped = blobs.remove(&named("large")).await;
        dropped.expect("it is dropped");
    }
    assert_eq!(blobs.get(&named("large")).await, Ok(None));
    assert_eq!(blobs.list(&named("")).await.expect("a list").len(), 2);
}

async fn keys_change_by_compare_and_set(log: &dyn Log, name: &str) {
    let keys = log.keys();
    let key = format!("{name}/a");
    assert_eq!(keys.get(&key).await, Ok(None));
    let conflicts = async |before| {
        let set = keys.set_if(&key, before, text("x")).await;
        assert_eq!(set, Err(Error::Conflict), "{before:?}");
    };
    conflicts(Some(7)).await;
    let first = keys
        .set_if(&key, None, text("one"))
        .await
        .expect("it is new");
    conflicts(None).await;
    let second = keys
        .set_if(&key, Some(first), text("two"))
        .await
        .expect("it is this");
    conflicts(Some(first)).await;
    assert_eq!(keys.get(&key).await, Ok(Some((text("two"), second))));
}
