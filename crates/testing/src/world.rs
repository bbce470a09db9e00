//! A small cluster on a server of its own, drawn as in Kubernetes' documents.

use evenkeel::proto::v1::{FilterRequest, FilterResponse, Node, Pod, View};

use super::build::{ZONE, node, on, pod, score_of};
use super::model::Stored;
use super::server::Server;

/// The label that the pods of the examples carry.
pub const FOO: [(&str, &str); 1] = [("foo", "bar")];

/// A cluster and the server that knows it.
pub struct World {
    server: Server,
}

/// A node of the drawing: its name, its zone, and the number of `foo: bar` pods that run on it.
pub type Drawn<'a> = (&'a str, &'a str, usize);

/// A cluster of these nodes.
pub async fn world(drawn: &[Drawn<'_>]) -> World {
    let server = Server::start().await;
    let mut changes = Vec::new();
    for (name, zone, pods) in drawn {
        changes.push(node(name, &[(ZONE, zone)]).change());
        for index in 0..*pods {
            let running = on(pod(&format!("{name}-{index}"), &FOO), name);
            changes.push(running.change());
        }
    }
    server.update("", changes).await;
    World { server }
}

impl World {
    /// The same cluster with this node in place of the one by that name.
    pub async fn with_node(self, node: Node) -> Self {
        self.server.update("", vec![node.change()]).await;
        self
    }

    /// The same cluster with one more pod.
    pub async fn with_pod(self, pod: Pod) -> Self {
        self.server.update("", vec![pod.change()]).await;
        self
    }

    /// Returns the answer of Filter.
    pub async fn filter(&self, pod: &Pod) -> FilterResponse {
        let request = FilterRequest {
            pod: Some(pod.clone()),
            view: View::Full as i32,
            ..FilterRequest::default()
        };
        self.server.filter(request).await
    }

    /// The nodes that the pod may run on.
    pub async fn feasible(&self, pod: Pod) -> Vec<String> {
        self.filter(&pod).await.feasible
    }

    /// The feasible nodes with their scores, 0 to 100.
    pub async fn scores(&self, pod: Pod) -> Vec<(String, i64)> {
        let response = self.server.score(score_of(pod)).await;
        let scores = response.scores.into_iter();
        scores.map(|score| (score.node, score.score)).collect()
    }
}
