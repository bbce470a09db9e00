//! Views of questions that never come again must not push out those of questions that come all the
//! time: the view that was unused for longest goes first.

use evenkeel::proto::v1::Pod;
use evenkeel::snapshot::Limits;

use support::build::{ZONE, filter_of, hard, node, on, pod, spread, tolerating};
use support::model::Stored;
use support::server::Server;

/// The most views that a namespace has.
const MOST: usize = 256;

/// More questions than a namespace has views.
const ONCE: usize = 400;

/// A server with three zones and some pods.
async fn server(max_view_bytes: usize) -> Server {
    let server = Server::with_limits(Limits {
        max_view_bytes,
        ..Limits::default()
    })
    .await;
    let zones = ["a", "b", "c"];
    let nodes = zones.map(|zone| node(zone, &[(ZONE, zone)]).change());
    let pods = zones.map(|zone| on(pod(&format!("p-{zone}"), &[("app", "hot")]), zone).change());
    server
        .update("", nodes.into_iter().chain(pods).collect())
        .await;
    server
}

/// A pod that spreads among the pods with its own label.
fn incoming(app: &str) -> Pod {
    let labels = [("app", app)];
    spread(pod("incoming", &labels), vec![hard(1, ZONE, &labels)])
}

/// Asks about a pod. Returns whether a view had to be built.
async fn builds(server: &Server, pod: Pod) -> bool {
    let before = server.registry.counters().view_builds.sum();
    server.filter(filter_of(pod)).await;
    server.registry.counters().view_builds.sum() > before
}

fn view_bytes(server: &Server) -> usize {
    let snapshot = server.registry.get("default").expect("it exists");
    snapshot.summary().memory.views
}

/// Asks [`ONCE`] questions, each `times` times, and a hot question in between.
async fn thrash(server: &Server, times: usize, question: impl Fn(usize) -> Pod) {
    for number in 0..100 {
        builds(server, question(number)).await;
    }
    // Where memory is short, the first question makes room, and the next one finds it.
    for _ in 0..3 {
        builds(server, incoming("hot")).await;
    }
    assert!(!builds(server, incoming("hot")).await, "it is kept");
    for number in 0..ONCE {
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
async fn what_is_asked_once_leaves_what_is_asked_often() {
    let server = server(256 << 20).await;
    thrash(&server, 1, |number| incoming(&format!("once-{number}"))).await;
    for number in 0..ONCE {
        builds(&server, incoming(&format!("other-{number}"))).await;
    }
    let snapshot = server.registry.get("default").expect("it exists");
    assert_eq!(snapshot.summary().views, MOST);
}

#[tokio::test]
async fn what_is_asked_twice_goes_before_what_is_asked_often() {
    let room = 128 << 10;
    let server = server(room).await;
    thrash(&server, 2, |number| incoming(&format!("twice-{number}"))).await;
    assert!(view_bytes(&server) <= room);
}

#[tokio::test]
async fn of_what_is_asked_often_that_stays_which_was_asked_last() {
    // Room for some hundred views.
    let room = 32 << 10;
    let server = server(room).await;
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
    assert!(view_bytes(&server) <= room);
}

#[tokio::test]
async fn nodes_looked_at_once_go_before_those_looked_at_often() {
    // Room for some hundred partitions.
    let server = server(128 << 10).await;
    let question = |number: usize| {
        let mut pod = tolerating(incoming("hot"), &format!("k{number}"), "Exists", "", "");
        let spec = pod.spec.get_or_insert_default();
        // Each question looks at the nodes by a partition of its own.
        spec.topology_spread_constraints[0].node_taints_policy = Some("Honor".into());
        pod
    };
    thrash(&server, 1, question).await;
}

#[tokio::test]
async fn a_namespace_that_takes_all_room_gives_some_up() {
    let server = server(64 << 10).await;
    for number in 0..ONCE {
        for _ in 0..3 {
            builds(&server, incoming(&format!("greedy-{number}"))).await;
        }
    }
    let mut other = incoming("hot");
    other.metadata.get_or_insert_default().namespace = "other".into();
    let mut there = on(pod("there", &[("app", "hot")]), "a");
    there.metadata.get_or_insert_default().namespace = "other".into();
    server.update("", vec![there.change()]).await;
    // The view may find no room at first, and finds some after a sweep.
    builds(&server, other.clone()).await;
    server.registry.sweep(1_000);
    builds(&server, other.clone()).await;
    assert!(!builds(&server, other).await, "it is kept now");
}
