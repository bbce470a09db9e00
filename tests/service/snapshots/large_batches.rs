//! A batch of any size is seen whole or not at all, leaves the kept counts as a recount says, and
//! holds up no reader.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evenkeel::matching::Path;
use evenkeel::proto::v1::{Change, Pod};
use evenkeel::snapshot::{
    Batch, DecidedPicks, Hold, Limits, Offer, ReadView, Registry, Reserved, Snapshot, Stopped,
    Unobserved,
};
use evenkeel::spread::{Filter, NodeChecks, Question};
use support::build::{ZONE, hard, node, on, pod, spread};
use support::in_process::update;
use support::model::Stored;

/// The label of the pods that are counted.
const WEB: [(&str, &str); 1] = [("app", "web")];

/// The number of nodes in each of two zones.
const NODES: usize = 20;

/// A registry with nodes in two zones, and its snapshot.
fn world() -> (Registry, Arc<Snapshot>) {
    let limits = Limits {
        max_reservations: 1_000_000,
        ..Limits::default()
    };
    let registry = Registry::new(limits, Arc::new(Unobserved));
    let node = |i: usize| node(&format!("n{i}"), &[(ZONE, &format!("z{}", i % 2))]);
    update(
        &registry,
        (0..2 * NODES).map(|i| node(i).change()).collect(),
    );
    let snapshot = registry.get("default").expect("it was made");
    (registry, snapshot)
}

/// A pod in a zone.
fn web(i: usize, zone: usize) -> Pod {
    on(
        pod(&format!("w{i}"), &WEB),
        &format!("n{}", 2 * (i % NODES) + zone),
    )
}

/// Returns the revision of a decision, and the pods that it counts in each domain of a key,
/// ascending.
fn counts(cut: &ReadView<'_>, question: &Question) -> Result<(i64, Vec<i64>), Stopped> {
    let constraints = question.constraints_on(cut)?;
    let filter = Filter::of(question, &constraints, NodeChecks::All, cut)?;
    let reports = filter.reports(usize::MAX)?;
    let domains = reports[0].domains.iter();
    let counts = domains.map(|domain| domain.tally.matching_pods);
    Ok((cut.revision, counts.collect()))
}

fn question(key: &str, limits: &Limits) -> Question {
    let asker = spread(pod("asker", &WEB), vec![hard(1, key, &WEB)]);
    Question::compile(Some(&asker), limits, Path::root("pod")).expect("a valid pod")
}

/// Runs `each` over and over on threads of its own while `work` runs.
fn beside<T>(threads: usize, each: impl Fn() + Sync, work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        each();
                    }
                })
            })
            .collect();
        // Readers stop as well when this panics.
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        done.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().expect("a reader finds what it wants");
        }
        worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A reader waits for a small part of the time that a large change takes.
#[test]
fn a_large_batch_holds_up_nobody() {
    const PODS: usize = 60_000;
    let (registry, snapshot) = world();
    let by_zone = question(ZONE, registry.limits());
    let late = |what: &str, work: &mut dyn FnMut()| {
        let longest = parking_lot::Mutex::new(Duration::ZERO);
        let read = || {
            let start = Instant::now();
            let state = snapshot.state();
            let found = state.decide_at_once("default", |cut| counts(&cut, &by_zone));
            found.expect("it costs little");
            snapshot.summary();
            let mut longest = longest.lock();
            *longest = (*longest).max(start.elapsed());
        };
        let start = Instant::now();
        beside(1, read, work);
        let (took, longest) = (start.elapsed(), *longest.lock());
        assert!(
            longest < took / 3,
            "{what} took {took:?}, a reader waited {longest:?}"
        );
    };
    let pods: Vec<Change> = (0..PODS).map(|i| web(i, 0).change()).collect();
    let batch = Batch::check(pods, registry.limits(), Path::root("changes"));
    let offer = Offer::of(Arc::new(batch.expect("valid")), registry.now().steady);
    late("a batch", &mut || {
        registry
            .update("default", offer.clone())
            .expect("it is applied");
    });

    let holds = [Hold {
        owner: "batch".into(),
        ttl: Duration::from_secs(600),
        template: Arc::new(pod("", &[("app", "web")])),
    }];
    let mut ids = Vec::new();
    late("a hold", &mut || {
        let decided = DecidedPicks {
            revision: snapshot.revision(),
            picks: (0..PODS)
                .map(|i| (0, format!("n{}", i % NODES).into()))
                .collect(),
            answer: (),
        };
        let again = || unreachable!("nobody else changes anything");
        let tell = |(): &mut (), reserved: Reserved| {
            ids = reserved.ids;
            Vec::new()
        };
        let reserved = snapshot.reserve((&holds, None), registry.limits(), decided, again, tell);
        let reserved: Result<_, evenkeel::snapshot::Error> = reserved;
        reserved.expect("there is room");
    });
    assert_eq!(snapshot.summary().reservations, PODS);
    late("a release", &mut || {
        snapshot
            .release(std::mem::take(&mut ids))
            .expect("they end");
    });
    assert_eq!(snapshot.summary().reservations, 0);
}
