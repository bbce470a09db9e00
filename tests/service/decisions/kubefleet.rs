//! 955 cases, asked of a real server, which answers as KubeFleet's scheduler did. `vectors/` says
//! where the cases come from.

use std::collections::BTreeMap;

use evenkeel::proto::v1::{
    Change, Dialect, FilterRequest, Holder, HolderState, Node, NodeBonus, NodeChecks, NodeNames,
    NodeScore, NodeVerdict, ObjectMeta, PlaceRequest, PlacementStep, Pod, ScoreRequest,
    TopologySpreadConstraint, View,
};
use serde::Deserialize;
use support::build::{filter_in, meta, on, place_of, pod, score_of, spread, tainted, terminating};
use support::model::Stored;
use support::reasons;
use support::server::Server;

use super::recorded::load_recorded;

/// The files, each with the number of its cases.
const FILES: [(&str, usize); 2] = [("fleet.jsonl.gz", 645), ("fleet-extended.jsonl.gz", 310)];

/// Labels of the placement.
const PLACEMENT: [(&str, &str); 1] = [("placement", "crp")];

#[derive(Deserialize)]
struct Vector {
    #[serde(default)]
    name: String,
    case: Case,
    want: Want,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    clusters: Vec<ObjectMeta>,
    selected: Vec<String>,
    constraints: Vec<TopologySpreadConstraint>,
    #[serde(default)]
    affinity_scores: BTreeMap<String, i64>,
    pick_n: Option<i32>,
    #[serde(default)]
    ineligible: Vec<String>,
    #[serde(default)]
    obsolete: Vec<String>,
    #[serde(default)]
    bindings: Vec<Binding>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Binding {
    cluster: String,
    state: String,
    topology_spread_score: Option<i64>,
    affinity_score: Option<i64>,
}

#[derive(Deserialize)]
struct Want {
    scores: BTreeMap<String, i64>,
    violations: BTreeMap<String, Vec<String>>,
    picked: Vec<String>,
    steps: Vec<Step>,
    #[serde(default)]
    removed: Vec<String>,
    fulfilled: Option<bool>,
}

#[derive(Deserialize)]
struct Step {
    scores: BTreeMap<String, i64>,
    violations: BTreeMap<String, Vec<String>>,
    ranking: Vec<String>,
    picked: Vec<String>,
}

impl Case {
    /// The objects of the fleet: ineligible clusters are tainted nodes, and holders have a pod.
    fn changes(&self) -> Vec<Change> {
        let cluster = |metadata: &ObjectMeta| {
            let mut node = Node {
                metadata: Some(metadata.clone()),
                ..Node::default()
            };
            if self.ineligible.contains(&metadata.name) {
                node = tainted(node, "ineligible", "", "NoSchedule");
            }
            node.change()
        };
        let holder = |name: &str| on(pod(&format!("on-{name}"), &PLACEMENT), name);
        let bound = self.held().map(|binding| &binding.cluster);
        let clusters = self.clusters.iter().map(cluster);
        let leaving = self.bindings.iter().filter(|b| b.state == "Unscheduled");
        let leaving = leaving.map(|binding| terminating(holder(&binding.cluster)));
        let holders = self.selected.iter().chain(bound).map(|name| holder(name));
        let pods = holders.chain(leaving).map(Stored::change);
        clusters.chain(pods).collect()
    }

    /// The bindings that hold the placement. An unscheduled binding is about to be deleted and
    /// holds nothing.
    fn held(&self) -> impl Iterator<Item = &Binding> {
        self.bindings.iter().filter(|b| b.state != "Unscheduled")
    }

    fn pod(&self) -> Pod {
        let template = Pod {
            metadata: Some(meta("", &PLACEMENT)),
            ..Pod::default()
        };
        spread(template, self.constraints.clone())
    }

    fn place(&self, snapshot: &str, view: View) -> PlaceRequest {
        let bonus = |(node, score): (&String, &i64)| NodeBonus {
            node: node.clone(),
            score: *score,
        };
        let holder = |binding: &Binding| Holder {
            node: binding.cluster.clone(),
            state: match &*binding.state {
                "Bound" => HolderState::Bound.into(),
                "Scheduled" => HolderState::Scheduled.into(),
                other => panic!("the vectors know no state {other}"),
            },
            spread_score: binding.topology_spread_score,
            bonus: binding.affinity_score,
        };
        PlaceRequest {
            snapshot: snapshot.into(),
            dialect: Dialect::Fleet.into(),
            bonuses: self.affinity_scores.iter().map(bonus).collect(),
            holders: self.held().map(holder).collect(),
            sticky: self.obsolete.clone(),
            view: view.into(),
            ..place_of(self.pod(), self.pick_n.unwrap_or(0))
        }
    }
}

/// Scores, violations and their texts, the order of picks, the ranking of each step and the removed
/// clusters are all as KubeFleet answered.
#[tokio::test]
async fn server_decides_like_kubefleet() {
    let server = Server::start().await;
    for (file, count) in FILES {
        let vectors = load_recorded::<Vector>(file, count);
        for (number, vector) in vectors.into_iter().enumerate() {
            let name = format!("{file}, case {number} {:?}", vector.name);
            let snapshot = "fleet";
            server
                .replace(snapshot, vector.case.changes(), Default::default())
                .await;
            check_evaluation(&server, snapshot, &name, &vector).await;
            // Cases without `pick_n` only evaluate.
            match vector.case.pick_n {
                Some(_) => check_picks(&server, snapshot, &name, &vector).await,
                None => assert!(vector.want.steps.is_empty() && vector.want.removed.is_empty()),
            }
        }
    }
}

async fn check_evaluation(server: &Server, snapshot: &str, name: &str, vector: &Vector) {
    let Vector { case, want, .. } = vector;
    let filter = FilterRequest {
        node_checks: NodeChecks::SpreadOnly.into(),
        view: View::Full.into(),
        dialect: Dialect::Fleet.into(),
        ..filter_in(snapshot, case.pod())
    };
    let filter = server.filter(filter).await;
    assert_eq!(
        violations(&filter.infeasible),
        want.violations,
        "{name}: Filter"
    );
    let passing = case.clusters.len() - want.violations.len();
    assert_eq!(filter.feasible.len(), passing, "{name}: feasible");

    let names = case.clusters.iter().map(|c| c.name.clone()).collect();
    let score = ScoreRequest {
        snapshot: snapshot.into(),
        candidates: Some(NodeNames { names }),
        dialect: Dialect::Fleet.into(),
        ..score_of(case.pod())
    };
    let score = server.score(score).await;
    assert_eq!(
        score.skipped,
        case.constraints.is_empty() || case.clusters.is_empty(),
        "{name}"
    );
    if !score.skipped {
        assert_eq!(scores(&score.scores), want.scores, "{name}: Score");
    }
}

async fn check_picks(server: &Server, snapshot: &str, name: &str, vector: &Vector) {
    let Vector { case, want, .. } = vector;
    let full = server.place(case.place(snapshot, View::Full)).await;
    reasons::check(&[], &full.reasons);
    let picked: Vec<&str> = full.placements.iter().map(|p| &*p.node).collect();
    assert_eq!(picked, want.picked, "{name}: picks");
    assert_eq!(full.removed, want.removed, "{name}: removed");
    assert_eq!(
        want.fulfilled.unwrap_or(true),
        full.unplaced == 0,
        "{name}: unplaced"
    );
    let explained = full.unplaced > 0 && !case.clusters.is_empty();
    assert_eq!(!full.reasons.is_empty(), explained, "{name}: reasons");
    assert_eq!(full.steps.len(), want.steps.len(), "{name}: steps");
    for (i, (step, want)) in full.steps.iter().zip(&want.steps).enumerate() {
        check_step(&format!("{name}, step {i}"), step, want);
    }
    // The basic view picks the same and leaves the steps out.
    let basic = server.place(case.place(snapshot, View::Basic)).await;
    assert_eq!(basic.placements, full.placements, "{name}: basic view");
    assert!(basic.steps.is_empty(), "{name}: basic view");
}

fn check_step(name: &str, step: &PlacementStep, want: &Step) {
    assert_eq!(scores(&step.scores), want.scores, "{name}: scores");
    assert_eq!(
        violations(&step.violations),
        want.violations,
        "{name}: violations"
    );
    assert_eq!(step.ranking, want.ranking, "{name}: ranking");
    assert_eq!(step.picked, want.picked, "{name}: picked");
}

fn scores(scores: &[NodeScore]) -> BTreeMap<String, i64> {
    let pair = |score: &NodeScore| {
        assert_eq!(score.score, score.raw);
        (score.node.clone(), score.score)
    };
    scores.iter().map(pair).collect()
}

fn violations(verdicts: &[NodeVerdict]) -> BTreeMap<String, Vec<String>> {
    reasons::check(verdicts, &[]);
    let pair = |verdict: &NodeVerdict| (verdict.node.clone(), vec![verdict.reason.clone()]);
    verdicts.iter().map(pair).collect()
}
