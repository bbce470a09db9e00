//! Hints about room, as data.

use evenkeel::proto::v1::hint::Kind;
use evenkeel::proto::v1::{Change, Shortage};

use support::build::{explain_of, having, node, on, pod, requesting};
use support::model::Stored;
use support::reasons;
use support::server::Server;

/// A node with these allocatable resources, and a pod on it that requests that much
/// cpu.
fn taken(name: &str, has: &[(&str, &str)], cpu: &str) -> Vec<Change> {
    let running = requesting(pod(&format!("{name}-0"), &[]), &[("cpu", cpu)]);
    vec![
        having(node(name, &[]), has).change(),
        on(running, name).change(),
    ]
}

/// The number of nodes that a hint about room would let the pod onto, and the shortage that it
/// names.
type Told = (i64, Shortage);

fn short(
    of: (&str, &str),
    node_count: i64,
    too_small: i64,
    missing: &str,
    near: &[&str],
) -> Shortage {
    let (resource, requested) = of;
    Shortage {
        resource: resource.into(),
        requested: requested.into(),
        node_count,
        too_small_node_count: too_small,
        missing: missing.into(),
        nodes: near.iter().map(|name| (*name).to_owned()).collect(),
    }
}

#[tokio::test]
async fn hints_on_room_say_how_much_is_missing_and_where() {
    let two = |pods| [("cpu", "2"), ("memory", "4Gi"), ("pods", pods)];
    let (many, one, none) = (two("9"), two("1"), two("0"));
    type Case<'a> = (&'a str, Vec<Change>, &'a [(&'a str, &'a str)], Vec<Told>);
    let cases: [Case<'_>; 7] = [
        (
            "equally near nodes, and one that lacks more",
            [
                taken("a", &many, "1500m"),
                taken("b", &many, "1500m"),
                taken("c", &one, "1500m"),
            ]
            .concat(),
            &[("cpu", "2")],
            vec![
                (2, short(("cpu", "2"), 3, 0, "1500m", &["a", "b"])),
                (0, short(("pods", "1"), 1, 0, "1", &[])),
            ],
        ),
        (
            "too little even without pods",
            [taken("a", &many, "500m"), taken("b", &many, "500m")].concat(),
            &[("memory", "5Gi")],
            vec![(2, short(("memory", "5Gi"), 2, 2, "1Gi", &["a", "b"]))],
        ),
        (
            "the nearest alone",
            [taken("a", &many, "1500m"), taken("b", &many, "500m")].concat(),
            &[("cpu", "2")],
            vec![(1, short(("cpu", "2"), 2, 0, "500m", &["b"]))],
        ),
        (
            "one that lacks only this, before one that lacks less of it",
            [taken("a", &one, "100m"), taken("b", &many, "1500m")].concat(),
            &[("cpu", "2")],
            vec![
                (1, short(("cpu", "2"), 2, 0, "1500m", &["b"])),
                (0, short(("pods", "1"), 1, 0, "1", &[])),
            ],
        ),
        (
            "beside nodes that fit",
            [taken("a", &many, "500m"), taken("b", &many, "1500m")].concat(),
            &[("cpu", "1")],
            vec![(2, short(("cpu", "1"), 1, 0, "500m", &["b"]))],
        ),
        (
            "too many pods",
            taken("a", &one, "500m"),
            &[("cpu", "1")],
            vec![(1, short(("pods", "1"), 1, 0, "1", &["a"]))],
        ),
        (
            "no pods allowed",
            vec![having(node("a", &[]), &none).change()],
            &[("cpu", "1")],
            vec![(0, short(("pods", "1"), 1, 1, "1", &[]))],
        ),
    ];
    for (name, changes, requests, expected) in cases {
        let server = Server::start().await;
        server.update("", changes).await;
        let answer = server
            .explain(explain_of(requesting(pod("next", &[]), requests)))
            .await;
        reasons::check(&answer.infeasible, &answer.reasons);
        let hints = answer.hints.into_iter();
        let on_room = hints.filter(|hint| hint.kind() == Kind::Room);
        let told: Vec<Told> = on_room
            .map(|hint| (hint.admitted_node_count, hint.shortage.unwrap_or_default()))
            .collect();
        assert_eq!(told, expected, "{name}");
    }
}
