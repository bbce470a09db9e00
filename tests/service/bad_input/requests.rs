//! Requests that are refused as a whole: those of `requests.yaml`. Candidates that nobody knows are no fault.

use std::sync::LazyLock;

use evenkeel::proto::v1::{FILE_DESCRIPTOR_SET, FilterRequest, NodeNames, View};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde::Deserialize;
use serde_json::Value;
use tonic::Code;

use super::verdict::{Row, refused, server, state, table};
use support::build::{ZONE, filter_of, hard, pod, score_as, spread};

/// The request of a method, from JSON.
pub(crate) fn encoded(method: &str, request: &Value) -> Vec<u8> {
    static POOL: LazyLock<DescriptorPool> =
        LazyLock::new(|| DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("descriptors"));
    let message = POOL.get_message_by_name(&format!("evenkeel.v1.{method}Request"));
    let message = message.expect("the request of a method");
    let read = DynamicMessage::deserialize(message, request);
    let read = read.unwrap_or_else(|error| panic!("{method}: {error}: {request}"));
    read.encode_to_vec()
}

/// A request of some methods, and how each refuses it.
#[derive(Deserialize)]
struct Bad {
    on: Vec<String>,
    what: String,
    request: Value,
    #[serde(default)]
    faults: Vec<String>,
    /// `NotFound` and the like; not set: the request is invalid.
    code: Option<String>,
    #[serde(default)]
    says: String,
}

impl Bad {
    fn rows(self) -> Vec<Row> {
        let code = match self.code.as_deref() {
            None => Code::InvalidArgument,
            Some("NotFound") => Code::NotFound,
            Some("FailedPrecondition") => Code::FailedPrecondition,
            Some("ResourceExhausted") => Code::ResourceExhausted,
            Some(other) => panic!("{other} is no code here"),
        };
        let row = |method: String| Row {
            what: self.what.clone(),
            message: encoded(&method, &self.request),
            method,
            code,
            faults: self.faults.clone(),
            says: self.says.clone(),
        };
        self.on.iter().cloned().map(row).collect()
    }
}

#[tokio::test]
async fn each_is_refused_by_its_fields() {
    let rows = table::<Bad>("requests")
        .into_iter()
        .flat_map(Bad::rows)
        .collect();
    refused(&server().await, rows).await;
}

/// Candidates that the snapshot does not hold are reported, and the others are decided about.
#[tokio::test]
async fn unknown_candidates_are_reported() {
    let server = server().await;
    let before = state(&server).await;
    let web = [("app", "web")];
    let names = ["stranger", "n1", "ghost", "n0"].map(str::to_owned);
    let request = FilterRequest {
        candidates: Some(NodeNames {
            names: names.into(),
        }),
        view: View::Full as i32,
        ..filter_of(spread(pod("", &web), vec![hard(1, ZONE, &web)]))
    };
    let answer = server.filter(request.clone()).await;
    assert_eq!(answer.unknown_candidates, ["stranger", "ghost"]);
    assert_eq!(answer.feasible, ["n1"]);
    assert_eq!(answer.infeasible.len(), 1);
    assert_eq!((answer.feasible_count, answer.node_count), (1, 2));
    let bitmap = FilterRequest {
        view: View::Bitmap as i32,
        ..request.clone()
    };
    let answer = server.filter(bitmap).await;
    assert_eq!(answer.feasible_bitmap.to_vec(), [0b0010], "bit 1 is n1");

    let answer = server.score(score_as(request)).await;
    assert_eq!(answer.unknown_candidates, ["stranger", "ghost"]);
    let scored: Vec<&str> = answer.scores.iter().map(|s| s.node.as_str()).collect();
    assert_eq!(scored, ["n1", "n0"]);
    assert_eq!(state(&server).await, before);
}
