//! Reservations for pods on chosen nodes survive a kill, also those that replaced a reservation of
//! the same pod on another node.

use std::time::Duration;

use crate::restart::home::Home;
use support::build::{assign_of, on, pod, zones};
use support::model::Stored;

const WEB: [(&str, &str); 1] = [("app", "web")];

#[tokio::test]
async fn the_newest_node_of_a_pod_is_there_after_a_kill() {
    let home = Home::new();
    let mut server = home.start(&[]);
    server.update("", zones(&["a", "b"])).await;
    for node in ["a", "b"] {
        let web = vec![(pod("web-0", &WEB), node)];
        let request = assign_of(web, Duration::from_secs(1_000));
        let reserved = server.reserve_pods(request).await;
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
