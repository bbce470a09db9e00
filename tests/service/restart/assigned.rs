//! Reservations for pods on chosen nodes survive a kill, also those that replaced a reservation of
//! the same pod on another node.

use std::time::Duration;

use evenkeel::proto::v1::{AssignedPod, Reservation, ReservePodsRequest};

use crate::restart::home::Home;
use support::build::{ZONE, node, on, pod};
use support::model::Stored;

const WEB: [(&str, &str); 1] = [("app", "web")];

fn assignment(node: &str) -> ReservePodsRequest {
    let owner = "scheduler".to_owned();
    let ttl = Some(Duration::from_secs(1_000).into());
    ReservePodsRequest {
        snapshot: String::new(),
        pods: vec![AssignedPod {
            pod: Some(pod("web-0", &WEB)),
            node: node.into(),
        }],
        reserve: Some(Reservation { owner, ttl }),
    }
}

#[tokio::test]
async fn the_newest_node_of_a_pod_is_there_after_a_kill() {
    let home = Home::new();
    let mut server = home.start(&[]);
    let nodes = ["a", "b"].map(|name| node(name, &[(ZONE, name)]).change());
    server.update("", nodes.to_vec()).await;
    for node in ["a", "b"] {
        let reserved = server.client.reserve_pods(assignment(node)).await;
        let reserved = reserved.expect("it is reserved").into_inner();
        let held = server.held().await;
        assert_eq!(held.len(), 1);
        assert_eq!(held[&reserved.reservation_ids[0]].node, node);
        let described = server.describe("default").await;
        server.kill().await;
        server = home.start(&[]);
        assert_eq!(server.held().await, held);
        assert_eq!(server.describe("default").await, described);
    }
    server
        .update("", vec![on(pod("web-0", &WEB), "a").change()])
        .await;
    assert!(server.held().await.is_empty());
}
