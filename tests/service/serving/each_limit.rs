//! Each limit of the table can be reached, and the metrics then count it from 0 on, under the name
//! that the refusal has. Most limits are constants, and lower here.

use evenkeel::limits::Limit;
use evenkeel::proto::v1::{Dialect, FilterRequest, PlaceRequest, View};
use serde_json::json;
use support::refusal::fields;
use tonic::Status;

use crate::serving::limits::{assert_over, update};
use crate::serving::metrics::Page;
use crate::serving::over_limits::{
    self, Client, filter, filtered, place, placed, pod, read, refusal, two, updated,
};
use crate::serving::process::{Server, until};

const REFUSALS: &str = "evenkeel_limit_refusals_total";

fn label(limit: Limit) -> String {
    format!("limit=\"{}\"", limit.name())
}

/// Returns whether a limit is tried as it is, because a request over it is small.
fn is_tried_whole(limit: Limit) -> bool {
    matches!(
        limit,
        Limit::NodeAffinityTerms
            | Limit::ObjectBytes
            | Limit::PodResources
            | Limit::PlacedWorkloads
            | Limit::HealthChecks
    )
}

/// Returns the value at which a limit is tried: 1 where possible, so that two are too many.
fn value(limit: Limit) -> &'static str {
    match limit {
        Limit::MessageBytes => "65536",
        // Enough for the program and a small call.
        Limit::MemoryBytes => "8000000",
        _ => "1",
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_limit_refuses_and_is_counted() {
    for limit in Limit::refusing() {
        println!("{limit:?}");
        let flag = format!("--{}", limit.name());
        let mut flags = vec!["--admin-listen", "127.0.0.1:0"];
        if !is_tried_whole(limit) {
            flags.extend([flag.as_str(), value(limit)]);
        }
        if limit == Limit::WaitingDecisions {
            flags.extend(["--max-running-decisions", "1"]);
        }
        let mut server = Server::start(&flags);
        let admin = server.logged("admin listening", "address");
        let count = || Page::of(&admin).sample(REFUSALS, &[&label(limit)]);
        assert_eq!(count(), Some(0.0), "{limit:?} starts at zero");
        exceed(limit, &server).await;
        until(limit.name(), || (count() > Some(0.0)).then_some(()));
        // No other limit refused anything.
        let page = Page::of(&admin);
        for other in Limit::refusing().filter(|other| *other != limit) {
            assert_eq!(page.value(REFUSALS, &[&label(other)]), 0.0, "{other:?}");
        }
        let set = page.value("evenkeel_limit", &[&label(limit)]);
        if !is_tried_whole(limit) {
            assert_eq!(set.to_string(), value(limit), "{limit:?}");
        }
    }
}

/// Goes over a limit, and checks the refusal.
async fn exceed(limit: Limit, server: &Server) {
    // One more than is allowed.
    let many = limit.row().default.unwrap_or_default() + 1;
    let channel = server.channel();
    let client = &mut Client::new(channel.clone());
    let status: Status = match limit {
        Limit::Connections => return over_limits::second_connection(server),
        Limit::MessageBytes => updated(client, update(70)).await,
        Limit::MemoryBytes => updated(client, update(2_000)).await,
        Limit::ConcurrentCalls => over_limits::second_call(client, server).await,
        Limit::ChangesPerBatch | Limit::Nodes => updated(client, two("node")).await,
        Limit::Pods | Limit::LabelSets => updated(client, two("pod")).await,
        Limit::Owners => updated(client, two("service")).await,
        Limit::PodSpecBytes => {
            let choosy = pod(json!({"nodeSelector": {"disk": "ssd"}}));
            updated(client, read(json!({"changes": [{"pod": choosy}]}))).await
        }
        Limit::Snapshots => over_limits::second_snapshot(client).await,
        Limit::OverlayChanges => {
            let overlay = two("node").changes;
            let overlaid = FilterRequest {
                overlay,
                ..filter(json!({}))
            };
            filtered(client, overlaid).await
        }
        Limit::ObjectBytes => {
            let annotated = json!({"metadata": {"annotations": {"note": "x".repeat(many)}}});
            filtered(client, read(json!({"pod": annotated}))).await
        }
        Limit::ListEntries => filtered(client, filter(json!({"tolerations": [{}, {}]}))).await,
        Limit::ConstraintsPerPod => {
            let over = |key: &str| json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"});
            let constraints = json!({"topologySpreadConstraints": [over("a"), over("b")]});
            filtered(client, filter(constraints)).await
        }
        Limit::NodeAffinityTerms => {
            let required = json!({"nodeSelectorTerms": vec![json!({}); many]});
            let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": required});
            filtered(
                client,
                filter(json!({"affinity": {"nodeAffinity": required}})),
            )
            .await
        }
        Limit::PodResources => {
            let requests = (0..many).map(|i| (format!("e.io/r{i}"), json!("1")));
            let requests: serde_json::Map<_, _> = requests.collect();
            let container = json!({"resources": {"requests": requests}});
            filtered(client, filter(json!({"containers": [container]}))).await
        }
        Limit::StringBytes => {
            let candidates = json!({"names": ["ab"]});
            filtered(
                client,
                read(json!({"pod": pod(json!({})), "candidates": candidates})),
            )
            .await
        }
        Limit::Replicas => refusal(client.place(place()).await),
        Limit::PlacedWorkloads => {
            let workload = json!({"pod": pod(json!({})), "replicas": 1});
            placed(client, read(json!({"workloads": vec![workload; many]}))).await
        }
        Limit::StepScores => {
            // The answer has the scores of each step.
            let request = PlaceRequest {
                dialect: Dialect::Fleet.into(),
                view: View::Full.into(),
                ..place()
            };
            placed(client, request).await
        }
        Limit::Reservations => {
            let reserve = read(json!({"owner": "me", "ttl": "60s"}));
            placed(client, PlaceRequest { reserve, ..place() }).await
        }
        Limit::WaitingDecisions => over_limits::many_decisions(client).await,
        Limit::Streams => over_limits::second_stream(client, channel).await,
        Limit::StreamQuestions => over_limits::second_question(client).await,
        Limit::HealthChecks => over_limits::many_checks(channel).await,
        Limit::RunningDecisions | Limit::CallsPerConnection => {
            panic!("nobody is refused for {limit:?}")
        }
    };
    assert_over(limit.name(), &status);
    let named = match limit {
        Limit::ChangesPerBatch => "changes",
        Limit::OverlayChanges => "overlay",
        Limit::StringBytes => "candidates.names[0]",
        _ => return,
    };
    assert_eq!(fields(&status), [named]);
}
