//! Explanations: each hint appears only where it belongs, and the change that it suggests does help.

use std::path::Path;

use evenkeel::proto::v1::hint::Kind;

mod answers;
mod promises;
mod questions;

fn check(document: &str) {
    let document = format!("tests/service/explain/{document}.md");
    support::sessions::check(&Path::new(env!("CARGO_MANIFEST_DIR")).join(document));
}

#[test]
fn hints() {
    check("hints");
}

#[test]
fn hints_fleet() {
    check("hints_fleet");
}

#[test]
fn each_hint_is_shown_where_it_belongs_and_where_it_does_not() {
    let documents = [include_str!("hints.md"), include_str!("hints_fleet.md")].concat();
    let numbered = (1..=Kind::Soft as i32).map(|kind| Kind::try_from(kind).expect("no gap"));
    let of_fleets = [
        Kind::FleetSkewTooLarge,
        Kind::FleetUnusableDomain,
        Kind::FleetGreedy,
    ];
    for kind in numbered.chain(of_fleets) {
        let name = kind.as_str_name().trim_start_matches("KIND_");
        for heading in [format!("\n## {name}: "), format!("\n## no {name}: ")] {
            assert!(documents.contains(&heading), "no case{heading}");
        }
    }
}
