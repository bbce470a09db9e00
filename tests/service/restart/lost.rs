//! A state directory that has less than was acknowledged: the server says so, and nobody takes what
//! is left for all that there was.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use evenkeel::snapshot::{Limits, Registry, Unobserved};
use evenkeel::store::{self, Durability, FILE, Loss, Store, StoreError};

use crate::restart::process::DEADLINE;
use support::build::{ZONE, node, on, pod};
use support::model::Stored;
use support::server::{Server, unobserved};

const RECORD: &str = "last-commit";

/// The head of the file, and a little more.
const HEAD_BYTES: usize = 336;

/// Epoch, revision and number of pods by snapshot.
type Known = BTreeMap<String, (String, i64, usize)>;

fn known(registry: &Registry) -> Known {
    let all = registry.list("").into_iter().map(|snapshot| {
        let summary = snapshot.summary();
        let known = (summary.epoch, summary.revision, summary.sizes.pods);
        (summary.name, known)
    });
    all.collect()
}

/// Runs a server on a directory. Returns what it acknowledged, and the file as it was before the
/// last update.
async fn live(state: &Path, updates: usize) -> (Known, Vec<u8>) {
    let store = when_free(|| Store::open(state, Durability::Relaxed));
    let store = Arc::new(store.expect("it is free"));
    let registry = Registry::new(Limits::default(), Arc::new(Unobserved));
    let registry = registry.with_journal(store as _);
    let server = Server::with_registry(registry).await;
    let mut before = Vec::new();
    for snapshot in ["one", "two"] {
        let nodes = vec![node("n", &[(ZONE, "z")]).change()];
        server.update(snapshot, nodes).await;
        for i in 0..updates {
            before = fs::read(state.join(FILE)).expect("it is there");
            let pod = on(pod(&format!("pod-{i}"), &[("app", "web")]), "n");
            server.update(snapshot, vec![pod.change()]).await;
        }
    }
    (known(&server.registry), before)
}

/// Tries something with a directory until it is not in use. A process that another test starts
/// holds all files of this one for a moment, and their locks with them.
fn when_free<T>(attempt: impl Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let begun = Instant::now();
    loop {
        let done = attempt();
        if !matches!(done, Err(StoreError::InUse(_))) || begun.elapsed() > DEADLINE {
            return done;
        }
        std::thread::yield_now();
    }
}

/// Returns what the next server has, and the number of commits that it says were lost.
fn start(state: &Path) -> Result<(Known, u64), StoreError> {
    let store = when_free(|| Store::open(state, Durability::Relaxed))?;
    let registry = unobserved(Limits::default());
    store.restore(&registry, |_| true, |_| ())?;
    let lost = store.counts().lost_commits.load(Ordering::Relaxed);
    Ok((known(&registry), lost))
}

/// A directory with these files.
fn directory(file: &[u8], record: Option<&[u8]>) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::write(directory.path().join(FILE), file).expect("it can be written");
    if let Some(record) = record {
        fs::write(directory.path().join(RECORD), record).expect("it can be written");
    }
    directory
}

/// A case: its name, and the file and the record of a directory.
type Case<'c> = (&'c str, &'c [u8], Option<&'c [u8]>);

/// Checks that no snapshot has the epoch of an acknowledged one, and that the loss is told once.
fn assert_told(case: &str, found: &(Known, u64), acknowledged: &Known, state: &Path) {
    assert!(found.1 > 0, "{case}: nothing is told of {:?}", found.0);
    for (name, (epoch, ..)) in &found.0 {
        let before = acknowledged.get(name).map(|known| &known.0);
        assert_ne!(before, Some(epoch), "{case}: {name}");
    }
    let again = start(state).expect("it started before");
    assert_eq!(again, (found.0.clone(), 0), "{case}");
}

#[tokio::test]
async fn a_flipped_bit_in_the_head_is_never_silent() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let state = home.path().join("state");
    let (acknowledged, _) = live(&state, 3).await;
    let [file, record] =
        [FILE, RECORD].map(|name| fs::read(state.join(name)).expect("it is there"));
    // The sample has a bit of each byte. All bits of byte 9, which say which commit is the last,
    // are added.
    let sample = (0..HEAD_BYTES).map(|byte| byte * 8 + byte * 5 % 8);
    let (mut told, mut refused, mut whole) = (0, 0, 0);
    for bit in sample.chain(9 * 8..10 * 8) {
        let mut flipped = file.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let damaged = directory(&flipped, Some(&record));
        let case = format!("bit {} of byte {}", bit % 8, bit / 8);
        match start(damaged.path()) {
            Err(error) => {
                assert!(
                    matches!(error, StoreError::Damaged { .. }),
                    "{case}: {error}"
                );
                refused += 1;
            }
            Ok((found, 0)) => {
                assert_eq!(found, acknowledged, "{case}");
                whole += 1;
            }
            Ok(found) => {
                assert_told(&case, &found, &acknowledged, damaged.path());
                let damaged = directory(&flipped, Some(&record));
                let checked = when_free(|| store::check(damaged.path()));
                let checked = checked.expect("it is whole");
                assert_eq!(checked.loss, Some(Loss::Commits(1)), "{case}");
                told += 1;
            }
        }
    }
    assert!(
        told > 0 && refused > 0 && whole > 0,
        "{told} {refused} {whole}"
    );
}

#[tokio::test]
async fn an_older_file_is_never_taken_for_the_last_one() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let state = home.path().join("state");
    let (acknowledged, before) = live(&state, 3).await;
    let [file, record] =
        [FILE, RECORD].map(|name| fs::read(state.join(name)).expect("it is there"));
    let mut damaged = record.clone();
    damaged[19] ^= 1;
    let cases: [Case<'_>; 5] = [
        ("the file of one update before", &before, Some(&record)),
        ("no record", &file, None),
        ("an empty record", &file, Some(&[])),
        ("half a record", &file, Some(&record[..10])),
        ("a damaged record", &file, Some(&damaged)),
    ];
    for (case, file, record) in cases {
        let older = directory(file, record);
        let found = start(older.path()).expect("the file is whole");
        assert_told(case, &found, &acknowledged, older.path());
    }
    // A record without an end is not read to its end.
    let endless = directory(&file, Some(&record));
    let opened = fs::OpenOptions::new()
        .write(true)
        .open(endless.path().join(RECORD));
    let opened = opened.expect("it is there");
    opened.set_len(1 << 40).expect("it takes no room");
    let found = start(endless.path()).expect("the file is whole");
    assert_told("an endless record", &found, &acknowledged, endless.path());
    let same = directory(&file, Some(&record));
    assert_eq!(start(same.path()).expect("it is whole"), (acknowledged, 0));
    // A directory with a record alone does not count as new.
    let alone = tempfile::tempdir().expect("a temporary directory");
    fs::write(alone.path().join(RECORD), &record).expect("it can be written");
    let refused = start(alone.path()).expect_err("there is no file");
    assert!(
        refused.to_string().contains("but no evenkeel.redb"),
        "{refused}"
    );
}
