//! Views of questions that never come again must not push out those of questions that come all the
//! time: the view that was unused for longest goes first.

use std::sync::atomic::Ordering;

use evenkeel::proto::v1::Pod;

use support::build::{ZONE, filter_of, hard, on, pod, spread, tolerating, zones};
use support::model::Stored;
use support::server::Server;

/// The most views that a namespace has.
const MOST: usize = 256;

/// More questions than a namespace has views.
const ONCE: usize = 400;

/// A server with three zones and some pods.
async fn server() -> Server {
    let server = Server::start().await;
    let pod = |zone| on(pod(&format!("p-{zone}"), &[("app", "hot")]), zone).change();
    let pods = ["a", "b", "c"].map(pod);
    let all = zones(&["a", "b", "c"]).into_iter().chain(pods);
    server.update("", all.collect()).await;
    server
}

/// A pod that spreads among the pods with its own label.
fn incoming(app: &str) -> Pod {
    let labels = [("app", app)];
    spread(pod("incoming", &labels), vec![hard(1, ZONE, &labels)])
}

/// Asks about a pod. Returns whether a view had to be built.
async fn builds(server: &Server, pod: Pod) -> bool {
    let builds = || {
        server
            .registry
            .counters()
            .view_builds
            .load(Ordering::Relaxed)
    };
    let before = builds();
    server.filter(filter_of(pod)).await;
    builds() > before
}

fn views(server: &Server) -> usize {
    let snapshot = server.registry.get("default").expect("it exists");
    snapshot.summary().views
}

/// More questions than there are partitions.
const PARTITIONED: usize = 1_100;

/// Asks `count` questions, each `times` times, and a hot question in between.
async fn thrash(server: &Server, (count, times): (usize, usize), question: impl Fn(usize) -> Pod) {
    for number in 0..100 {
        builds(server, question(number)).await;
    }
    builds(server, incoming("hot")).await;
    assert!(!builds(server, incoming("hot")).await, "it is kept");
    for number in 0..count {
        for _ in 0..times {
            builds(server, question(number)).await;
        }
        if number % 50 == 0 {
            let hot = incoming("hot");
            assert!(
                !builds(server, hot).await,
                "pushed out by question {number}"
            );
        }
    }
}

#[tokio::test]
async fn of_what_is_asked_often_that_stays_which_was_asked_last() {
    let server = server().await;
    for _ in 0..3 {
        builds(&server, incoming("hot")).await;
    }
    // All questions are asked within one tick, because nothing sweeps here.
    for number in 0..ONCE {
        for _ in 0..3 {
            builds(&server, incoming(&format!("thrice-{number}"))).await;
        }
        let again = builds(&server, incoming("hot")).await;
        assert!(!again, "pushed out by question {number}");
    }
    // An eighth of them makes room together.
    let views = views(&server);
    assert!((MOST * 7 / 8..=MOST).contains(&views), "{views} views");
}

#[tokio::test]
async fn nodes_looked_at_once_go_before_those_looked_at_often() {
    let server = server().await;
    let question = |number: usize| {
        let mut pod = tolerating(incoming("hot"), &format!("k{number}"), "Exists", "", "");
        let spec = pod.spec.get_or_insert_default();
        // Each question looks at the nodes by a partition of its own.
        spec.topology_spread_constraints[0].node_taints_policy = Some("Honor".into());
        pod
    };
    thrash(&server, (PARTITIONED, 1), question).await;
}
