//! Metrics of calls, of the time that they take, and of refusals by limit.
//! Names, units and help keep to the rules of OpenMetrics.

use evenkeel::proto::v1::{FilterRequest, Mode};
use support::build::{place_of, score_of};
use support::model::Stored;
use support::refusal::code;
use tonic::Code;

use super::admin::{fill, nodes, pod, question, start};
use crate::serving::http::get;
use crate::serving::metrics::Page;
use crate::serving::process::until;

/// Returns how many requests a limit has refused; `None` for a limit that refuses nobody.
fn refused(page: &Page, limit: &str) -> Option<f64> {
    let label = format!("limit=\"{limit}\"");
    page.sample("evenkeel_limit_refusals_total", &[&label])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_counted_by_method_and_code_and_timed() {
    let (server, admin) = start(&["--max-replicas", "5"]);
    let mut client = server.client();
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
    update.changes.push(pod().change());
    server.send(update).await;
    for _ in 0..3 {
        server.filter(question("")).await;
    }
    server.score(score_of(pod())).await;
    let unknown = client.filter(question("other")).await;
    assert_eq!(code(unknown), Code::NotFound);
    let over = client.place(place_of(pod(), 6)).await;
    assert_eq!(code(over), Code::ResourceExhausted);

    // A call is counted when its last byte was handed over, which may be after the client has it.
    let page = until("all calls are noted", || {
        let page = Page::of(&admin);
        refused(&page, "max-replicas").map(|_| page)
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
    // Score filters first, and all four decisions ask for the same count, which is built once.
    let lookups = |result| page.value("evenkeel_view_lookups_total", &[result]);
    assert_eq!(lookups("result=\"built\""), 1.0);
    assert_eq!(lookups("result=\"hit\""), 3.0);
    assert_eq!(page.value("evenkeel_calls_in_flight", &[]), 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_given_up_and_a_stream_are_counted_when_they_end() {
    let (server, admin) = start(&[]);
    let open = crate::serving::streams::feed(server.channel()).await;
    let mut client = server.client();
    fill(&mut client, "s", &["a"], Mode::Unspecified).await;
    let waits = FilterRequest {
        min_revision: 1_000,
        ..question("s")
    };
    let mut other = client.clone();
    let waiting = tokio::spawn(async move { other.filter(waits).await });
    let under_way = |each: f64| {
        let page = Page::of(&admin);
        let metrics = ["evenkeel_calls_in_flight", "evenkeel_open_feeds"];
        (metrics.map(|metric| page.value(metric, &[])) == [each, each]).then_some(page)
    };
    until("both are under way", || under_way(1.0));
    waiting.abort();
    drop(open);
    let page = until("both have ended", || under_way(0.0));
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

/// Each counter starts at 0, because a rate needs a zero to start from.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_limit_is_counted_from_the_start() {
    let (server, admin) = start(&["--max-connections", "1"]);
    let refused = |limit: &str| refused(&Page::of(&admin), limit);
    for limit in [
        "max-streams",
        "max-waiting-decisions",
        "max-concurrent-calls",
        "max-message-bytes",
        "max-connections",
        "max-nodes",
        "max-replicas",
    ] {
        assert_eq!(refused(limit), Some(0.0), "{limit}");
    }
    // These limits refuse nobody.
    for limit in ["max-running-decisions", "max-calls-per-connection"] {
        assert_eq!(refused(limit), None, "{limit}");
    }
    let open = || std::net::TcpStream::connect(server.address()).expect("the port is open");
    let _connections = [open(), open()];
    until("a refused connection", || {
        (refused("max-connections") == Some(1.0)).then_some(())
    });
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
