//! Snapshots in the metrics: the values of each, and the limit on their number.

use std::time::{Duration, Instant};

use evenkeel::proto::v1::{Mode, PlaceRequest};
use support::build::hold_of;

use super::admin::{fill, pod, question, start};
use crate::serving::metrics::Page;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_are_described_and_their_labels_are_bounded() {
    let (server, admin) = start(&["--metrics-snapshots", "3", "--expect-snapshot", "expected"]);
    let mut client = server.client();
    let sizes: [(&str, &[&str]); 3] = [
        ("large", &["a", "b", "c"]),
        ("middle", &["a", "b"]),
        ("small", &["a"]),
    ];
    let start = Instant::now();
    for (snapshot, names) in sizes {
        fill(&mut client, snapshot, names, Mode::Replace).await;
    }
    let took = start.elapsed().as_secs_f64();
    for number in 0..20 {
        let name = format!("tiny-{number}");
        fill(&mut client, &name, &["a"], Mode::Unspecified).await;
    }
    let place = PlaceRequest {
        snapshot: "large".into(),
        ..hold_of(pod(), 2, Duration::from_secs(60))
    };
    server.place(place).await;
    server.filter(question("large")).await;

    assert_metrics(&Page::of(&admin), took);
}

/// Checks the metrics of the large snapshots, and those of all others together.
fn assert_metrics(page: &Page, took: f64) {
    assert_eq!(page.value("evenkeel_snapshots", &[]), 24.0);
    let names = page
        .text()
        .lines()
        .filter(|line| line.starts_with("evenkeel_snapshot_age_seconds{"));
    assert_eq!(names.count(), 4, "{}", page.text());
    let nodes_of = |snapshot: &str| {
        let label = format!("snapshot=\"{snapshot}\"");
        page.value("evenkeel_snapshot_objects", &[&label, "kind=\"node\""])
    };
    assert_eq!(nodes_of("expected"), 0.0);
    assert_eq!(nodes_of("large"), 3.0);
    assert_eq!(nodes_of("middle"), 2.0);
    assert_eq!(nodes_of("(others)"), 21.0);
    let of =
        |metric: &str, snapshot: &str| page.value(metric, &[&format!("snapshot=\"{snapshot}\"")]);
    assert_eq!(of("evenkeel_snapshot_synced", "expected"), 0.0);
    assert_eq!(of("evenkeel_snapshot_synced", "large"), 1.0);
    assert_eq!(of("evenkeel_snapshot_reservations", "large"), 2.0);
    assert_eq!(of("evenkeel_snapshot_views", "large"), 1.0);
    assert!(of("evenkeel_snapshot_age_seconds", "large") < 3_600.0);
    let lag = of("evenkeel_snapshot_feed_lag_seconds", "large");
    assert!(lag > 0.0 && lag < took, "{lag} of {took}");
    assert_eq!(of("evenkeel_snapshot_feed_lag_seconds", "expected"), 0.0);
    assert_eq!(page.value("evenkeel_reservations_made_total", &[]), 2.0);
    assert_eq!(page.value("evenkeel_replaces_total", &[]), 3.0);
    assert_eq!(
        page.value("evenkeel_changes_total", &["result=\"changed\""]),
        28.0
    );
}
