//! Cases about pods with affinity to other pods, and about pods that need features of their nodes,
//! asked of a real server and of the oracle: both answer as kube-scheduler 1.36 and 1.37 did.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use support::vectors;

use super::recorded::{Case, Verdict, check_place, feed, filter, recounted, server_of, verdicts};
use serde::Deserialize;

/// The files and how many cases they have.
const FILES: [(&str, usize); 2] = [("affinity.jsonl.gz", 670), ("features.jsonl.gz", 141)];

type AffinityCase = Case<Want>;

#[derive(Clone, Deserialize)]
struct Want {
    nodes: BTreeMap<String, Verdict>,
}

#[derive(Deserialize)]
struct Recorded {
    #[serde(flatten)]
    case: AffinityCase,
    #[serde(rename = "wantUntil1.36")]
    until_1_36: Option<Want>,
}

/// The cases of `FILES`, or of the file that `AFFINITY_CASES` names, each for both versions.
fn cases() -> Vec<(&'static str, AffinityCase)> {
    let lines: Vec<String> = match env::var("AFFINITY_CASES") {
        Ok(file) => vectors::lines_of(Path::new(&file)).collect(),
        Err(_) => {
            let files = FILES.iter().flat_map(|(file, count)| {
                let lines: Vec<String> = vectors::lines(file).collect();
                assert_eq!(lines.len(), *count, "{file}");
                lines
            });
            files.collect()
        }
    };
    let recorded = lines.iter().map(|line| serde_json::from_str(line));
    let each = recorded.flat_map(|recorded| {
        let Recorded { case, until_1_36 } = recorded.expect("a case");
        let want = until_1_36.unwrap_or_else(|| case.want.clone());
        [
            (
                "1.36",
                Case {
                    want,
                    ..case.clone()
                },
            ),
            ("1.37", case),
        ]
    });
    each.collect()
}

#[tokio::test]
async fn server_judges_affinity_and_features_like_kube_scheduler() {
    let cases = cases();
    let server = server_of(cases.len()).await;
    for (version, case) in cases {
        let snapshot = format!("{version}-{}", case.name.replace('/', "-"));
        let cluster = case.cluster_of(version);
        feed(&server, &snapshot, &cluster).await;
        let answer = filter(&server, &snapshot, &case.pod).await;
        // The server cannot check a namespaceSelector in a cluster whose case lists no namespaces.
        let is_due = |field: &String| {
            field.ends_with(".namespaceSelector") && cluster.namespaces.is_empty()
                || case.name.ends_with("deferred-resize")
        };
        assert!(
            answer.unchecked.iter().all(is_due),
            "{version} {}",
            case.name
        );
        let got = verdicts(&answer);
        assert_eq!(got, case.want.nodes, "{version} {}", case.name);
        check_place(&server, &snapshot, &cluster, &case.pod).await;
    }
}

/// Checks the oracle itself, which other tests compare the service with.
#[test]
fn oracle_judges_affinity_and_features_like_kube_scheduler() {
    for (version, case) in cases() {
        let got = recounted(&case.cluster_of(version), &case.pod);
        assert_eq!(got, case.want.nodes, "{version} {}", case.name);
    }
}
