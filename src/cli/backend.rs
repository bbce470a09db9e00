//! The backend of a command: a server, or a service inside this process.
//! Commands use both through the same client.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use http::uri::PathAndQuery;
use prost::Message;
use prost::bytes::Bytes;
use tokio_util::sync::CancellationToken;
use tonic::client::Grpc;
use tonic::{Request, Response, Status};

use super::exit::{RefusedCall, Unreachable};
use crate::api::{self, MAX_MESSAGE_BYTES};
use crate::kubernetes::Transport;
use crate::misspelt::nearest;
use crate::proto::encoded::{BytesCodec, encode};
use crate::proto::v1::spread_service_client::SpreadServiceClient;
use crate::proto::v1::{
    self, ExplainResponse, FilterResponse, GetSnapshotRequest, ObjectReference, PlaceResponse,
    ScoreResponse, Snapshot,
};
use crate::snapshot::{Limits, Registry, Unobserved};
use crate::visible;

/// A client of the service, with a timeout for each call.
#[derive(Clone)]
pub(crate) struct Client {
    transport: Transport,
    timeout: Option<Duration>,
}

/// A request that has one answer.
pub(crate) trait UnaryRequest: Message {
    /// The answer.
    type Answer: Message + Default;
    /// The path of the method.
    const PATH: &'static str;
}

macro_rules! unary {
    ($($method:literal: $request:ident => $answer:ident;)*) => {$(
        impl UnaryRequest for v1::$request {
            type Answer = v1::$answer;
            const PATH: &'static str = concat!("/evenkeel.v1.SpreadService/", $method);
        }
    )*};
}

unary! {
    "Filter": FilterRequest => FilterResponse;
    "Score": ScoreRequest => ScoreResponse;
    "Explain": ExplainRequest => ExplainResponse;
    "Place": PlaceRequest => PlaceResponse;
    "DescribeSpread": DescribeSpreadRequest => DescribeSpreadResponse;
    "RankRemovals": RankRemovalsRequest => RankRemovalsResponse;
    "Rebalance": RebalanceRequest => RebalanceResponse;
    "PlanNodes": PlanNodesRequest => PlanNodesResponse;
    "ConfirmReservations": ConfirmReservationsRequest => ConfirmReservationsResponse;
    "RenewReservations": RenewReservationsRequest => RenewReservationsResponse;
    "ReleaseReservations": ReleaseReservationsRequest => ReleaseReservationsResponse;
    "ListReservations": ListReservationsRequest => ListReservationsResponse;
    "GetSnapshot": GetSnapshotRequest => GetSnapshotResponse;
    "ListSnapshots": ListSnapshotsRequest => ListSnapshotsResponse;
    "DeleteSnapshot": DeleteSnapshotRequest => DeleteSnapshotResponse;
    "VerifySnapshot": VerifySnapshotRequest => VerifySnapshotResponse;
}

impl Client {
    /// A client of an empty service inside this process.
    pub(crate) fn in_process(timeout: Duration, limits: Limits) -> Self {
        let registry = Arc::new(Registry::new(limits, Arc::new(Unobserved)));
        let service = api::Service::new(registry, CancellationToken::new());
        Self::on(service.in_process(), Some(timeout))
    }

    /// A client on `transport`. `timeout` limits each call.
    pub(crate) fn on(transport: Transport, timeout: Option<Duration>) -> Self {
        Self { transport, timeout }
    }

    /// The generated client, for streams, which have no timeout.
    pub(crate) fn rpc(&self) -> SpreadServiceClient<Transport> {
        SpreadServiceClient::new(self.transport.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// Makes one call with one answer, within the timeout.
    pub(crate) async fn call<M: UnaryRequest>(&self, message: M) -> Result<M::Answer> {
        self.call_about(message, Vec::new).await
    }

    /// [`Client::call`] with a request that contains changes. `objects` returns their names for an
    /// error.
    pub(crate) async fn call_about<M: UnaryRequest>(
        &self,
        message: M,
        objects: impl FnOnce() -> Vec<String>,
    ) -> Result<M::Answer> {
        let answer = self.unary(M::PATH, encode(message)).await?;
        let answer = answer.and_then(|answer| {
            M::Answer::decode(answer).map_err(|error| Status::internal(error.to_string()))
        });
        match answer {
            Ok(answer) => Ok(answer),
            Err(status) => Err(self.failed(status, objects()).await),
        }
    }

    /// The error of a failed call. It names the nearest snapshots where there is none of its name.
    pub(crate) async fn failed(&self, status: Status, objects: Vec<String>) -> anyhow::Error {
        let error = RefusedCall::or_unreachable(status, objects);
        if let Some(name) = RefusedCall::unknown_snapshot(&error) {
            let all = encode(v1::ListSnapshotsRequest::default());
            let all = self.unary(v1::ListSnapshotsRequest::PATH, all).await;
            let all = all.ok().and_then(Result::ok).unwrap_or_default();
            let all = v1::ListSnapshotsResponse::decode(all).unwrap_or_default();
            let known = all.snapshots.iter().map(|it| it.name.as_str());
            return anyhow::anyhow!("{error:#}{}", visible::text(&nearest(&name, known)));
        }
        error
    }

    /// Makes one call with encoded messages, so that this code is compiled only once for all
    /// methods.
    async fn unary(&self, path: &'static str, message: Bytes) -> Result<Result<Bytes, Status>> {
        let mut request = Request::new(message);
        if let Some(timeout) = self.timeout {
            request.set_timeout(timeout);
        }
        let mut grpc = Grpc::new(self.transport.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let call = async {
            let ready = grpc.ready().await;
            ready.map_err(|error| Status::unknown(format!("Service was not ready: {error}")))?;
            let path = PathAndQuery::from_static(path);
            grpc.unary(request, path, BytesCodec).await
        };
        let answer = within(self.timeout, call).await?;
        Ok(answer.map(Response::into_inner))
    }

    /// Describes a snapshot.
    pub(crate) async fn describe(&self, snapshot: &str) -> Result<Snapshot> {
        let request = GetSnapshotRequest {
            snapshot: snapshot.to_owned(),
        };
        let answer = self.call(request).await?;
        Ok(answer.snapshot.unwrap_or_default())
    }
}

/// Returns all items of a list that is answered in pages. `ask` takes the token of a page, and
/// returns its items and the token of the next page.
pub(crate) async fn all_pages<T>(
    mut ask: impl AsyncFnMut(String) -> Result<(Vec<T>, String)>,
) -> Result<Vec<T>> {
    let (mut all, mut token) = (Vec::new(), String::new());
    loop {
        let (items, next) = ask(token).await?;
        all.extend(items);
        if next.is_empty() {
            return Ok(all);
        }
        token = next;
    }
}

/// Waits for `call`, at most until the timeout.
pub(crate) async fn within<T>(
    timeout: Option<Duration>,
    call: impl Future<Output = T>,
) -> Result<T> {
    let Some(limit) = timeout else {
        return Ok(call.await);
    };
    tokio::time::timeout(limit, call).await.map_err(|_| {
        let limit = humantime::format_duration(limit);
        Unreachable(format!("no answer within {limit} (see --timeout)")).into()
    })
}

/// The fields that all answers about a pod have.
pub(crate) trait Answer {
    /// The candidates that do not exist.
    fn unknown_candidates(&self) -> &[String];
    /// The deletions of the overlay whose objects do not exist.
    fn unknown_deletes(&self) -> &[ObjectReference];
    /// Returns the fields that were not checked.
    fn unchecked(&mut self) -> &mut Vec<String>;
}

macro_rules! answers {
    ($($answer:ident)*) => {$(
        impl Answer for $answer {
            fn unknown_candidates(&self) -> &[String] {
                &self.unknown_candidates
            }

            fn unknown_deletes(&self) -> &[ObjectReference] {
                &self.unknown_deletes
            }

            fn unchecked(&mut self) -> &mut Vec<String> {
                &mut self.unchecked
            }
        }
    )*};
}

answers! { FilterResponse ScoreResponse ExplainResponse PlaceResponse }
