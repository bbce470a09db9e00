//! Claims that wait, beside volumes that come, change and go: decisions compared with a recount after
//! each batch.

use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel::proto::v1::{Change, Pod, PodSpec, Volume};
use proptest::collection::vec;
use proptest::prelude::*;
use support::agree::{self, Question};
use support::build::{HOSTNAME, ZONE, node};
use support::generate::storage;
use support::model::{self, Stored};
use support::recount::Cluster;
use support::server::Server;

use super::recorded::check_place;
use support::history::cases;

/// Changes of storage of which no two are about the same object.
fn batch(most: usize) -> impl Strategy<Value = Vec<Change>> {
    let dropped = prop::bool::weighted(0.15);
    vec((storage::change(), dropped), 1..=most).prop_map(|changes| {
        let mut seen = Vec::new();
        let changes = changes.into_iter().filter_map(|(change, dropped)| {
            let (kind, namespace, name) = model::subject(&change);
            let subject = (kind.clone(), namespace.clone(), name.clone());
            if seen.contains(&subject) {
                return None;
            }
            seen.push(subject);
            Some(match dropped {
                true => model::delete(&kind, &namespace, &name),
                false => change,
            })
        });
        changes.collect()
    })
}

fn asking(volumes: Vec<Volume>) -> Pod {
    Pod {
        spec: Some(PodSpec {
            volumes,
            ..PodSpec::default()
        }),
        ..Pod::default()
    }
}

/// Nodes by zone, host and rack; one has no rack and one no label at all.
fn nodes() -> Vec<Change> {
    let named = [
        ("n0", vec![(ZONE, "za"), (HOSTNAME, "n0"), ("rack", "r0")]),
        ("n1", vec![(ZONE, "zb"), (HOSTNAME, "n1"), ("rack", "r1")]),
        ("n2", vec![(ZONE, "zb"), (HOSTNAME, "n2")]),
        ("n3", vec![(ZONE, "za"), (HOSTNAME, "n3"), ("rack", "r0")]),
        ("n4", Vec::new()),
    ];
    let named = named.into_iter();
    named
        .map(|(name, labels)| node(name, &labels).change())
        .collect()
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn claims_are_bound_as_a_recount_binds_them(
        first in batch(40),
        rest in vec(batch(8), 1..5),
        asked in vec(storage::volumes().prop_filter("it has none", |all| !all.is_empty()), 3),
    ) {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            static CASES: AtomicUsize = AtomicUsize::new(0);
            let snapshot = format!("case-{}", CASES.fetch_add(1, Ordering::Relaxed));
            let server = Server::start().await;
            let mut cluster = Cluster::default();
            let batches = [nodes(), first].into_iter().chain(rest);
            for (at, changes) in batches.enumerate() {
                changes.iter().for_each(|change| model::apply(&mut cluster, change));
                server.update(&snapshot, changes).await;
                for pod in asked.iter().cloned().map(asking) {
                    let place = format!("batch {at}");
                    let about = Question { cluster: &cluster, pod: &pod, place: &place };
                    agree::decisions(&server, &snapshot, &about).await;
                    check_place(&server, &snapshot, &cluster, &pod).await;
                }
            }
            server.verify(&snapshot).await;
        });
    }
}
