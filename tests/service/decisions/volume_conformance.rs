//! Cases about the claims and disks of pods, asked of a real server and of the oracle: both answer
//! as kube-scheduler 1.37 did.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use support::vectors;

use super::recorded::{
    Case, Verdict, check_place, feed, filter, load, recounted, server_of, verdicts,
};
use serde::Deserialize;

const CASES: usize = 600;

type VolumeCase = Case<Want>;

#[derive(Deserialize)]
struct Want {
    nodes: BTreeMap<String, Verdict>,
}

/// The recorded cases, or those of the file that `VOLUME_CASES` names.
fn cases() -> Vec<VolumeCase> {
    match env::var("VOLUME_CASES") {
        Ok(file) => {
            let lines = vectors::lines_of(Path::new(&file));
            lines
                .map(|line| serde_json::from_str(&line).expect("a case"))
                .collect()
        }
        Err(_) => load("volumes.jsonl.gz", CASES),
    }
}

/// The expected verdicts. kube-scheduler fails on a storage class without a binding mode, which no
/// API server stores; the service refuses the node instead.
fn wanted(case: &VolumeCase) -> BTreeMap<String, Verdict> {
    let mut wanted = case.want.nodes.clone();
    wanted.values_mut().for_each(Verdict::fail_as_unresolvable);
    wanted
}

#[tokio::test]
async fn server_judges_volumes_like_kube_scheduler() {
    let cases = cases();
    let server = server_of(cases.len()).await;
    for case in cases {
        let snapshot = case.name.replace('/', "-");
        let cluster = case.cluster();
        feed(&server, &snapshot, &cluster).await;
        let answer = filter(&server, &snapshot, &case.pod).await;
        // Nodes may limit the volumes that are yet to be made or that drivers provide.
        let is_due = |field: &String| field.starts_with("spec.volumes (");
        assert!(answer.unchecked.iter().all(is_due), "{}", case.name);
        assert_eq!(verdicts(&answer), wanted(&case), "{}", case.name);
        check_place(&server, &snapshot, &cluster, &case.pod).await;
    }
}

/// Checks the oracle itself, which other tests compare the service with.
#[test]
fn oracle_judges_volumes_like_kube_scheduler() {
    for case in cases() {
        let got = recounted(&case.cluster(), &case.pod);
        assert_eq!(got, wanted(&case), "{}", case.name);
    }
}
