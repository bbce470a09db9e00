//! State directories that cannot be used are refused.

use std::fs;

use evenkeel::snapshot::Limits;
use evenkeel::store::{Durability, Store, StoreError};

use crate::restart::home::Home;
use crate::restart::process;
use support::build::{ZONE, node, on, pod};
use support::model::Stored;
use support::server::unobserved;

/// The head of the file, which names the last commit and the one before it.
const HEAD_BYTES: usize = 4_096;

/// Returns the output of a server that cannot start on this directory.
pub fn refused(home: &Home) -> String {
    let flags = home.flags();
    let mut args = vec!["serve", "--listen", "127.0.0.1:0"];
    args.extend(flags.iter().map(String::as_str));
    process::run(process::command(&args)).expect(1).said()
}

/// Returns the snapshots of a directory, each with its number of objects.
fn kept(home: &Home) -> Result<Vec<(String, usize)>, StoreError> {
    let store = Store::open(&home.state(), Durability::Relaxed)?;
    let registry = unobserved(Limits::default());
    store.restore(&registry)?;
    let snapshots = registry.list("").into_iter().map(|snapshot| {
        let summary = snapshot.summary();
        (summary.name, summary.sizes.nodes + summary.sizes.pods)
    });
    Ok(snapshots.collect())
}

/// A state directory with two snapshots of some size. Some of their changes are
/// under the keys of objects, the last ones are still in batches.
async fn filled() -> Home {
    let home = Home::new();
    let server = home.start(&[]);
    for snapshot in ["one", "two"] {
        let nodes = (0..20).map(|i| node(&format!("n{i}"), &[(ZONE, "z")]).change());
        let pods = |tier: &'static str| {
            move |i| {
                let labels = [("app", snapshot), ("tier", tier)];
                on(pod(&format!("pod-{i}"), &labels), &format!("n{}", i % 20)).change()
            }
        };
        let all = nodes.chain((0..2_000).map(pods("backend"))).collect();
        let some = (1_800..2_010).map(pods("frontend")).collect();
        for changes in [all, some] {
            server.update(snapshot, changes).await;
        }
    }
    server.stop().await;
    home
}

#[test]
fn foreign_directories_are_refused() {
    let home = Home::new();
    fs::create_dir(home.state()).expect("it is free");
    fs::write(home.state().join("notes.txt"), "mine").expect("it can be written");
    assert!(refused(&home).contains("is not a state directory"));
    let left: Vec<_> = fs::read_dir(home.state()).expect("it is there").collect();
    assert_eq!(left.len(), 1, "nothing was put there");
}

#[tokio::test]
async fn a_directory_belongs_to_one_server() {
    let home = Home::new();
    let _server = home.start(&[]);
    assert!(refused(&home).contains("in use"));
}

#[tokio::test]
async fn files_that_are_no_state_are_refused() {
    let text = b"it is a long way to Tipperary\n".repeat(1_000);
    for bytes in [Vec::new(), text, vec![0; 100_000]] {
        let home = Home::new();
        fs::create_dir(home.state()).expect("it is free");
        fs::write(home.file(), &bytes).expect("it can be written");
        let said = refused(&home);
        assert!(
            said.contains("damaged") && said.contains("name an empty directory"),
            "{said}"
        );
        assert_eq!(fs::read(home.file()).expect("it is there"), bytes);
    }
}

/// Wherever a file ends early, it is damaged.
#[tokio::test]
async fn a_file_that_is_cut_off_is_damaged() {
    let home = filled().await;
    let whole = fs::read(home.file()).expect("it is there");
    for length in [1, 9, 63, 64, 100, 319, 320, 4_095, 4_096, whole.len() / 2] {
        fs::write(home.file(), &whole[..length]).expect("it can be written");
        let said = refused(&home);
        assert!(said.contains("is damaged"), "{length} bytes: {said}");
    }
}

/// Makes the file say that it has this format.
fn reformat(home: &Home, format: u32) {
    let database = redb::Database::open(home.file()).expect("it is a file of redb");
    let transaction = database.begin_write().expect("nobody else writes");
    let facts = redb::TableDefinition::<&str, &[u8]>::new("evenkeel");
    {
        let mut facts = transaction.open_table(facts).expect("it is there");
        let format = format.to_le_bytes();
        facts.insert("format", &format[..]).expect("it can be set");
    }
    transaction.commit().expect("it can be written");
}

#[tokio::test]
async fn newer_formats_are_refused() {
    let home = filled().await;
    reformat(&home, 7);
    assert!(refused(&home).contains("has format 7"));
}

/// Removes unused room from the file.
fn compact(home: &Home) {
    let mut database = redb::Database::open(home.file()).expect("it is a file of redb");
    while database.compact().expect("nobody else writes") {}
}

/// Returns the places of bytes that look like objects, because damage has visible effects there.
fn text_of_pods(bytes: &[u8]) -> Vec<usize> {
    let is_text = |at: &usize| bytes[*at..].starts_with(b"pod-");
    (0..bytes.len()).step_by(4).filter(is_text).collect()
}

/// Wherever a file is damaged beyond its head, a server starts with all of it or not at all.
#[tokio::test]
async fn damage_is_never_served() {
    let home = filled().await;
    compact(&home);
    let whole = fs::read(home.file()).expect("it is there");
    let text = text_of_pods(&whole);
    let mut refusals = 0;
    for part in 0..24 {
        let mut bytes = whole.clone();
        // Half of the places are anywhere, half are in objects.
        let at = if part % 2 == 0 {
            HEAD_BYTES.max(bytes.len() / 24 * part + fastrand::usize(..bytes.len() / 24))
        } else {
            text[text.len() / 24 * part + fastrand::usize(..text.len() / 24)]
        };
        let until = (at + 64).min(bytes.len());
        for byte in &mut bytes[at..until] {
            *byte = !*byte;
        }
        fs::write(home.file(), &bytes).expect("it can be written");
        match kept(&home) {
            // The damaged place is not in use.
            Ok(found) => {
                let all = ["one", "two"].map(|name| (name.to_owned(), 2_030));
                assert_eq!(found, all, "at {at}");
            }
            Err(error) => {
                assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
                refusals += 1;
            }
        }
    }
    assert!(refusals >= 12, "{refusals} of 24 damages were found");
}

/// What a cluster runs is nobody else's business, whatever the umask is.
#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_reads_the_files() {
    use std::os::unix::fs::PermissionsExt;

    let home = filled().await;
    let modes = || {
        let files = fs::read_dir(home.state()).expect("a directory");
        let files = files.map(|file| file.expect("a file"));
        let mode = |file: fs::DirEntry| file.metadata().expect("it is there").permissions().mode();
        files.map(mode).map(|mode| mode & 0o777).collect::<Vec<_>>()
    };
    assert_eq!(modes(), [0o600]);
    // Those that a former version left readable are closed.
    for file in fs::read_dir(home.state()).expect("a directory") {
        let path = file.expect("a file").path();
        fs::set_permissions(path, PermissionsExt::from_mode(0o644)).expect("they are ours");
    }
    home.start(&[]).stop().await;
    assert_eq!(modes(), [0o600]);
}
