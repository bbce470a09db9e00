//! Histories of a snapshot: batches of random valid changes, and questions whose answers must be
//! the same as the oracle's.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::recount::Cluster;
use evenkeel::proto::v1::{
    Change, DefaultConstraints, FilterRequest, Mode, NodeChecks, NodeNames, ObjectReference, Pod,
    UpdateSnapshotRequest, View,
};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;

use super::agree::{self, Question};
use super::build::{batch_of, full_filter_of, score_as};
use super::server::Server;
use super::{generate, model};

/// The configuration of a property test with so many cases. Failures are told by their seed, and
/// leave no file.
pub fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// One step of a history, and the questions after it.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// True if the changes are the whole state; then none is a deletion.
    pub replace: bool,
    /// The changes, at most one per object.
    pub changes: Vec<Change>,
    /// Default constraints to set.
    pub defaults: Option<DefaultConstraints>,
    /// Views that were not used for so many sweeps go then.
    pub swept: Option<u64>,
    /// The questions to ask afterwards.
    pub questions: Vec<Asked>,
}

/// A question: Filter and Score about a pod.
#[derive(Debug, Clone)]
pub struct Asked {
    pod: Pod,
    overlay: Vec<Change>,
    candidates: Option<Vec<String>>,
}

/// A question of any kind.
pub fn asked() -> impl Strategy<Value = Asked> {
    let overlay = prop_oneof![2 => Just(Vec::new()), 1 => generate::batch(4)];
    (
        generate::incoming::pod(),
        overlay,
        weighted(0.3, candidates()),
    )
        .prop_map(|(pod, overlay, candidates)| Asked {
            pod,
            overlay,
            candidates,
        })
}

fn candidates() -> impl Strategy<Value = Vec<String>> {
    let names = ["n0", "n1", "n2", "n3", "n4", "n5", "stranger"];
    proptest::sample::subsequence(names.map(str::to_owned).to_vec(), 0..=7).prop_shuffle()
}

fn step(size: usize) -> impl Strategy<Value = Step> {
    let replace = prop::bool::weighted(0.08);
    let defaults = weighted(0.15, generate::defaults());
    let swept = weighted(0.2, 0..3_u64);
    let changes = (generate::batch(size), defaults, swept);
    (replace, changes, vec(asked(), 2)).prop_map(
        |(replace, (changes, defaults, swept), questions)| Step {
            replace,
            // A whole state has no deletions.
            changes: match replace {
                true => changes
                    .into_iter()
                    .filter(|c| !model::is_deletion(c))
                    .collect(),
                false => changes,
            },
            defaults,
            swept,
            questions,
        },
    )
}

/// A first step that makes many objects, then small steps.
pub fn history() -> impl Strategy<Value = Vec<Step>> {
    (step(30), vec(step(4), 1..8)).prop_map(|(first, rest)| {
        let mut steps = vec![first];
        steps.extend(rest);
        steps
    })
}

/// Lives through a history in a snapshot of its own, and checks at the end that no count has
/// drifted.
pub async fn live_through(server: &Server, steps: Vec<Step>) {
    static CASES: AtomicUsize = AtomicUsize::new(0);
    let case = CASES.fetch_add(1, Ordering::Relaxed);
    let snapshot = format!("case-{case}");
    let mut cluster = Cluster {
        kubernetes_version: ["", "1.36", "1.35"][case % 3].into(),
        ..Cluster::default()
    };
    for (index, step) in steps.into_iter().enumerate() {
        advance(&mut cluster, &step);
        let mode = if step.replace {
            Mode::Replace
        } else {
            Mode::Unspecified
        };
        let request = UpdateSnapshotRequest {
            mode: mode as i32,
            default_constraints: step.defaults,
            kubernetes_version: cluster.kubernetes_version.clone(),
            ..batch_of(&snapshot, step.changes)
        };
        let response = server.send(request).await;
        assert_eq!(response.revision, index as i64 + 1);
        if let Some(idle) = step.swept {
            server.registry.sweep(idle);
        }
        for asked in step.questions {
            ask(server, &snapshot, &cluster, &asked, response.revision).await;
        }
    }
    server.verify(&snapshot).await;
    server.delete(&snapshot).await;
}

fn advance(cluster: &mut Cluster, step: &Step) {
    if step.replace {
        let before = std::mem::take(cluster);
        *cluster = Cluster {
            defaults: before.defaults,
            kubernetes_version: before.kubernetes_version,
            ..Cluster::default()
        };
    }
    for change in &step.changes {
        model::apply(cluster, change);
    }
    if let Some(defaults) = &step.defaults {
        cluster.defaults = defaults.clone();
    }
}

/// Asks both questions under both node checks, on the state or on the overlay, and checks that an
/// overlay leaves no trace.
async fn ask(server: &Server, snapshot: &str, cluster: &Cluster, asked: &Asked, revision: i64) {
    let mut seen = cluster.clone();
    let overlay = asked.overlay.iter();
    let missed = overlay.filter(|change| !model::hits(&mut seen, change));
    let unknown_deletes: Vec<ObjectReference> = missed.filter_map(model::deleted).collect();
    let before = match asked.overlay.is_empty() {
        true => None,
        false => Some(server.export(snapshot).await),
    };
    for checks in [NodeChecks::SpreadOnly, NodeChecks::Unspecified] {
        let place = format!(
            "{checks:?} at revision {revision}, overlay {:?}",
            asked.overlay
        );
        let about = Question {
            cluster: &seen,
            pod: &asked.pod,
            place: &place,
        };
        let candidates = asked.candidates.as_deref();
        let request = filter_request(snapshot, asked, checks);
        let got = server.filter(request.clone()).await;
        assert_eq!(got.revision, revision);
        assert_eq!(got.unknown_deletes, unknown_deletes, "{about}");
        // Without names an answer is counted domain by domain.
        let counted = FilterRequest {
            view: View::Domains as i32,
            ..request.clone()
        };
        let counted = server.filter(counted).await;
        assert_eq!(counted.reasons, got.reasons, "{about}");
        assert_eq!(counted.feasible_count, got.feasible_count, "{about}");
        agree::filter(&got, &seen.filter(&asked.pod, candidates, checks), &about);
        let got = server.score(score_as(request)).await;
        assert_eq!(got.revision, revision);
        assert_eq!(got.unknown_deletes, unknown_deletes, "{about}");
        agree::score(&got, &seen.score(&asked.pod, candidates, checks), &about);
    }
    if let Some(before) = before {
        assert_eq!(
            server.export(snapshot).await,
            before,
            "an overlay left a trace"
        );
    }
}

fn filter_request(snapshot: &str, asked: &Asked, checks: NodeChecks) -> FilterRequest {
    let names = asked.candidates.clone();
    FilterRequest {
        snapshot: snapshot.into(),
        candidates: names.map(|names| NodeNames { names }),
        node_checks: checks as i32,
        overlay: asked.overlay.clone(),
        ..full_filter_of(asked.pod.clone())
    }
}
