//! `serve --kubernetes` and `evenkeel feed` keep a snapshot equal to a cluster,
//! whatever happens to the API server, its answers or the server that is fed.

use std::time::{Duration, Instant};

use evenkeel::proto::v1::FilterRequest;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::serving::api_server::ApiServer;
use crate::serving::http::get;
use crate::serving::process::{Server, command, until};
use crate::serving::watching::{Watching, holds, node, one_node, pod, service};
use support::build::{filter_of, full_filter_of, with_claim};

#[test]
fn a_snapshot_follows_its_cluster() {
    let cluster = one_node();
    cluster.put("pods", pod("p", json!({"v": "1"})));
    cluster.fault(|faults| faults.held.extend(["pods"]));
    let watching = Watching::start(&cluster, &[]);
    // A snapshot answers nothing from half a list.
    until("nodes are listed", || {
        (cluster.lists("nodes") > 0).then_some(())
    });
    let told = watching.says("snapshot default is not synced");
    assert!(!told.contains("ready"), "{told}");
    cluster.fault(|faults| faults.held.clear());
    watching.ready();
    let first = watching.holds(&["n", "p1"]);
    assert!(
        first
            .default_constraints
            .as_ref()
            .is_some_and(|it| it.system)
    );

    cluster.put("pods", pod("q", json!({})));
    cluster.put("pods", pod("p", json!({"v": "2"})));
    cluster.put("services", service("s"));
    let second = watching.holds(&["n", "p2", "q", "s"]);
    assert_eq!(second.epoch, first.epoch);
    cluster.delete("pods", "shop/q");
    watching.holds(&["n", "p2", "s"]);

    // Events that say nothing new change nothing.
    let nodes = |what: &str| {
        let name = format!("evenkeel_kubernetes_{what}_total");
        watching.metric(&name, &["kind=\"Node\""])
    };
    let (events, changes) = (nodes("events"), nodes("changes"));
    cluster.put("nodes", node("n", "a"));
    until("the event", || (nodes("events") > events).then_some(()));
    cluster.put("pods", pod("r", json!({})));
    watching.holds(&["n", "p2", "r", "s"]);
    assert_eq!(nodes("changes"), changes);
}

/// Asks for a state with the pods as of a version. Returns the nodes with pods that count, or why it
/// is refused.
fn asked_at(watching: &Watching, version: u64) -> Result<i64, String> {
    let request = FilterRequest {
        min_resource_versions: [("Pod".to_owned(), version)].into(),
        ..filter_of(Default::default())
    };
    let answer = async { watching.server.client().filter(request).await };
    let answer = watching.runtime.block_on(answer);
    let answer = answer.map_err(|status| status.message().to_owned())?;
    Ok(answer.into_inner().revision)
}

/// Lists of claims and classes that were read and are empty say that a claim does not exist.
#[test]
fn a_claim_that_a_cluster_lacks_is_not_found() {
    for (forbidden, told) in [
        (None, "not found"),
        (Some("storageclasses"), "spec.volumes"),
    ] {
        let cluster = one_node();
        cluster.fault(|faults| faults.forbidden.extend(forbidden));
        let watching = Watching::started(&cluster, &[]);
        let asked = full_filter_of(with_claim(Default::default(), "x"));
        let answer = watching.runtime.block_on(watching.server.filter(asked));
        let refused = answer.infeasible.iter().map(|node| &node.reason);
        let mut said = refused.chain(&answer.unchecked);
        assert!(said.any(|it| it.contains(told)), "{answer:?}");
    }
}

/// A watch that falls silent is noticed by whoever knows of later events, at once.
#[test]
fn a_snapshot_says_how_far_its_feed_has_read() {
    let cluster = one_node();
    cluster.put("pods", pod("p", json!({})));
    let watching = Watching::started(&cluster, &[]);
    let read = |kind: &str| {
        let snapshot = watching.described().expect("it exists");
        snapshot.resource_versions.get(kind).copied().unwrap_or(0)
    };
    // The list is of a later version than the pod in it.
    until("the version of the list", || {
        (read("Pod") >= 102).then_some(())
    });
    assert!(asked_at(&watching, 102).is_ok());

    cluster.put("pods", pod("q", json!({})));
    watching.holds(&["n", "p", "q"]);
    assert_eq!(read("Pod"), 103);
    assert!(asked_at(&watching, 103).is_ok());
    // So is one of an event that says nothing new, with the next heartbeat.
    cluster.put("pods", pod("q", json!({})));
    until("a heartbeat", || (read("Pod") == 104).then_some(()));

    cluster.fault(|faults| faults.is_silent = true);
    cluster.delete("pods", "shop/q");
    let refused = asked_at(&watching, 105).expect_err("it has not heard of that");
    let told = "has read Pod up to resource version 104, not 105";
    assert!(refused.contains(told), "{refused}");
    cluster.fault(|faults| faults.is_silent = false);
    watching.holds(&["n", "p"]);
    assert!(asked_at(&watching, 105).is_ok());

    // Kinds without events are read up to where a bookmark says that the watch goes on.
    cluster.put("nodes", node("m", "b"));
    // The watches get it, and go on from there after they are cut.
    let (begun, mut turns) = (Instant::now(), 0);
    until("the bookmark is taken", || {
        if begun.elapsed() >= 2 * turns * Duration::from_secs(1) {
            match turns % 2 {
                0 => cluster.bookmark(),
                _ => cluster.cut(),
            }
            turns += 1;
        }
        (read("Service") >= 106 && read("Pod") >= 106).then_some(())
    });
    // A backup goes back.
    let backup = cluster.backup();
    cluster.put("pods", pod("r", json!({})));
    watching.holds(&["m", "n", "p", "r"]);
    assert_eq!(read("Pod"), 107);
    cluster.restore(backup);
    watching.holds(&["m", "n", "p"]);
    until("the version of the backup", || {
        (read("Pod") < 107).then_some(())
    });
}

/// A fault of a watch, and the list that repairs it.
#[test]
fn a_gap_is_listed_again_and_becomes_one_batch() {
    for by_status in [false, true] {
        let cluster = one_node();
        for name in ["p", "q", "r"] {
            cluster.put("pods", pod(name, json!({"v": "1"})));
        }
        let watching = Watching::started(&cluster, &[]);
        let before = watching.holds(&["n", "p1", "q1", "r1"]);
        // While the server hears nothing, one pod goes, one comes, and one changes.
        cluster.fault(|faults| {
            faults.gone_by_status = by_status;
            faults.is_away = true;
        });
        cluster.cut();
        cluster.delete("pods", "shop/p");
        cluster.put("pods", pod("q", json!({"v": "2"})));
        cluster.put("pods", pod("s", json!({"v": "1"})));
        cluster.expire();
        cluster.fault(|faults| faults.is_away = false);
        let after = watching.turns(&["n", "p1", "q1", "r1"], &["n", "q2", "r1", "s1"]);
        assert_eq!(after.epoch, before.epoch, "by status: {by_status}");
        let lists = |reason| {
            let reason = format!("reason=\"{reason}\"");
            watching.metric(
                "evenkeel_kubernetes_lists_total",
                &["kind=\"Pod\"", &reason],
            )
        };
        assert_eq!((lists("start"), lists("expired")), (1.0, 1.0));
        // A pod that comes after the gap arrives as well.
        cluster.put("pods", pod("t", json!({})));
        watching.holds(&["n", "q2", "r1", "s1", "t"]);
    }
}

#[test]
fn a_first_list_that_breaks_is_taken_whole_or_not_at_all() {
    let cluster = ApiServer::start();
    let names: Vec<String> = (0..1_200).map(|number| format!("p{number:04}")).collect();
    names
        .iter()
        .for_each(|name| cluster.put("pods", pod(name, json!({}))));
    cluster.fault(|faults| (faults.expired_pages, faults.cut_pages) = (1, 1));
    let watching = Watching::started(&cluster, &[]);
    let wanted: Vec<&str> = names.iter().map(String::as_str).collect();
    let first = watching.holds(&wanted);
    assert_eq!((first.revision, first.pod_count), (1, 1_200));
    assert!(cluster.lists("pods") >= 3);
}

/// The end of a list and the first sign of its watch arrive at the same time, in any order.
#[test]
fn a_start_is_ready_by_the_first_watches() {
    // More pods than a batch takes, so that a batch is applied while their list ends.
    let start = || {
        let cluster = one_node();
        for number in 0..1_200 {
            cluster.put("pods", pod(&format!("p{number:04}"), json!({})));
        }
        let _watching = Watching::started(&cluster, &[]);
        for resource in ["nodes", "pods", "services"] {
            assert_eq!(cluster.watches(resource), 1, "{resource}");
        }
    };
    std::thread::scope(|scope| (0..6).for_each(|_| drop(scope.spawn(start))));
}

#[test]
fn a_list_after_a_gap_that_breaks_off_loses_nothing() {
    let cluster = ApiServer::start();
    let names: Vec<String> = (0..600).map(|number| format!("p{number:04}")).collect();
    let v = |value: &str| json!({"v": value});
    names
        .iter()
        .for_each(|name| cluster.put("pods", pod(name, v(""))));
    let watching = Watching::started(&cluster, &[]);
    cluster.fault(|faults| (faults.is_away, faults.cut_pages) = (true, 1));
    cluster.cut();
    // One pod is on the page that comes, one on the page that does not.
    cluster.put("pods", pod("p0000", v("new")));
    cluster.put("pods", pod("p0599", v("new")));
    cluster.delete("pods", "shop/p0001");
    cluster.expire();
    cluster.fault(|faults| faults.is_away = false);
    let others = names[2..599].iter().map(String::as_str);
    let wanted: Vec<&str> = ["p0000new", "p0599new"].into_iter().chain(others).collect();
    let held: Vec<&str> = names.iter().map(String::as_str).collect();
    watching.turns(&held, &wanted);
}

#[test]
fn what_may_not_be_read_is_told_with_the_rule_to_add() {
    let cluster = one_node();
    cluster.fault(|faults| faults.forbidden.extend(["pods", "services"]));
    let watching = Watching::start(&cluster, &[]);
    let told = watching.says("may not list pods");
    let rule = "add this rule to a ClusterRole of the account: {apiGroups: [\"\"], resources: \
                [pods], verbs: [get, list, watch]}";
    assert!(told.contains(rule), "{told}");
    assert!(!watching.is_ready(), "{told}");
    // Without services default constraints find fewer selectors, and all else is right.
    cluster.fault(|faults| faults.forbidden = ["services"].into());
    watching.ready();
    let told = watching.says("may not list services");
    assert!(
        told.contains("default constraints do without Service"),
        "{told}"
    );
    assert!(!told.contains("may not list pods"), "{told}");
    cluster.put("services", service("s"));
    cluster.fault(|faults| faults.forbidden.clear());
    watching.holds(&["n", "s"]);
    until("all is right", || {
        let body = get(&watching.admin, "/readyz").body;
        (!body.contains("services")).then_some(())
    });
}

#[test]
fn a_silent_api_server_is_seen_in_the_age_and_bookmarks_are_signs_of_life() {
    let cluster = one_node();
    // A missing right to list stateful sets is only a warning.
    cluster.fault(|faults| faults.forbidden.extend(["statefulsets"]));
    let watching = Watching::started(&cluster, &["--max-age=15s"]);
    let first = watching.holds(&["n"]);
    until("a heartbeat", || {
        cluster.bookmark();
        let now = watching.described()?;
        (now.revision > first.revision && !now.stale).then_some(())
    });
    cluster.fault(|faults| faults.is_away = true);
    cluster.cut();
    watching.says("snapshot default is stale");
    watching.holds(&["n"]);
    cluster.put("nodes", node("m", "b"));
    cluster.fault(|faults| faults.is_away = false);
    watching.holds(&["m", "n"]);
    // Watches are granted again at different moments, up to 30 s apart: grants alone do not
    // keep a snapshot younger than 15 s.
    until("it is fresh", || {
        cluster.bookmark();
        let told = get(&watching.admin, "/readyz").body;
        (!told.contains("stale")).then_some(())
    });
}

/// A watch from a version that the restored API server does not have yet is granted, and
/// tells nothing.
#[test]
fn a_cluster_that_is_restored_from_a_backup_is_listed_again() {
    let cluster = one_node();
    cluster.put("pods", pod("p", json!({"v": "1"})));
    let backup = cluster.backup();
    let watching = Watching::started(&cluster, &[]);
    cluster.put("pods", pod("p", json!({"v": "2"})));
    cluster.put("pods", pod("q", json!({})));
    cluster.put("nodes", node("m", "b"));
    let before = watching.holds(&["m", "n", "p2", "q"]);
    cluster.restore(backup);
    let after = watching.holds(&["n", "p1"]);
    assert_eq!(after.epoch, before.epoch);
    let name = "evenkeel_kubernetes_lists_total";
    for kind in ["kind=\"Pod\"", "kind=\"Node\""] {
        let restored = watching.metric(name, &[kind, "reason=\"restored\""]);
        assert_eq!(restored, 1.0, "{kind}");
    }
    cluster.put("pods", pod("r", json!({})));
    watching.holds(&["n", "p1", "r"]);
}

#[test]
fn a_snapshot_is_as_old_as_what_is_known_of_its_oldest_kind() {
    let cluster = one_node();
    let watching = Watching::started(&cluster, &["--max-age=12s"]);
    cluster.fault(|faults| faults.unwatched.extend(["pods"]));
    cluster.cut();
    let mut labels = 0;
    until("it is stale", || {
        // The server hears of all other kinds all the time.
        labels += 1;
        cluster.put("nodes", node("n", &labels.to_string()));
        cluster.bookmark();
        let told = get(&watching.admin, "/readyz").body;
        (told.contains("may not watch pods") && told.contains("snapshot default is stale"))
            .then_some(())
    });
    cluster.fault(|faults| faults.unwatched.clear());
    until("it is fresh", || {
        cluster.bookmark();
        (!watching.described()?.stale).then_some(())
    });
}

#[test]
fn what_may_be_listed_and_not_watched_does_not_make_ready() {
    let cluster = one_node();
    cluster.fault(|faults| faults.unwatched.extend(["pods"]));
    let watching = Watching::start(&cluster, &[]);
    watching.says("may not watch pods");
    assert!(!watching.is_ready());
    cluster.fault(|faults| faults.unwatched.clear());
    watching.ready();
    // No maximum age is set, and answers have an age all the same.
    assert!(watching.described().expect("it exists").age.is_some());
}

#[test]
fn an_object_that_is_refused_is_left_out_and_the_others_are_not() {
    // No API server would store such a label; limits of the server refuse real ones.
    let odd = pod("odd", json!({"v": "no label value"}));
    for is_first in [true, false] {
        let cluster = one_node();
        cluster.put("pods", pod("p", json!({})));
        if is_first {
            cluster.put("pods", odd.clone());
        }
        let watching = Watching::started(&cluster, &[]);
        watching.holds(&["n", "p"]);
        if !is_first {
            cluster.put("pods", odd.clone());
        }
        cluster.put("pods", pod("q", json!({})));
        watching.holds(&["n", "p", "q"]);
        let left = until("it is counted", || {
            let name = "evenkeel_kubernetes_left_out_total";
            let left = watching.metric(name, &["kind=\"Pod\""]);
            (left > 0.0).then_some(left)
        });
        assert_eq!(left, 1.0);
        // The object is tried again once it has changed.
        cluster.put("pods", pod("odd", json!({})));
        watching.holds(&["n", "odd", "p", "q"]);
    }
}

#[test]
fn another_process_feeds_a_server_through_its_restarts() {
    let cluster = one_node();
    let server = Server::start(&["--expect-snapshot=default"]);
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let mut feeder = command(&[
        "feed",
        "--kubeconfig",
        &kubeconfig,
        "--server",
        server.url(),
    ]);
    let mut feeder = feeder.spawn().expect("the binary starts");
    let runtime = Runtime::new().expect("a runtime");
    holds(&runtime, &server, &["n"]);
    let address = server.address().to_owned();
    drop(server);
    let server = Server::spawn_on(
        &address,
        &mut command(&["serve", "--expect-snapshot=default"]),
    );
    cluster.put("nodes", node("m", "a"));
    holds(&runtime, &server, &["m", "n"]);
    let _ = feeder.kill();
    let _ = feeder.wait();
}

/// Somebody restores an older copy of the state directory, which is whole. The server goes back within
/// its epoch, and the feed sends again what it had acknowledged.
#[test]
fn a_server_that_goes_back_is_fed_again() {
    let cluster = one_node();
    let directory = tempfile::tempdir().expect("a directory");
    let (state, copy) = (
        directory.path().join("state"),
        directory.path().join("copy"),
    );
    let state_dir = format!("--state-dir={}", state.display());
    let serve = |address: &str| Server::spawn_on(address, &mut command(&["serve", &state_dir]));
    let runtime = Runtime::new().expect("a runtime");
    let mut server = serve("127.0.0.1:0");
    let address = server.address().to_owned();
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let feed = [
        "feed",
        "--kubeconfig",
        &kubeconfig,
        "--server",
        server.url(),
    ];
    let mut feeder = command(&feed).spawn().expect("the binary starts");
    holds(&runtime, &server, &["n"]);
    let stop = |server: &mut Server| {
        server.signal("TERM");
        runtime.block_on(server.exited());
    };
    stop(&mut server);
    std::fs::create_dir(&copy).expect("there is room");
    let file = "evenkeel.redb";
    std::fs::copy(state.join(file), copy.join(file)).expect("there is room");
    server = serve(&address);
    cluster.put("nodes", node("between", "a"));
    holds(&runtime, &server, &["between", "n"]);
    stop(&mut server);
    std::fs::remove_dir_all(&state).expect("it is there");
    std::fs::rename(&copy, &state).expect("it is there");
    server = serve(&address);
    cluster.put("nodes", node("m", "a"));
    holds(&runtime, &server, &["between", "m", "n"]);
    let _ = feeder.kill();
    let _ = feeder.wait();
}

/// A cluster of one node, with an identity.
fn identified(name: &str) -> ApiServer {
    let cluster = ApiServer::start();
    let uid = format!("uid-of-{name}");
    cluster.put(
        "namespaces",
        json!({"metadata": {"name": "kube-system", "uid": uid}}),
    );
    cluster.put("nodes", node(name, "a"));
    cluster
}

/// A state directory, and later a running server, meets another cluster than before.
#[test]
fn two_clusters_are_not_mixed() {
    let (one, two) = (identified("one"), identified("two"));
    let directory = tempfile::tempdir().expect("a directory");
    let state_dir = format!("--state-dir={}", directory.path().join("state").display());
    let mut first = Watching::started(&one, &[&state_dir]);
    let held = first.holds(&["kube-system", "one"]);
    assert_eq!(held.cluster, "uid-of-one");
    first.server.signal("TERM");
    first.runtime.block_on(first.server.exited());

    let second = Watching::start(&two, &[&state_dir]);
    let told = second.says("feed of snapshot default: it is fed from the cluster uid-of-one");
    assert!(told.contains("(uid-of-two)"), "{told}");
    assert!(!second.is_ready());
    assert_eq!(two.lists("nodes"), 0, "nothing is read to be fed");
    second.holds(&["kube-system", "one"]);
    second.runtime.block_on(second.server.delete(""));
    second.ready();
    let held = second.holds(&["kube-system", "two"]);
    assert_eq!(held.cluster, "uid-of-two");

    let log = directory.path().join("log");
    let kubeconfig = one.kubeconfig().display().to_string();
    let url = second.server.url();
    let mut feeder = command(&["feed", "--kubeconfig", &kubeconfig, "--server", url])
        .stderr(std::fs::File::create(&log).expect("there is room"))
        .spawn()
        .expect("the binary starts");
    until("the other cluster is refused", || {
        let log = std::fs::read_to_string(&log).expect("it is there");
        let is_told = log.contains("it is fed from the cluster uid-of-two, not from ");
        is_told.then_some(())
    });
    second.holds(&["kube-system", "two"]);
    let _ = feeder.kill();
    let _ = feeder.wait();
}
