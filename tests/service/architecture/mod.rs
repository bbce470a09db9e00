//! The files of `src` use each other in one direction: along the order that `docs/architecture.md`
//! draws, and never in a circle. Each name of a type is defined once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

mod imports;

use imports::{Crate, Imports};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The rooms as the document draws them, the uppermost first. Rooms of one line are beside each
/// other.
fn drawn() -> Vec<Vec<String>> {
    let path = root().join("docs/architecture.md");
    let text = std::fs::read_to_string(path).expect("the document");
    let (_, after) = text.split_once("<!-- order -->").expect("its mark");
    let (drawing, _) = after.split_once("<!-- /order -->").expect("its end");
    let lines = drawing.lines().map(str::trim);
    let rows = lines.filter(|line| !line.is_empty() && !line.starts_with("```"));
    rows.map(|line| line.split_whitespace().map(str::to_owned).collect())
        .collect()
}

/// The room of a file: the longest drawn path that the path of the file starts with.
fn room_of<'a>(levels: &BTreeMap<&'a str, usize>, file: &str) -> Option<&'a str> {
    let rooms = levels.keys().filter(|room| {
        file.strip_prefix(**room)
            .is_some_and(|rest| rest.starts_with('/') || rest == ".rs")
    });
    rooms.max_by_key(|room| room.len()).copied()
}

fn levels(drawn: &[Vec<String>]) -> BTreeMap<&str, usize> {
    let rows = drawn.iter().enumerate();
    rows.flat_map(|(level, row)| row.iter().map(move |room| (room.as_str(), level)))
        .collect()
}

#[test]
fn every_file_is_in_a_drawn_room() {
    let drawn = drawn();
    let levels = levels(&drawn);
    let source = Crate::read(&root().join("src"));
    let stray: Vec<&str> = source
        .files()
        .filter(|file| !["lib.rs", "main.rs"].contains(file) && room_of(&levels, file).is_none())
        .collect();
    assert!(stray.is_empty(), "in no room of the drawing: {stray:#?}");
    for room in levels.keys() {
        let mut files = source.files();
        let full = files.any(|file| room_of(&levels, file) == Some(room));
        assert!(full, "{room} is drawn, and has no file");
    }
}

#[test]
fn no_import_runs_upward() {
    let drawn = drawn();
    let levels = levels(&drawn);
    let mut upward = Vec::new();
    for (file, taken) in Crate::read(&root().join("src")).imports() {
        for (from, names) in taken {
            let (Some(user), Some(used)) = (room_of(&levels, &file), room_of(&levels, &from))
            else {
                continue;
            };
            if user != used && levels[user] >= levels[used] {
                upward.push(format!("{file} takes {names:?} from {from}"));
            }
        }
    }
    assert!(
        upward.is_empty(),
        "against the order that is drawn, {}: {upward:#?}",
        upward.len()
    );
}

#[test]
fn no_imports_form_a_circle() {
    let imports = Crate::read(&root().join("src")).imports();
    let mut told = Vec::new();
    for circle in circles(&imports) {
        let mut lines = vec![format!("{} files:", circle.len())];
        for file in &circle {
            for (from, names) in &imports[file] {
                if circle.contains(from) {
                    lines.push(format!("  {file} takes {names:?} from {from}"));
                }
            }
        }
        told.push(lines.join("\n"));
    }
    assert!(
        told.is_empty(),
        "{} circles:\n{}",
        told.len(),
        told.join("\n")
    );
}

/// By Rust's convention each room calls its type of errors `Error`, and other rooms name the room:
/// `log::Error`.
const ONCE_A_ROOM: &str = "Error";

#[test]
fn a_type_has_a_name_of_its_own() {
    let drawn = drawn();
    let levels = levels(&drawn);
    let source = Crate::read(&root().join("src"));
    let mut shared = Vec::new();
    for (name, files) in source.types() {
        let rooms: BTreeSet<_> = files.iter().map(|file| room_of(&levels, file)).collect();
        let names = match name {
            ONCE_A_ROOM => rooms.len(),
            _ => 1,
        };
        if files.len() > names {
            shared.push(format!("{name} in {files:?}"));
        }
    }
    assert!(shared.is_empty(), "{}: {shared:#?}", shared.len());
}

/// The sets of files in which each file leads to all others.
fn circles(imports: &Imports) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = imports
        .keys()
        .map(|file| (file.as_str(), reach(imports, file)))
        .collect();
    let mut found = BTreeSet::new();
    for (file, there) in &reached {
        if there.contains(file) {
            let back = there
                .iter()
                .filter(|other| reached.get(*other).is_some_and(|back| back.contains(file)));
            found.insert(back.map(ToString::to_string).collect::<BTreeSet<_>>());
        }
    }
    found.into_iter().collect()
}

/// All files that the imports of a file lead to, also through other files.
fn reach<'a>(imports: &'a Imports, file: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![file];
    while let Some(file) = open.pop() {
        for next in imports.get(file).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    reached
}
