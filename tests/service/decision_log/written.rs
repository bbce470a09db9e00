//! The lines of a decision log: the decisions that have one, and the fields of a line.

use evenkeel::proto::v1::{ExplainRequest, FilterRequest, PlaceRequest, ScoreRequest};

use crate::decision_log::logging::{Logging, lines, texts, web};
use support::build::{filter_of, node};
use support::model::Stored;
use support::server::Server;

#[tokio::test]
async fn a_line_says_what_was_asked_and_answered() {
    let log = Logging::start(&[]).await;
    log.run_on("w1", "a1").await;
    let answer = log.filter().await;
    assert!(!answer.decision_id.is_empty());
    let lines = log.lines(1);
    let line = &lines[0];
    assert_eq!(line["id"], answer.decision_id);
    assert_eq!(line["rpc"], "Filter");
    assert_eq!(line["snapshot"], "default");
    assert_eq!(line["epoch"], answer.epoch);
    assert_eq!(line["revision"], answer.revision);
    assert!(line["tookMicros"].is_u64());
    let time = line["time"].as_str().expect("a time");
    humantime::parse_rfc3339(time).expect("RFC 3339");
    assert_eq!(line["request"]["pod"]["metadata"]["labels"]["app"], "web");
    let brief = &line["answer"];
    assert_eq!(
        (&brief["nodeCount"], &brief["judgedCount"]),
        (&2.into(), &3.into())
    );
    assert_eq!(brief["nodes"][0][0], "b1");
    let reason = &brief["reasons"]["node(s) didn't match pod topology spread constraints"];
    assert_eq!(reason["count"], 1);
    assert_eq!(reason["code"], "REASON_CODE_SKEW");
    assert_eq!(brief["constraints"][0]["domainCount"], 3);
}

#[tokio::test]
async fn every_decision_has_a_line_and_refusals_have_none() {
    let mut log = Logging::start(&[]).await;
    let pod = || Some(web());
    let filter = log.filter().await.decision_id;
    let score = ScoreRequest {
        pod: pod(),
        ..ScoreRequest::default()
    };
    let score = log.server.score(score).await;
    let explain = ExplainRequest {
        pod: pod(),
        ..ExplainRequest::default()
    };
    let explain = log.server.explain(explain).await;
    let place = PlaceRequest {
        pod: pod(),
        replicas: 2,
        ..PlaceRequest::default()
    };
    let place = log.server.place(place).await;
    let refused = log.server.client().filter(FilterRequest::default()).await;
    refused.expect_err("it has no pod");
    let last = log.filter().await.decision_id;
    let ids = [
        filter,
        score.decision_id,
        explain.decision_id,
        place.decision_id,
        last,
    ];
    log.stop().await;
    let lines = lines(&log.path("decisions.jsonl"));
    assert_eq!(texts(&lines, "id"), ids);
    assert_eq!(
        texts(&lines, "rpc"),
        ["Filter", "Score", "Explain", "Place", "Filter"]
    );
}

/// A request that the log could not write is refused, so no answer is missing from the log.
#[tokio::test]
async fn what_could_not_be_written_is_not_answered() {
    let log = Logging::start(&[]).await;
    let times = [i64::MIN, i64::MAX].map(|seconds| pbjson_types::Timestamp { seconds, nanos: 0 });
    let mut leaving = node("d1", &[]);
    let mut going = web();
    for time in times {
        going.metadata.get_or_insert_default().deletion_timestamp = Some(time);
        leaving.metadata.get_or_insert_default().deletion_timestamp = Some(time);
        let requests = [
            (going.clone(), vec![]),
            (web(), vec![leaving.clone().change()]),
        ];
        for (pod, overlay) in requests {
            let request = FilterRequest {
                overlay,
                ..filter_of(pod)
            };
            let refused = log
                .server
                .client()
                .filter(request)
                .await
                .expect_err("no such time");
            assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}");
        }
    }
}

#[tokio::test]
async fn without_a_log_there_are_no_ids() {
    let server = Server::start().await;
    server.update("", vec![node("a1", &[]).change()]).await;
    assert_eq!(server.filter(filter_of(web())).await.decision_id, "");
}

#[tokio::test]
async fn what_is_sampled_has_an_id() {
    let mut log = Logging::start(&["--decision-log-sample", "0.5"]).await;
    let mut ids = Vec::new();
    for _ in 0..200 {
        ids.push(log.filter().await.decision_id);
    }
    log.stop().await;
    ids.retain(|id| !id.is_empty());
    // Fewer than 50 or more than 150 happen once in 10^12 runs.
    assert!((50..150).contains(&ids.len()), "{}", ids.len());
    let lines = lines(&log.path("decisions.jsonl"));
    assert_eq!(texts(&lines, "id"), ids);
}
