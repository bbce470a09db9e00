//! Names of nodes that are no DNS names, with and without the setting that
//! accepts them.

use evenkeel::proto::v1::{Change, FilterRequest, Pod};
use tonic::Code;

use crate::restart::home::Home;
use crate::restart::process::Server;
use support::build::{ZONE, filter_of, hard, node, nominated, on, pod, spread, update_of};
use support::model::{Stored, delete};

const WEB: [(&str, &str); 1] = [("app", "web")];

/// Returns the message with which changes are refused.
async fn refused(server: &Server, changes: Vec<Change>) -> String {
    let request = update_of(changes);
    let status = server.client().update_snapshot(request).await;
    let status = status.expect_err("a name that is not accepted");
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    status.message().to_owned()
}

/// Returns the names of the nodes that a pod may go to, or the message of the refusal.
async fn decided(server: &Server, pod: Pod, overlay: Vec<Change>) -> Result<Vec<String>, String> {
    let request = FilterRequest {
        overlay,
        ..filter_of(pod)
    };
    let answer = server.client().filter(request).await;
    let answer = answer.map_err(|refused| refused.message().to_owned())?;
    Ok(answer.into_inner().feasible)
}

/// Returns the names of the nodes that a new pod may go to.
async fn feasible(server: &Server) -> Vec<String> {
    let pod = spread(pod("new", &WEB), vec![hard(1, ZONE, &WEB)]);
    let decided = decided(server, pod, Vec::new()).await;
    decided.expect("a decision")
}

/// A node whose name is not valid as a value of a label either.
fn spaced() -> Change {
    let mut node = node("b", &[(ZONE, "b")]);
    node.metadata.get_or_insert_default().name = "Host 02 ä".to_owned();
    node.change()
}

#[tokio::test]
async fn names_that_were_accepted_stay_whatever_is_accepted_now() {
    let home = Home::new();
    let strict = home.start(&[]);
    for (name, changes) in [
        (
            "changes[0].node.metadata.name",
            vec![node("host_01", &[]).change()],
        ),
        (
            "changes[0].pod.spec.nodeName",
            vec![on(pod("a", &WEB), "host_01").change()],
        ),
        (
            "changes[0].pod.status.nominatedNodeName",
            vec![nominated(pod("a", &WEB), "host_01", 0).change()],
        ),
    ] {
        let said = refused(&strict, changes).await;
        assert!(
            said.contains(name) && said.contains("--node-names any"),
            "{said}"
        );
    }
    let said = decided(&strict, on(pod("new", &WEB), "host_01"), Vec::new()).await;
    let said = said.expect_err("a name that is not accepted");
    assert!(said.contains("--node-names any"), "{said}");
    strict.stop().await;

    let lax = home.start(&["--node-names", "any"]);
    for name in ["a/b", "a\tb", "a\nb", &"a".repeat(254)] {
        let said = refused(&lax, vec![node(name, &[]).change()]).await;
        assert!(said.contains("must be 1 to 253 bytes"), "{said}");
    }
    let changes = vec![
        node("host_01", &[(ZONE, "a")]).change(),
        spaced(),
        on(pod("a", &WEB), "host_01").change(),
    ];
    lax.update("default", changes).await;
    assert_eq!(feasible(&lax).await, ["Host 02 ä"]);
    let bound = decided(&lax, on(pod("new", &WEB), "host_01"), Vec::new()).await;
    assert_eq!(bound.expect("a decision"), ["host_01"]);
    let promised = nominated(pod("b", &WEB), "host_01", 0).change();
    lax.update("default", vec![promised]).await;
    lax.update("default", vec![delete("Pod", "", "b")]).await;
    // The same names are accepted in an overlay.
    let supposed = vec![
        node("host_03", &[(ZONE, "c")]).change(),
        on(pod("c", &WEB), "host_03").change(),
        nominated(pod("d", &WEB), "host_01", 0).change(),
    ];
    let web = spread(pod("new", &WEB), vec![hard(1, ZONE, &WEB)]);
    let with = decided(&lax, web, supposed).await;
    assert_eq!(with.expect("a decision"), ["Host 02 ä"]);
    lax.kill().await;

    let strict = home.start(&[]);
    assert_eq!(feasible(&strict).await, ["Host 02 ä"]);
    let said = refused(&strict, vec![node("host_03", &[]).change()]).await;
    assert!(said.contains("--node-names any"), "{said}");
    strict
        .update("default", vec![delete("Node", "", "host_01")])
        .await;
    assert_eq!(feasible(&strict).await, ["Host 02 ä"]);
    strict.stop().await;
}
