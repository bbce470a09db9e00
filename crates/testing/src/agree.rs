//! Checks that compare an answer of the service with the oracle's.

use std::collections::BTreeMap;

use evenkeel::proto::v1::{
    ConstraintReport, Domain, FilterRequest, FilterResponse, NodeChecks, NodeScore, NodeVerdict,
    Pod, ReasonCount, RefusalReason, ScoreResponse, TopologySpreadConstraint,
};

use crate::recount::{self, Cluster, LabelMap, labels, selector_matches};

use super::build::{full_filter_of, score_as};
use super::reasons;
use super::server::Server;

/// The largest difference between two weights that count as equal.
pub const WEIGHT_TOLERANCE: f64 = 1e-12;

/// Checks that the answer to a Filter with VIEW_FULL and `max_domains: 0` is the oracle's.
pub fn filter(got: &FilterResponse, want: &recount::FilterRecount, about: &Question) {
    let wanted = filter_response(want);
    assert_eq!(got.feasible, wanted.feasible, "feasible nodes, {about}");
    assert_eq!(
        got.infeasible, wanted.infeasible,
        "infeasible nodes, {about}"
    );
    assert_eq!(got.reasons, wanted.reasons, "reasons, {about}");
    assert_eq!(got.feasible_count, wanted.feasible_count, "{about}");
    assert_eq!(got.node_count, wanted.node_count, "{about}");
    reports(&got.constraints, &wanted.constraints, about);
}

/// Checks that the answer to a Score with VIEW_FULL and `max_domains: 0` is the oracle's.
pub fn score(got: &ScoreResponse, want: &recount::ScoreRecount, about: &Question) {
    let wanted = score_response(want);
    assert_eq!(got.skipped, wanted.skipped, "skipped, {about}");
    assert_eq!(got.scores, wanted.scores, "scores, {about}");
    reports(&got.constraints, &wanted.constraints, about);
}

/// Checks that the server decides about the pod as the oracle does.
pub async fn decisions(server: &Server, snapshot: &str, about: &Question<'_>) {
    let (cluster, pod) = (about.cluster, about.pod);
    let checks = NodeChecks::Unspecified;
    let request = FilterRequest {
        snapshot: snapshot.into(),
        ..full_filter_of(pod.clone())
    };
    let got = server.filter(request.clone()).await;
    filter(&got, &cluster.filter(pod, None, checks), about);
    let got = server.score(score_as(request)).await;
    score(&got, &cluster.score(pod, None, checks), about);
}

/// The oracle's answer to Filter as a message of the protocol.
pub fn filter_response(want: &recount::FilterRecount) -> FilterResponse {
    let infeasible: Vec<NodeVerdict> = want.verdicts.iter().filter_map(refusal).collect();
    FilterResponse {
        feasible_count: want.feasible().len() as i64,
        feasible: want.feasible(),
        reasons: reason_counts(&infeasible),
        infeasible,
        node_count: want.verdicts.len() as i64,
        constraints: want.reports.iter().map(report).collect(),
        ..FilterResponse::default()
    }
}

/// The oracle's answer to Score as a message of the protocol.
pub fn score_response(want: &recount::ScoreRecount) -> ScoreResponse {
    let scores = want.scores.iter().map(|score| NodeScore {
        node: score.node.clone(),
        score: score.score,
        raw: score.raw,
        ignored: score.ignored,
    });
    ScoreResponse {
        skipped: want.skipped,
        scores: scores.collect(),
        constraints: want.reports.iter().map(report).collect(),
        ..ScoreResponse::default()
    }
}

/// The question of an answer: it is shown when the answer is wrong, and needed to compare selectors
/// by what they match.
pub struct Question<'a> {
    /// The cluster that the oracle decided on.
    pub cluster: &'a Cluster,
    /// The incoming pod.
    pub pod: &'a Pod,
    /// The place in the test.
    pub place: &'a str,
}

impl std::fmt::Display for Question<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pod = serde_json::to_string(self.pod).map_err(|_| std::fmt::Error)?;
        write!(f, "{}, pod {pod}", self.place)
    }
}

fn refusal(verdict: &recount::NodeRecount) -> Option<NodeVerdict> {
    let refusal = verdict.refusal.as_ref()?;
    Some(NodeVerdict {
        node: verdict.node.clone(),
        code: refusal.code as i32,
        reason: refusal.reasons.join(", "),
        reasons: refusal
            .reasons
            .iter()
            .map(|r| reasons::code_of(r))
            .collect(),
        constraint_index: refusal.constraint_index,
        matching_pods: refusal.matching_pods,
        skew: refusal.skew,
        nominated_pods: refusal.nominated_pods,
    })
}

/// Counts the reasons: the most frequent first, then by reason.
fn reason_counts(refused: &[NodeVerdict]) -> Vec<ReasonCount> {
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    // Each resource that a node has too little of is a reason.
    for reason in refused
        .iter()
        .flat_map(|verdict| verdict.reason.split(", "))
    {
        *counts.entry(reason).or_default() += 1;
    }
    let mut reasons: Vec<ReasonCount> = counts
        .into_iter()
        .map(|(reason, count)| {
            let RefusalReason { code, resource } = reasons::code_of(reason);
            ReasonCount {
                reason: reason.into(),
                count,
                code,
                resource,
            }
        })
        .collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.count));
    reasons
}

fn report(want: &recount::ConstraintRecount) -> ConstraintReport {
    let spec = &want.constraint.spec;
    ConstraintReport {
        constraint_index: want.constraint.index,
        constraint: Some(spec.clone()),
        from_defaults: want.constraint.from_defaults,
        domain_count: want.size,
        global_minimum: want.minimum,
        self_match: want.self_match as i32,
        domains: domains(want),
        weight: want.weight,
        min_domains_unmet: spec.min_domains.is_some_and(|m| want.size < i64::from(m)),
    }
}

/// The domains, ascending by count, then by value.
fn domains(want: &recount::ConstraintRecount) -> Vec<Domain> {
    let spec = &want.constraint.spec;
    let hard = spec.when_unsatisfiable == "DoNotSchedule";
    let mut domains: Vec<Domain> = want
        .domains
        .iter()
        .map(|(value, domain)| {
            let skew = domain.matching_pods + want.self_match - want.minimum;
            Domain {
                value: value.clone(),
                matching_pods: domain.matching_pods,
                skew,
                feasible: !hard || want.counts_own_node || skew <= i64::from(spec.max_skew),
                eligible_nodes: domain.nodes,
                feasible_nodes: domain.feasible,
            }
        })
        .collect();
    domains.sort_by_key(|domain| domain.matching_pods);
    domains
}

fn reports(got: &[ConstraintReport], want: &[ConstraintReport], about: &Question) {
    assert_eq!(got.len(), want.len(), "constraint reports, {about}");
    for (got, want) in got.iter().zip(want) {
        resolved(got.constraint.as_ref(), want.constraint.as_ref(), about);
        let apart = (got.weight - want.weight).abs();
        assert!(apart <= WEIGHT_TOLERANCE, "weight of {got:?}, {about}");
        // The constraint and the weight were compared above. The rest must be equal.
        let got = ConstraintReport {
            constraint: want.constraint.clone(),
            weight: want.weight,
            ..got.clone()
        };
        assert_eq!(got, *want, "{about}");
    }
}

/// Checks the constraint as evaluated: unset fields are filled in, and the selector matches the
/// same pods, however it is written.
fn resolved(
    got: Option<&TopologySpreadConstraint>,
    want: Option<&TopologySpreadConstraint>,
    about: &Question,
) {
    let (got, want) = got.zip(want).expect("a report has a constraint");
    let without_selector = |spec: &TopologySpreadConstraint| TopologySpreadConstraint {
        label_selector: None,
        match_label_keys: Vec::new(),
        ..spec.clone()
    };
    assert_eq!(without_selector(got), without_selector(want), "{about}");
    let pods = about.cluster.pods.iter().chain([about.pod]);
    let universe = pods.map(|pod| labels(pod.metadata.as_ref()));
    for labels in universe.chain([LabelMap::new()]) {
        assert_eq!(
            selector_matches(got.label_selector.as_ref(), &labels),
            selector_matches(want.label_selector.as_ref(), &labels),
            "the selector {:?} on {labels:?}, {about}",
            got.label_selector
        );
    }
}
