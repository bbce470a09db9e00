//! Reservations by hand: held, confirmed, released.

use crate::cli::remote::with_server;

#[test]
fn held_confirmed_and_released() {
    let (_runtime, _server, workspace) = with_server();
    workspace.expect(0, "load cluster.yaml");
    let list = |flags: &str| {
        workspace
            .expect(0, &format!("reservation list {flags}"))
            .out
    };
    assert_eq!(list(""), "no reservations\n");

    let line = "place -f workloads.yaml --name web --spread-only --replicas 2 --reserve 5m \
                --owner ops -o json";
    let placed = workspace.expect(0, line).json();
    let ids: Vec<String> = placed["placements"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|placement| {
            placement["reservationId"]
                .as_str()
                .expect("an id")
                .to_owned()
        })
        .collect();
    let (first, second) = (&ids[0], &ids[1]);
    assert_eq!(list("-o name"), format!("{first}\n{second}\n"));
    let misspelt = workspace.expect(2, "reservation list --owner opps");
    misspelt.complains("no reservation of owner opps; there is ops");
    let misspelt = workspace.expect(2, "reservation list --snapshot defualt");
    misspelt.complains("(NotFound); there is default");

    workspace.expect(0, &format!("reservation confirm {first}=web-1"));
    let table = list("--owner ops");
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0][..4], ["ID", "OWNER", "NAMESPACE", "NODE"]);
    assert_eq!(lines[1].last(), Some(&"web-1"), "{table}");
    assert_eq!(lines[2].last(), Some(&"-"), "{table}");

    let gone = workspace.expect(0, &format!("reservation release {first} {second}"));
    assert!(
        gone.out.starts_with("released 2 of 2, revision "),
        "{}",
        gone.out
    );
    for line in [
        format!("reservation release {second}"),
        format!("reservation confirm {second}=web-2"),
    ] {
        let late = workspace.expect(1, &line);
        late.says(" 0 of 1");
        late.complains(&format!("ended before: {second}"));
    }
    assert_eq!(list(""), "no reservations\n");
    assert_eq!(list("--owner ops"), "no reservations\n");
}

#[test]
fn what_is_no_confirmation_is_refused() {
    for arguments in ["x", "=web-1", "x=", ""] {
        let refused = crate::cli::workspace().run(&format!("reservation confirm {arguments}"));
        assert_eq!(refused.code, 2, "{arguments:?}: {}", refused.err);
    }
}

/// A script that got no answer sends the same again.
#[test]
fn a_request_id_reserves_once() {
    let (_runtime, _server, workspace) = with_server();
    workspace.expect(0, "load cluster.yaml");
    let place = |replicas: i32, id: &str| {
        workspace.run(&format!(
            "place -f workloads.yaml --name web --spread-only --replicas {replicas} --reserve 5m \
             --request-id {id} -o json"
        ))
    };
    let placed = |id: &str| {
        let outcome = place(2, id);
        let mut answer = outcome.expect(0).json();
        // The id of the decision differs in each answer.
        answer
            .as_object_mut()
            .expect("an object")
            .remove("decisionId");
        answer
    };
    let held = || workspace.expect(0, "reservation list -o name").out;
    let first = placed("one");
    assert_eq!(held().lines().count(), 2);
    assert_eq!(placed("one"), first);
    assert_eq!(held().lines().count(), 2);
    assert_ne!(placed("two"), first);
    assert_eq!(held().lines().count(), 4);

    for (outcome, why) in [
        (place(3, "one"), "requestId"),
        (
            workspace.run("place -f workloads.yaml --name web --request-id one"),
            "--reserve",
        ),
    ] {
        let refused = outcome.expect(2);
        refused.complains(why);
    }
    assert_eq!(held().lines().count(), 4);
}
