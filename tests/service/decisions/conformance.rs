//! 1,648 cases, asked of a real server and of the oracle: both answer as kube-scheduler 1.35 did.
//! `vectors/` says where the cases come from.

use std::collections::BTreeMap;

use evenkeel::proto::v1::{
    Code, ConstraintReport, DefaultConstraints, FilterRequest, FilterResponse, Node, NodeChecks,
    NodeNames, Pod, ScoreRequest, ScoreResponse,
};
use evenkeel::snapshot::Limits;
use serde::Deserialize;
use serde_json::Value;
use support::agree::{self, Question, WEIGHT_TOLERANCE};
use support::build::{full_filter_of, score_as};
use support::recount::Cluster;
use support::server::Server;
use support::{model, reasons, vectors};

const CASES: usize = 1648;
const HOSTNAME: &str = "kubernetes.io/hostname";

#[derive(Deserialize)]
struct Vector {
    case: Case,
    want: Want,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    name: String,
    nodes: Vec<Node>,
    pods: Vec<Pod>,
    pod: Pod,
    candidates: Option<Vec<String>>,
    default_constraints: Value,
    services: Vec<evenkeel::proto::v1::Service>,
    replica_sets: Vec<evenkeel::proto::v1::ReplicaSet>,
    stateful_sets: Vec<evenkeel::proto::v1::StatefulSet>,
    replication_controllers: Vec<evenkeel::proto::v1::ReplicationController>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Want {
    pre_filter: PreFilter,
    filter: Vec<Verdict>,
    pre_score: PreScore,
    score: Vec<NodeScore>,
}

#[derive(Deserialize)]
struct PreFilter {
    constraints: Vec<Hard>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hard {
    topology_key: String,
    domain_counts: BTreeMap<String, i64>,
    min_match_num: i64,
    domains: i64,
}

#[derive(Deserialize)]
struct Verdict {
    node: String,
    code: String,
    #[serde(default)]
    reasons: Vec<String>,
}

#[derive(Deserialize)]
struct PreScore {
    status: String,
    weights: Vec<f64>,
    ignored: Vec<String>,
    constraints: Vec<Soft>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Soft {
    topology_key: String,
    domain_counts: BTreeMap<String, i64>,
}

#[derive(Deserialize)]
struct NodeScore {
    node: String,
    raw: i64,
    normalized: i64,
}

impl Case {
    fn cluster(&self) -> Cluster {
        Cluster {
            nodes: self.nodes.clone(),
            pods: self.pods.clone(),
            services: self.services.clone(),
            replica_sets: self.replica_sets.clone(),
            stateful_sets: self.stateful_sets.clone(),
            replication_controllers: self.replication_controllers.clone(),
            defaults: self.defaults(),
            ..Cluster::default()
        }
    }

    fn defaults(&self) -> DefaultConstraints {
        match &self.default_constraints {
            Value::Null => DefaultConstraints::default(),
            Value::String(system) if system == "system" => DefaultConstraints {
                system: true,
                ..DefaultConstraints::default()
            },
            list => DefaultConstraints {
                constraints: serde_json::from_value(list.clone()).expect("a list"),
                system: false,
            },
        }
    }
}

fn load() -> Vec<Vector> {
    let vectors: Vec<Vector> = vectors::lines("kubernetes.jsonl.gz")
        .map(|line| serde_json::from_str(&line).expect("a vector"))
        .collect();
    assert_eq!(vectors.len(), CASES);
    vectors
}

/// The server answers as kube-scheduler does, and as the oracle in all that kube-scheduler does not
/// report.
#[tokio::test]
async fn server_decides_like_kube_scheduler() {
    let server = Server::with_limits(Limits {
        max_snapshots: CASES,
        ..Limits::default()
    })
    .await;
    let mut decided = 0;
    for Vector { case, want } in load() {
        let cluster = case.cluster();
        let changes = model::changes(&cluster);
        server.replace(&case.name, changes, case.defaults()).await;
        let filter = server.filter(filter_request(&case)).await;
        let score = server.score(score_request(&case)).await;
        check_filter(&case.name, &filter, &want);
        check_score(&case.name, &score, &want);

        let question = Question {
            cluster: &cluster,
            pod: &case.pod,
            place: &case.name,
        };
        let candidates = case.candidates.as_deref();
        let checks = NodeChecks::SpreadOnly;
        agree::filter(&filter, &cluster.filter(&case.pod, None, checks), &question);
        agree::score(
            &score,
            &cluster.score(&case.pod, candidates, checks),
            &question,
        );
        decided += 1;
    }
    assert_eq!(decided, CASES);
}

/// Checks the oracle itself, which other tests compare the service with.
#[test]
fn oracle_decides_like_kube_scheduler() {
    for Vector { case, want } in load() {
        let (name, cluster, checks) = (&case.name, case.cluster(), NodeChecks::SpreadOnly);
        let filter = cluster.filter(&case.pod, None, checks);
        let score = cluster.score(&case.pod, case.candidates.as_deref(), checks);
        check_filter(name, &agree::filter_response(&filter), &want);
        check_score(name, &agree::score_response(&score), &want);
    }
}

fn filter_request(case: &Case) -> FilterRequest {
    FilterRequest {
        snapshot: case.name.clone(),
        node_checks: NodeChecks::SpreadOnly as i32,
        ..full_filter_of(case.pod.clone())
    }
}

fn score_request(case: &Case) -> ScoreRequest {
    let names = case.candidates.clone();
    ScoreRequest {
        candidates: names.map(|names| NodeNames { names }),
        ..score_as(filter_request(case))
    }
}

fn check_filter(name: &str, got: &FilterResponse, want: &Want) {
    reasons::check(&got.infeasible, &got.reasons);
    let mut verdicts: BTreeMap<&str, (Option<Code>, Vec<String>)> = got
        .infeasible
        .iter()
        .map(|v| (v.node.as_str(), (Some(v.code()), vec![v.reason.clone()])))
        .collect();
    let feasible = got.feasible.iter().map(|n| (n.as_str(), (None, vec![])));
    verdicts.extend(feasible);
    let wanted = want.filter.iter().map(|v| {
        let code = match v.code.as_str() {
            "Success" => None,
            "Unschedulable" => Some(Code::Unschedulable),
            "UnschedulableAndUnresolvable" => Some(Code::UnschedulableAndUnresolvable),
            other => panic!("{name}: the vectors know no code {other}"),
        };
        (v.node.as_str(), (code, v.reasons.clone()))
    });
    assert_eq!(verdicts, wanted.collect(), "{name}: verdicts");
    assert_eq!(
        got.constraints.len(),
        want.pre_filter.constraints.len(),
        "{name}"
    );
    for (got, want) in got.constraints.iter().zip(&want.pre_filter.constraints) {
        let name = format!("{name}, constraint on {}", want.topology_key);
        assert_eq!(topology_key(got), want.topology_key, "{name}");
        assert_eq!(counts(got), want.domain_counts, "{name}: domain counts");
        assert_eq!(got.global_minimum, want.min_match_num, "{name}: minimum");
        assert_eq!(got.domain_count, want.domains, "{name}: domains");
    }
}

fn check_score(name: &str, got: &ScoreResponse, want: &Want) {
    assert_eq!(
        got.skipped,
        want.pre_score.status == "Skip",
        "{name}: skipped"
    );
    let constraints = &want.pre_score.constraints;
    assert_eq!(
        got.constraints.len(),
        constraints.len(),
        "{name}: constraints"
    );
    for (got, want) in got.constraints.iter().zip(constraints) {
        assert_eq!(topology_key(got), want.topology_key, "{name}");
        if want.topology_key != HOSTNAME {
            // kube-scheduler keeps no counts by hostname; only the scores show them.
            assert_eq!(counts(got), want.domain_counts, "{name}: domain counts");
        }
    }
    for (got, want) in got.constraints.iter().zip(&want.pre_score.weights) {
        let apart = (got.weight - want).abs();
        assert!(
            apart <= WEIGHT_TOLERANCE,
            "{name}: weight {}, not {want}",
            got.weight
        );
    }
    let mut ignored: Vec<&str> = got
        .scores
        .iter()
        .filter(|s| s.ignored)
        .map(|s| s.node.as_str())
        .collect();
    let mut wanted: Vec<&str> = want.pre_score.ignored.iter().map(String::as_str).collect();
    ignored.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(ignored, wanted, "{name}: ignored nodes");
    if !got.skipped {
        let scores: BTreeMap<&str, (i64, i64)> = got
            .scores
            .iter()
            .map(|s| (s.node.as_str(), (s.raw, s.score)))
            .collect();
        let wanted = want
            .score
            .iter()
            .map(|s| (s.node.as_str(), (s.raw, s.normalized)));
        assert_eq!(
            scores,
            wanted.collect(),
            "{name}: raw and normalized scores"
        );
    }
}

fn topology_key(report: &ConstraintReport) -> &str {
    report.constraint.as_ref().map_or("", |c| &c.topology_key)
}

fn counts(report: &ConstraintReport) -> BTreeMap<String, i64> {
    let counts = report
        .domains
        .iter()
        .map(|d| (d.value.clone(), d.matching_pods));
    counts.collect()
}
