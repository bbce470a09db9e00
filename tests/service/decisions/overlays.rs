//! An answer names the deletes of its overlay that match no object. Otherwise a mistyped name would
//! be answered as if there were no overlay.

use evenkeel::proto::v1::{Change, Dialect, FilterRequest, ObjectReference};

use evenkeel::snapshot::{Limits, ReadView, Stopped};
use support::build::{explain_as, filter_of, node, on, place_as, pod, score_as};
use support::model::{Stored, delete, delete_uid};
use support::server::Server;

use support::in_process::InProcess;

/// Returns the unknown deletes of an overlay that each kind of question about a pod reports.
async fn unknown_deletes(
    server: &Server,
    dialect: Dialect,
    overlay: Vec<Change>,
) -> Vec<Vec<ObjectReference>> {
    let asked = FilterRequest {
        overlay,
        dialect: dialect as i32,
        ..filter_of(pod("", &[("app", "a")]))
    };
    vec![
        server.filter(asked.clone()).await.unknown_deletes,
        server.score(score_as(asked.clone())).await.unknown_deletes,
        server
            .explain(explain_as(asked.clone()))
            .await
            .unknown_deletes,
        server.place(place_as(asked)).await.unknown_deletes,
    ]
}

#[tokio::test]
async fn every_answer_names_the_deletes_that_hit_nothing() {
    let server = Server::start().await;
    let mut known = on(pod("known", &[]), "n0");
    known.metadata.get_or_insert_default().uid = "1".into();
    let mut elsewhere = pod("elsewhere", &[]);
    elsewhere.metadata.get_or_insert_default().namespace = "other".into();
    let changes = vec![
        node("n0", &[]).change(),
        node("n1", &[]).change(),
        known.change(),
        elsewhere.change(),
    ];
    server.update("", changes).await;

    // Pairs of deletes; only the first of each pair matches an object.
    let overlay = vec![
        delete("Node", "", "n1"),
        delete("Node", "", "typo"),
        delete("Pod", "other", "elsewhere"),
        delete("Pod", "", "elsewhere"),
        delete_uid("Pod", "", "known", "1"),
        delete_uid("Service", "other", "known", "1"),
    ];
    let reference = |kind: &str, namespace: &str, name: &str, uid: &str| ObjectReference {
        kind: kind.into(),
        namespace: namespace.into(),
        name: name.into(),
        uid: uid.into(),
    };
    let expected = [
        reference("Node", "", "typo", ""),
        reference("Pod", "default", "elsewhere", ""),
        reference("Service", "other", "known", "1"),
    ];
    let other_uid = vec![delete_uid("Pod", "", "known", "2")];
    for dialect in [Dialect::Kubernetes, Dialect::Fleet] {
        for unknown in unknown_deletes(&server, dialect, overlay.clone()).await {
            assert_eq!(unknown, expected, "{dialect:?}");
        }
        for unknown in unknown_deletes(&server, dialect, other_uid.clone()).await {
            assert_eq!(unknown, [reference("Pod", "default", "known", "2")]);
        }
        for unknown in unknown_deletes(&server, dialect, Vec::new()).await {
            assert_eq!(unknown, []);
        }
    }
}

#[test]
fn an_overlay_is_not_applied_to_its_end_once_nobody_waits() {
    const MANY: usize = 5_000;
    let objects = vec![node("n0", &[("zone", "a")]).change()];
    let world = InProcess::new(Limits::default(), objects);
    let question = world.question(&pod("asking", &[("app", "a")]));
    let nodes = |i: usize| node(&format!("more-{i}"), &[("zone", "b")]).change();
    let pods = |i: usize| on(pod(&format!("p{i}"), &[("app", "a")]), "n0").change();
    let labels: Vec<String> = (0..MANY).map(|i| format!("key-{i}")).collect();
    let labels: Vec<(&str, &str)> = labels.iter().map(|key| (&**key, "v")).collect();
    let overlays = [
        (0..MANY).map(nodes).collect(),
        (0..MANY).map(pods).collect(),
        vec![node("n1", &labels).change()],
        vec![on(pod("p", &labels), "n0").change()],
    ];
    for overlay in overlays {
        let overlay = world.overlay(overlay);
        let decide = |_: ReadView<'_>| -> Result<(), Stopped> { panic!("it is given up") };
        let namespace = &question.namespace;
        let asked = (world.snapshot).read_until(namespace, &overlay, &|| true, decide);
        assert_eq!(asked, Err(Stopped::GivenUp));
    }
    let after = world.snapshot.summary();
    assert_eq!((after.sizes.nodes, after.sizes.pods), (1, 0));
}
