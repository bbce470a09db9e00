//! 1,648 cases, asked of a real server and of the oracle: both answer as kube-scheduler 1.35 did.
//! `vectors/` says where the cases come from.

use std::collections::BTreeMap;

use evenkeel::proto::v1::{
    ConstraintReport, FilterRequest, FilterResponse, NodeChecks, NodeNames, ScoreRequest,
    ScoreResponse,
};
use evenkeel::snapshot::Limits;
use serde::Deserialize;
use support::agree::{self, Question, WEIGHT_TOLERANCE};
use support::build::{full_filter_of, score_as};
use support::server::Server;
use support::{model, reasons};

use super::recorded::{Case, Verdict, load_recorded, verdicts};

const CASES: usize = 1648;
const HOSTNAME: &str = "kubernetes.io/hostname";

#[derive(Deserialize)]
struct Vector {
    case: Case,
    want: Want,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Want {
    pre_filter: PreFilter,
    filter: Vec<Judged>,
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
struct Judged {
    node: String,
    #[serde(flatten)]
    verdict: Verdict,
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

fn load() -> Vec<Vector> {
    load_recorded("kubernetes.jsonl.gz", CASES)
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
        server
            .replace(&case.name, changes, cluster.defaults.clone())
            .await;
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
    let wanted = want.filter.iter();
    let wanted = wanted.map(|it| (it.node.clone(), (it.verdict.clone(), false)));
    assert_eq!(verdicts(got), wanted.collect(), "{name}: verdicts");
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
