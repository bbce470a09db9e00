//! 622 cases with nominated pods, asked of a real server and of the oracle: both answer as
//! kube-scheduler 1.35 did.

use std::collections::BTreeMap;

use super::recorded::{Case, Verdict, feed, filter, load, server_of};
use evenkeel::proto::v1::{NodeChecks, NodeVerdict};
use serde::Deserialize;

const CASES: usize = 622;

/// The version that answered.
const VERSION: &str = "1.35";

type NominatedCase = Case<BTreeMap<String, Judged>>;

#[derive(Deserialize)]
struct Judged {
    #[serde(flatten)]
    verdict: Verdict,
    /// The verdict without nominated pods.
    without: Verdict,
}

impl Judged {
    /// Returns whether nominated pods alone keep the pod off the node.
    fn is_by_nominated(&self) -> bool {
        let success = Verdict::of(None, Vec::new());
        self.verdict != success && self.without == success
    }
}

/// The verdicts that kube-scheduler gave, each with whether it is due to nominated pods alone.
fn wanted(case: &NominatedCase) -> BTreeMap<&str, (&Verdict, bool)> {
    let wanted = case.want.iter();
    wanted
        .map(|(node, judged)| (&**node, (&judged.verdict, judged.is_by_nominated())))
        .collect()
}

fn cases() -> Vec<NominatedCase> {
    let cases: Vec<NominatedCase> = load("nominated.jsonl.gz", CASES);
    // Without such cases the tests would prove nothing about nominated pods.
    let judged = cases.iter().flat_map(|case| case.want.values());
    assert!(judged.filter(|judged| judged.is_by_nominated()).count() > 50);
    cases
}

fn check(case: &NominatedCase, got: &BTreeMap<String, (Verdict, bool)>) {
    let got: BTreeMap<&str, (&Verdict, bool)> = got
        .iter()
        .map(|(node, (verdict, by_nominated))| (&**node, (verdict, *by_nominated)))
        .collect();
    assert_eq!(got, wanted(case), "{}", case.name);
}

#[tokio::test]
async fn server_judges_with_nominated_pods_like_kube_scheduler() {
    let server = server_of(CASES).await;
    for case in cases() {
        let snapshot = case.name.replace('/', "-");
        feed(&server, &snapshot, &case.cluster_of(VERSION)).await;
        let answer = filter(&server, &snapshot, &case.pod).await;
        let judged =
            |verdict: &NodeVerdict| (Verdict::of_node(verdict), verdict.nominated_pods > 0);
        let passed = answer.feasible.iter().map(|name| {
            let verdict = Verdict::of(None, Vec::new());
            (name.clone(), (verdict, false))
        });
        let refused = answer.infeasible.iter();
        let refused = refused.map(|verdict| (verdict.node.clone(), judged(verdict)));
        check(&case, &passed.chain(refused).collect());
    }
}

/// Checks the oracle itself, which other tests compare the service with.
#[test]
fn oracle_judges_with_nominated_pods_like_kube_scheduler() {
    for case in cases() {
        let answer = case
            .cluster_of(VERSION)
            .filter(&case.pod, None, NodeChecks::Unspecified);
        let verdicts = answer.verdicts.into_iter().map(|verdict| {
            let refusal = verdict.refusal.as_ref();
            let by_nominated = refusal.is_some_and(|refusal| refusal.nominated_pods > 0);
            let judged = (Verdict::of_refusal(verdict.refusal), by_nominated);
            (verdict.node, judged)
        });
        check(&case, &verdicts.collect());
    }
}
