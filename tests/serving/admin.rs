//! The admin port of a running server: metrics, probes and what helps to
//! debug, at every step of a server's life.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel::proto::v1::{
    Change, FilterRequest, GetSnapshotRequest, LabelSelector, Mode, Node, ObjectMeta, PlaceRequest,
    Pod, PodSpec, Reservation, ScoreRequest, TopologySpreadConstraint, UpdateSnapshotRequest,
    change,
};
use tonic::Code;
use tonic::transport::Channel;

use crate::http::{ask, exchange, get};
use crate::metrics::Page;
use crate::process::{Server, until};

/// A server with an admin port, and where that is.
fn start(args: &[&str]) -> (Server, String) {
    let mut all = vec!["--admin-listen", "127.0.0.1:0"];
    all.extend(args);
    let mut server = Server::start(&all);
    let admin = server.logged("admin listening", "address");
    (server, admin)
}

fn client(server: &Server) -> SpreadServiceClient<Channel> {
    SpreadServiceClient::new(server.channel())
}

fn metadata(name: &str) -> Option<ObjectMeta> {
    Some(ObjectMeta {
        name: name.into(),
        labels: [("zone".into(), name.into()), ("app".into(), "web".into())].into(),
        ..Default::default()
    })
}

/// A batch of nodes, each in a zone of its own.
fn nodes(snapshot: &str, names: &[&str], mode: Mode) -> UpdateSnapshotRequest {
    let node = |name: &&str| Change {
        object: Some(change::Object::Node(Node {
            metadata: metadata(name),
            ..Default::default()
        })),
    };
    UpdateSnapshotRequest {
        snapshot: snapshot.into(),
        mode: mode.into(),
        changes: names.iter().map(node).collect(),
        ..Default::default()
    }
}

/// A pod with a hard constraint over zones.
fn pod() -> Option<Pod> {
    let constraint = TopologySpreadConstraint {
        max_skew: 1,
        topology_key: "zone".into(),
        when_unsatisfiable: "DoNotSchedule".into(),
        label_selector: Some(LabelSelector {
            match_labels: [("app".into(), "web".into())].into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    Some(Pod {
        metadata: metadata("pod"),
        spec: Some(PodSpec {
            topology_spread_constraints: vec![constraint],
            ..Default::default()
        }),
        ..Default::default()
    })
}

fn question(snapshot: &str) -> FilterRequest {
    FilterRequest {
        snapshot: snapshot.into(),
        pod: pod(),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_counted_by_method_and_code_and_timed() {
    let (server, admin) = start(&["--max-replicas", "5"]);
    let mut client = client(&server);
    let before = Page::of(&admin);
    assert_eq!(
        before.value(
            "evenkeel_calls_total",
            &["method=\"Filter\"", "code=\"OK\""]
        ),
        0.0
    );

    let mut update = nodes("default", &["a", "b", "c"], Mode::Unspecified);
    // Views are kept where there are pods.
    let object = pod().map(change::Object::Pod);
    update.changes.push(Change { object });
    client.update_snapshot(update).await.expect("valid nodes");
    for _ in 0..3 {
        client.filter(question("")).await.expect("a valid question");
    }
    let score = ScoreRequest {
        pod: pod(),
        ..Default::default()
    };
    client.score(score).await.expect("a valid question");
    let unknown = client.filter(question("other")).await;
    assert_eq!(
        unknown.expect_err("no such snapshot").code(),
        Code::NotFound
    );
    let too_many = PlaceRequest {
        pod: pod(),
        replicas: 6,
        ..Default::default()
    };
    let refused = client.place(too_many).await.expect_err("over the limit");
    assert_eq!(refused.code(), Code::ResourceExhausted);

    // A call is noted when its last byte was handed over, which may be after
    // the client has it.
    let page = until("all calls are noted", || {
        let page = Page::of(&admin);
        let refused = page.sample("evenkeel_limit_refusals_total", &["limit=\"max-replicas\""]);
        refused.map(|_| page)
    });
    let calls = |method: &str, code: &str| {
        let labels = [format!("method=\"{method}\""), format!("code=\"{code}\"")];
        page.value("evenkeel_calls_total", &[&labels[0], &labels[1]])
    };
    assert_eq!(calls("UpdateSnapshot", "OK"), 1.0);
    assert_eq!(calls("Filter", "OK"), 3.0);
    assert_eq!(calls("Filter", "NOT_FOUND"), 1.0);
    assert_eq!(calls("Score", "OK"), 1.0);
    assert_eq!(calls("Place", "RESOURCE_EXHAUSTED"), 1.0);

    let filter = ["method=\"Filter\""];
    for (metric, count) in [
        ("evenkeel_call_duration_seconds", 4.0),
        ("evenkeel_call_wait_seconds", 3.0),
        ("evenkeel_decision_duration_seconds", 3.0),
    ] {
        assert_eq!(page.value(&format!("{metric}_count"), &filter), count);
        let last = [filter[0], "le=\"+Inf\""];
        assert_eq!(page.value(&format!("{metric}_bucket"), &last), count);
        assert!(page.value(&format!("{metric}_sum"), &filter) > 0.0);
    }
    // Three decisions on three nodes in three zones.
    assert_eq!(page.value("evenkeel_decision_nodes_total", &filter), 9.0);
    assert_eq!(page.value("evenkeel_decision_domains_total", &filter), 9.0);
    // Score filters first; all four ask for one count, which is built once.
    let lookups = |result| page.value("evenkeel_view_lookups_total", &[result]);
    assert_eq!(lookups("result=\"built\""), 1.0);
    assert_eq!(lookups("result=\"hit\""), 3.0);
    assert_eq!(page.value("evenkeel_calls_in_flight", &[]), 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_given_up_and_a_stream_are_counted_when_they_end() {
    let (server, admin) = start(&[]);
    let open = crate::streams::feed(server.channel()).await;
    let mut client = client(&server);
    let update = nodes("s", &["a"], Mode::Unspecified);
    client.update_snapshot(update).await.expect("valid nodes");
    let waits = FilterRequest {
        min_revision: 1_000,
        ..question("s")
    };
    let mut other = client.clone();
    let waiting = tokio::spawn(async move { other.filter(waits).await });
    until("both are under way", || {
        let page = Page::of(&admin);
        let under_way = ["evenkeel_calls_in_flight", "evenkeel_open_feeds"];
        (under_way.map(|metric| page.value(metric, &[])) == [1.0, 1.0]).then_some(())
    });
    waiting.abort();
    drop(open);
    let page = until("both have ended", || {
        let page = Page::of(&admin);
        let under_way = ["evenkeel_calls_in_flight", "evenkeel_open_feeds"];
        (under_way.map(|metric| page.value(metric, &[])) == [0.0, 0.0]).then_some(page)
    });
    let labels = ["method=\"Filter\"", "code=\"CANCELLED\""];
    assert_eq!(page.value("evenkeel_calls_total", &labels), 1.0);
    let ended = page
        .text()
        .lines()
        .filter(|line| line.starts_with("evenkeel_calls_total") && line.contains("StreamSnapshot"));
    let ended: f64 = ended
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
        .sum();
    assert_eq!(ended, 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_are_counted_by_the_name_of_the_limit() {
    let (server, admin) = start(&["--max-feeds", "1", "--max-nodes", "2"]);
    let mut client = client(&server);
    let update = nodes("s", &["a", "b", "c"], Mode::Unspecified);
    client
        .update_snapshot(update)
        .await
        .expect_err("three nodes");
    let open = crate::streams::feed(server.channel()).await;
    let (_steps, receiver) = tokio::sync::mpsc::channel(1);
    let second = client.stream_snapshot(tokio_stream::wrappers::ReceiverStream::new(receiver));
    second.await.expect_err("one feed is open");
    for limit in ["max-nodes", "max-feeds"] {
        let label = format!("limit=\"{limit}\"");
        until(limit, || {
            let page = Page::of(&admin);
            let refused = page.sample("evenkeel_limit_refusals_total", &[&label]);
            (refused == Some(1.0)).then_some(())
        });
        let configured = Page::of(&admin).value("evenkeel_limit", &[&label]);
        assert_eq!(configured, if limit == "max-nodes" { 2.0 } else { 1.0 });
    }
    drop(open);
}

/// A rate needs a zero to start from.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_limit_is_counted_from_the_start() {
    let (server, admin) = start(&["--max-connections", "1"]);
    let refused = |limit: &str| {
        let label = format!("limit=\"{limit}\"");
        Page::of(&admin).sample("evenkeel_limit_refusals_total", &[&label])
    };
    for limit in [
        "max-feeds",
        "max-waiting-decisions",
        "max-concurrent-calls",
        "max-message-bytes",
        "max-connections",
        "max-nodes",
        "max-replicas",
    ] {
        assert_eq!(refused(limit), Some(0.0), "{limit}");
    }
    // Nobody is refused for these.
    for limit in ["max-running-decisions", "max-calls-per-connection"] {
        assert_eq!(refused(limit), None, "{limit}");
    }
    let open = || std::net::TcpStream::connect(server.address()).expect("the port is open");
    let _connections = [open(), open()];
    until("a refused connection", || {
        (refused("max-connections") == Some(1.0)).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_are_described_and_their_labels_are_bounded() {
    let (server, admin) = start(&["--metrics-snapshots", "3", "--expect-snapshot", "expected"]);
    let mut client = client(&server);
    let sizes: [(&str, &[&str]); 3] = [
        ("large", &["a", "b", "c"]),
        ("middle", &["a", "b"]),
        ("small", &["a"]),
    ];
    let start = Instant::now();
    for (snapshot, names) in sizes {
        let update = nodes(snapshot, names, Mode::Replace);
        client.update_snapshot(update).await.expect("valid nodes");
    }
    let took = start.elapsed().as_secs_f64();
    for number in 0..20 {
        let update = nodes(&format!("tiny-{number}"), &["a"], Mode::Unspecified);
        client.update_snapshot(update).await.expect("valid nodes");
    }
    let place = PlaceRequest {
        snapshot: "large".into(),
        pod: pod(),
        replicas: 2,
        reserve: Some(Reservation {
            owner: "me".into(),
            ttl: Some(std::time::Duration::from_secs(60).into()),
        }),
        ..Default::default()
    };
    client.place(place).await.expect("there is room");
    let asked = client.filter(question("large")).await;
    asked.expect("a valid question");

    let page = Page::of(&admin);
    assert_eq!(page.value("evenkeel_snapshots", &[]), 24.0);
    let names = page
        .text()
        .lines()
        .filter(|line| line.starts_with("evenkeel_snapshot_age_seconds{"));
    assert_eq!(names.count(), 4, "{}", page.text());
    let nodes_of = |snapshot: &str| {
        let label = format!("snapshot=\"{snapshot}\"");
        page.value("evenkeel_snapshot_objects", &[&label, "kind=\"node\""])
    };
    assert_eq!(nodes_of("expected"), 0.0);
    assert_eq!(nodes_of("large"), 3.0);
    assert_eq!(nodes_of("middle"), 2.0);
    assert_eq!(nodes_of("(others)"), 21.0);
    let of =
        |metric: &str, snapshot: &str| page.value(metric, &[&format!("snapshot=\"{snapshot}\"")]);
    assert_eq!(of("evenkeel_snapshot_synced", "expected"), 0.0);
    assert_eq!(of("evenkeel_snapshot_synced", "large"), 1.0);
    assert_eq!(of("evenkeel_snapshot_reservations", "large"), 2.0);
    assert_eq!(of("evenkeel_snapshot_views", "large"), 1.0);
    assert!(of("evenkeel_snapshot_age_seconds", "large") < 3_600.0);
    let lag = of("evenkeel_snapshot_feed_lag_seconds", "large");
    assert!(lag > 0.0 && lag < took, "{lag} of {took}");
    assert_eq!(of("evenkeel_snapshot_feed_lag_seconds", "expected"), 0.0);
    assert_eq!(page.value("evenkeel_reservations_made_total", &[]), 2.0);
    assert_eq!(page.value("evenkeel_replaces_total", &[]), 3.0);
    assert_eq!(
        page.value("evenkeel_changes_total", &["result=\"changed\""]),
        28.0
    );

    let answer = get(&admin, "/debug/snapshot");
    assert_eq!(answer.status, 200);
    let told: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
    assert_eq!(told.as_array().map(Vec::len), Some(24));
    let answer = get(&admin, "/debug/snapshot/large");
    let one: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
    let wanted = client
        .get_snapshot(GetSnapshotRequest {
            snapshot: "large".into(),
        })
        .await
        .expect("it exists")
        .into_inner()
        .snapshot
        .expect("it is described");
    for (key, value) in serde_json::to_value(&wanted)
        .expect("JSON")
        .as_object()
        .expect("an object")
    {
        assert_eq!(&one[key], value, "{key}");
    }
    assert_eq!(one["namespaces"], 1);
    assert_eq!(one["views"], 1);
    let parts = one["memoryBytesByPart"].as_object().expect("parts");
    let total: u64 = parts.values().filter_map(serde_json::Value::as_u64).sum();
    assert_eq!(
        Some(total.to_string().as_str()),
        one["memoryBytes"].as_str()
    );
    assert_eq!(get(&admin, "/debug/snapshot/none").status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_gives_its_reasons() {
    let (mut server, admin) = start(&["--expect-snapshot", "a,b", "--drain-pause", "60s"]);
    server.logged("admin listening", "address");
    let unready = until("loading is over", || {
        let answer = get(&admin, "/readyz");
        (!answer.body.contains("loading")).then_some(answer)
    });
    assert_eq!(unready.status, 503);
    assert_eq!(
        unready.body,
        "snapshot a is not synced\nsnapshot b is not synced\n"
    );
    assert_eq!(Page::of(&admin).value("evenkeel_ready", &[]), 0.0);

    let mut client = client(&server);
    for snapshot in ["a", "b"] {
        let update = nodes(snapshot, &["n"], Mode::Replace);
        client.update_snapshot(update).await.expect("valid nodes");
    }
    let ready = get(&admin, "/readyz");
    assert_eq!((ready.status, ready.body.as_str()), (200, "ready\n"));
    assert_eq!(Page::of(&admin).value("evenkeel_ready", &[]), 1.0);

    server.signal("TERM");
    let draining = until("the drain begins", || {
        let answer = get(&admin, "/readyz");
        (answer.status == 503).then_some(answer)
    });
    assert_eq!(draining.body, "draining\n");
    assert_eq!(get(&admin, "/livez").status, 200);
}

#[tokio::test]
async fn readiness_names_snapshots_whose_feed_is_silent() {
    let (server, admin) = start(&["--max-age", "1s"]);
    let update = nodes("a", &["n"], Mode::Replace);
    let fed = client(&server).update_snapshot(update).await;
    fed.expect("valid nodes");
    let stale = until("the snapshot is stale", || {
        let answer = get(&admin, "/readyz");
        (answer.body != "ready\n").then_some(answer)
    });
    let said = "ready\nsnapshot a is stale\n";
    assert_eq!((stale.status, stale.body.as_str()), (200, said));
}

#[test]
fn a_server_that_loads_is_live_and_not_ready() {
    // A pipe that nobody writes to keeps the server loading.
    let directory = tempfile::tempdir().expect("a temporary directory");
    let pipe = directory.path().join("pipe.yaml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo is there").success());
    let (_server, admin) = start(&["--load", pipe.to_str().expect("a text path")]);
    assert_eq!(get(&admin, "/livez").status, 200);
    let answer = get(&admin, "/readyz");
    assert_eq!((answer.status, answer.body.as_str()), (503, "loading\n"));
    // Lets the thread that reads go.
    let written = std::fs::write(&pipe, "apiVersion: v1\nkind: List\nitems: []\n");
    written.expect("the pipe is read");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admin_port_answers_while_every_thread_is_taken() {
    let (server, admin) = start(&["--threads", "1", "--max-connections", "1"]);
    let held = server
        .endpoint()
        .connect()
        .await
        .expect("the one connection");
    let _open = crate::streams::feed(held).await;
    assert_eq!(get(&admin, "/readyz").status, 200);
    let page = Page::of(&admin);
    assert_eq!(page.value("evenkeel_open_connections", &[]), 1.0);
    let refused = server.endpoint().connect().await;
    drop(refused);
    until("the second connection is refused", || {
        let page = Page::of(&admin);
        (page.value("evenkeel_connections_refused_total", &[]) >= 1.0).then_some(())
    });
}

#[test]
fn the_log_level_changes_while_the_server_runs() {
    let (mut server, admin) = start(&["--log-level", "warn,evenkeel=info"]);
    assert_eq!(get(&admin, "/debug/log-level").body, "warn,evenkeel=info\n");
    let bad = ask(&admin, "PUT", "/debug/log-level", "loud");
    assert_eq!(bad.status, 400);
    assert!(bad.body.contains("loud"), "{}", bad.body);
    assert_eq!(get(&admin, "/debug/log-level").body, "warn,evenkeel=info\n");

    let set = ask(&admin, "PUT", "/debug/log-level", "debug\n");
    assert_eq!((set.status, set.body.as_str()), (200, "debug\n"));
    assert_eq!(server.logged("log level changed", "to"), "debug");
    // Debug lines are written from now on: this one tells of a bad request.
    exchange(&admin, b"nonsense\r\n\r\n");
    server.logged("admin connection failed", "peer");
}

#[test]
fn odd_requests_do_no_harm() {
    let (_server, admin) = start(&[]);
    let cases: &[(&str, &str, usize, u16)] = &[
        ("GET", "/nowhere", 0, 404),
        ("POST", "/metrics", 0, 405),
        ("DELETE", "/debug/snapshot", 0, 405),
        ("PUT", "/debug/log-level", 100_000, 413),
        (
            "GET",
            &format!("/debug/snapshot/{}", "x".repeat(30_000)),
            0,
            431,
        ),
        ("GET", "/debug/snapshot/%ff", 0, 400),
    ];
    for (method, path, bytes, status) in cases {
        let answer = ask(&admin, method, path, &"x".repeat(*bytes));
        assert_eq!(
            answer.status, *status,
            "{method} {path:.40}: {answer:.300?}"
        );
    }
    // More connections than are served at once, none of which says anything.
    let silent: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(&admin).expect("the port listens"))
        .collect();
    // They are cut off, and the port answers again.
    until("the port answers", || {
        let mut stream = TcpStream::connect(&admin).ok()?;
        stream.write_all(b"GET /livez HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.contains(" 200 ").then_some(())
    });
    drop(silent);
}

#[test]
fn metrics_keep_to_the_rules() {
    let (_server, admin) = start(&[]);
    let answer = get(&admin, "/metrics");
    assert!(
        answer
            .head
            .contains("content-type: application/openmetrics-text"),
        "{}",
        answer.head
    );
    let page = Page::of(&admin);
    assert!(page.text().ends_with("# EOF\n"));
    let families = page.families();
    assert!(families.len() > 25, "{families:?}");
    for (name, kind) in families {
        assert!(
            name.starts_with("evenkeel_") || name.starts_with("process_"),
            "{name}"
        );
        let lower = |c: char| c.is_ascii_lowercase() || c == '_';
        assert!(name.chars().all(lower), "{name}");
        let help = format!("# HELP {name} ");
        let help = page.text().lines().find(|line| line.starts_with(&help));
        assert!(
            help.is_some_and(|help| help.len() > 30 || name.starts_with("process_")),
            "{name}: {help:?}"
        );
        if kind == "histogram" {
            assert!(name.ends_with("_seconds"), "{name} has no unit");
        }
    }
    for name in [
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_open_fds",
    ] {
        assert!(page.value(name, &[]) > 0.0);
    }
    let version = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
    assert_eq!(page.value("evenkeel_build_info", &[&version]), 1.0);
}

#[test]
fn an_admin_address_that_is_taken_is_one_line_and_exit_code_1() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it is bound").to_string();
    let mut command = crate::process::command(&["serve", "--listen", "127.0.0.1:0"]);
    command.args(["--admin-listen", &address, "--log-level", "error"]);
    let output = crate::process::run(command);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.contains(&address), "{told}");
}
