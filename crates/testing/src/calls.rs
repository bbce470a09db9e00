//! Calls of arbitrary bytes to a service in this process.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use evenkeel::api::Service;
use evenkeel::proto::v1::spread_service_server::SpreadServiceServer;
use http_body_util::{BodyExt, Full};
use tokio::runtime::Runtime;
use tonic::{Code, Status};
use tower::ServiceExt;

/// One call.
#[derive(Debug)]
pub struct Call {
    pub method: &'static str,
    pub messages: Vec<Bytes>,
}

impl Call {
    /// Sends the call with this time-out. Returns the messages of the answer.
    pub async fn send(
        &self,
        server: SpreadServiceServer<Service>,
        patience: Duration,
    ) -> Result<Vec<Bytes>, Status> {
        let mut body = BytesMut::new();
        for message in &self.messages {
            body.put_u8(0);
            body.put_u32(u32::try_from(message.len()).expect("inputs are short"));
            body.put_slice(message);
        }
        let request = http::Request::post(format!("/evenkeel.v1.SpreadService/{}", self.method))
            .header("content-type", "application/grpc")
            .header("grpc-timeout", format!("{}m", patience.as_millis()))
            .body(tonic::body::Body::new(Full::new(body.freeze())))
            .expect("a request");
        let (head, body) = server
            .oneshot(request)
            .await
            .expect("no error but a status")
            .into_parts();
        if let Some(status) =
            Status::from_header_map(&head.headers).filter(|s| s.code() != Code::Ok)
        {
            return Err(status);
        }
        let body = body.collect().await.expect("a body ends with its trailers");
        if let Some(status) = body.trailers().and_then(Status::from_header_map)
            && status.code() != Code::Ok
        {
            return Err(status);
        }
        let mut bytes = body.to_bytes();
        let mut messages = Vec::new();
        while bytes.len() >= 5 {
            let head = bytes.split_to(5);
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            messages.push(bytes.split_to(usize::try_from(length).expect("it fits")));
        }
        Ok(messages)
    }
}

/// A runtime of one thread, which is enough and keeps runs alike.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().expect("a runtime")
    })
}
