//! A client that asks all the time, and would notice an answer from half a cluster.

use std::sync::Arc;
use std::time::Duration;

use evenkeel::proto::v1::Pod;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::kubernetes::evenkeel::Evenkeel;
use crate::kubernetes::filled::NODES;
use crate::kubernetes::objects::NAMESPACE;

/// Asks all the time, and counts the answers.
pub(crate) struct Witness {
    stop: CancellationToken,
    task: JoinHandle<Told>,
}

/// The answers that a witness got.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) answers: usize,
    pub(crate) refusals: usize,
    fewest_nodes: i64,
    fewest_pods: i64,
}

impl Witness {
    pub(crate) fn start(evenkeel: &Arc<Evenkeel>) -> Self {
        let stop = CancellationToken::new();
        let (evenkeel, stopped) = (Arc::clone(evenkeel), stop.clone());
        let task = tokio::spawn(async move {
            let question = everybody();
            let mut told = Told {
                answers: 0,
                refusals: 0,
                fewest_nodes: i64::MAX,
                fewest_pods: i64::MAX,
            };
            while !stopped.is_cancelled() {
                match evenkeel.filter(&question).await {
                    Ok(answer) => {
                        let domains = answer.constraints.iter().flat_map(|report| &report.domains);
                        let pods = domains.map(|domain| domain.matching_pods).sum();
                        told.answers += 1;
                        told.fewest_nodes = told.fewest_nodes.min(answer.node_count);
                        told.fewest_pods = told.fewest_pods.min(pods);
                    }
                    Err(_) => told.refusals += 1,
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            told
        });
        Self { stop, task }
    }

    /// Checks that each answer was from all nodes and at least this many pods.
    pub(crate) async fn saw_no_less(self, pods: usize) -> Told {
        self.stop.cancel();
        let told = self.task.await.expect("it does not panic");
        if told.answers > 0 {
            assert_eq!(told.fewest_nodes, NODES as i64, "{told:?}");
            assert!(told.fewest_pods >= pods as i64, "{told:?}");
        }
        told
    }
}

/// A pod whose constraint counts all pods.
pub(crate) fn everybody() -> Pod {
    let pod = json!({
        "metadata": { "namespace": NAMESPACE, "name": "question" },
        "spec": { "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": { "matchLabels": { "app": "web" } },
            "nodeTaintsPolicy": "Ignore",
        }]},
    });
    serde_json::from_value(pod).expect("a pod")
}
