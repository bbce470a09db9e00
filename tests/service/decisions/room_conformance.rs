//! 399 cases of room on nodes, asked of a real server and of the oracle: both answer as
//! kube-scheduler did, in each version that answers some cases differently.
//!
//! With `ROOM=DIRECTORY` all cases of each version are read from that directory. The vectors have
//! of `room-1.36.jsonl.gz` and `room-1.37.jsonl.gz` only the cases that differ.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::recorded::{Case, Verdict, feed, load, recounted, server_of, verdicts};
use evenkeel::proto::v1::{FilterRequest, NodeChecks, Pod, PodSpec, View};
use serde::Deserialize;
use support::{reasons, vectors};

/// The versions, their files, and how many cases those have.
const FILES: [(&str, &str, usize); 3] = [
    ("1.35", "room.jsonl.gz", 399),
    ("1.36", "room-1.36.jsonl.gz", 10),
    ("1.37", "room-1.37.jsonl.gz", 105),
];

#[derive(Clone, Deserialize)]
struct Want {
    gated: bool,
    nodes: BTreeMap<String, Verdict>,
}

/// A case that 1.37 decides by an empty list in a status: an empty list counts as nothing, and an
/// absent one as the wanted amount. Only JSON tells the two apart. In protobuf, in which schedulers
/// get pods, both are absent.
const EMPTY_LIST: (&str, &str) = ("1.37", "random/1-0291");

/// The cases of each version. The file of a version has only the cases that it answers differently
/// from the version before; the others are taken from that version.
fn cases() -> Vec<(&'static str, Vec<Case<Want>>)> {
    let whole = std::env::var_os("ROOM").map(PathBuf::from);
    let files = FILES
        .into_iter()
        .map(|(version, file, count)| match &whole {
            Some(directory) => {
                let lines = vectors::lines_of(&directory.join(file));
                let cases = lines.map(|line| serde_json::from_str(&line).expect("a case"));
                (version, cases.collect())
            }
            None => (version, load(file, count)),
        });
    let mut versions: Vec<(&str, Vec<Case<Want>>)> = files.collect();
    for at in 1..versions.len() {
        let (before, from) = versions.split_at_mut(at);
        let known: BTreeSet<String> = from[0].1.iter().map(|case| case.name.clone()).collect();
        let alike = before[0]
            .1
            .iter()
            .filter(|case| !known.contains(&case.name));
        from[0].1.extend(alike.cloned());
    }
    versions
}

/// Each case with each version.
fn each_case() -> impl Iterator<Item = (&'static str, Case<Want>)> {
    let versions = cases().into_iter();
    let all = versions.flat_map(|(version, cases)| cases.into_iter().map(move |it| (version, it)));
    all.filter(|(version, case)| (*version, &*case.name) != EMPTY_LIST)
}

impl Case<Want> {
    /// The incoming pod without its gates, which the plugins of Filter do not
    /// look at.
    fn ungated(&self) -> Pod {
        let spec = self.pod.spec.clone().unwrap_or_default();
        Pod {
            spec: Some(PodSpec {
                scheduling_gates: Vec::new(),
                ..spec
            }),
            ..self.pod.clone()
        }
    }
}

#[tokio::test]
async fn server_finds_room_like_kube_scheduler() {
    let server = server_of(3 * 399).await;
    for (version, case) in each_case() {
        let snapshot = format!("{version}-{}", case.name.replace(['/', '_'], "-"));
        feed(&server, &snapshot, &case.cluster_of(version)).await;
        let ask = async |pod: Pod, node_checks: NodeChecks| {
            let request = FilterRequest {
                snapshot: snapshot.clone(),
                pod: Some(pod),
                view: View::Full as i32,
                node_checks: node_checks as i32,
                ..FilterRequest::default()
            };
            server.filter(request).await
        };
        let answer = ask(case.ungated(), NodeChecks::Unspecified).await;
        reasons::check(&answer.infeasible, &answer.reasons);
        assert_eq!(
            verdicts(&answer),
            case.want.nodes,
            "{version}: {}",
            case.name
        );

        let whole = ask(case.pod.clone(), NodeChecks::Unspecified).await;
        reasons::check(&whole.infeasible, &whole.reasons);
        let gated = whole
            .reasons
            .iter()
            .any(|r| r.reason.starts_with("waiting for scheduling gates"));
        assert_eq!(gated, case.want.gated, "{}", case.name);
        if gated {
            assert_eq!(
                whole.reasons[0].count as usize,
                case.nodes.len(),
                "{}",
                case.name
            );
        }
        let spread = ask(case.pod.clone(), NodeChecks::SpreadOnly).await;
        assert_eq!(
            spread.feasible_count as usize,
            case.nodes.len(),
            "{}",
            case.name
        );
    }
}

/// Checks the oracle itself, which other tests compare the service with.
#[test]
fn oracle_finds_room_like_kube_scheduler() {
    for (version, case) in each_case() {
        let got = recounted(&case.cluster_of(version), &case.ungated());
        assert_eq!(got, case.want.nodes, "{version}: {}", case.name);
    }
}
