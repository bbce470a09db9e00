//! A description of all namespaces shows one revision, also while a workload moves between them.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::decisions::describe_spread::ask;
use evenkeel::proto::v1::{Change, DescribeSpreadRequest, Pod};
use support::build::{HOSTNAME, node, on, pod};
use support::model::{Stored, delete};
use support::server::Server;

/// Number of namespaces that are listed between `a` and `z`, the two that a workload moves between.
const BETWEEN: usize = 40;
const ROUNDS: usize = 150;

fn pods(namespace: &str) -> [Pod; 2] {
    ["n1", "n2"].map(|node| {
        let mut pod = on(pod(node, &[("app", "web")]), node);
        pod.metadata.get_or_insert_default().namespace = namespace.into();
        pod
    })
}

fn comes(namespace: &str) -> impl Iterator<Item = Change> + use<> {
    pods(namespace).into_iter().map(|pod| pod.change())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn all_namespaces_are_of_one_revision() {
    let server = Server::start().await;
    let mut all: Vec<Change> = ["n1", "n2"].map(|name| node(name, &[]).change()).into();
    all.extend((0..BETWEEN).flat_map(|number| comes(&format!("m{number}"))));
    all.extend(comes("a"));
    let first = server.update("", all).await.revision;
    let done = AtomicBool::new(false);
    let moves = async {
        let mut names = ["a", "z"];
        while !done.load(Ordering::Relaxed) {
            let goes = ["n1", "n2"].map(|pod| delete("Pod", names[0], pod));
            let moved = goes.into_iter().chain(comes(names[1])).collect();
            server.update("", moved).await;
            names.reverse();
        }
    };
    let questions = async {
        for _ in 0..ROUNDS {
            let request = DescribeSpreadRequest {
                topology_key: HOSTNAME.into(),
                page_size: 1_000,
                ..DescribeSpreadRequest::default()
            };
            let answer = ask(&server, request).await;
            let workloads = answer.workloads.iter().map(|found| &*found.namespace);
            let moving: Vec<_> = workloads.filter(|name| !name.starts_with('m')).collect();
            let there =
                ["a", "z"][usize::try_from(answer.revision - first).expect("revisions grow") % 2];
            assert_eq!(moving, [there], "at revision {}", answer.revision);
            assert_eq!(answer.workload_count, BETWEEN as i64 + 1);
        }
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(moves, questions);
}
