//! Explanations: each hint appears only where it belongs, and the change that it suggests does help.

use std::path::Path;

use evenkeel::proto::v1::hint::Kind;

mod answers;
mod fleet;
mod promises;
mod questions;

#[test]
fn hints() {
    let document = "tests/service/explain/hints.md";
    support::sessions::check(&Path::new(env!("CARGO_MANIFEST_DIR")).join(document));
}

#[test]
fn each_hint_is_shown_where_it_belongs_and_where_it_does_not() {
    let document = include_str!("hints.md");
    for kind in 1..=Kind::Soft as i32 {
        let kind = Kind::try_from(kind).expect("kinds are numbered in a row");
        let name = kind.as_str_name().trim_start_matches("KIND_");
        for heading in [format!("\n## {name}: "), format!("\n## no {name}: ")] {
            assert!(document.contains(&heading), "no case{heading}");
        }
    }
}
