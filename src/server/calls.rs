//! What every call of `SpreadService` passes through: the limit on concurrent
//! calls, RESOURCE_EXHAUSTED for messages over the limit, and who notes how
//! calls end.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, Request, Response};
use http_body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};

use super::observe::{Call, Observer};
use crate::api;

/// When a client over the limit on concurrent calls may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Limits the calls of the service that it wraps, over all its connections.
#[derive(Clone)]
pub(super) struct CallLimits {
    slots: Arc<Semaphore>,
    max_concurrent_calls: usize,
    max_message_bytes: usize,
    observer: Option<Arc<Observer>>,
}

impl CallLimits {
    pub(super) fn new(max_concurrent_calls: usize, max_message_bytes: usize) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(max_concurrent_calls)),
            max_concurrent_calls,
            max_message_bytes,
            observer: None,
        }
    }

    /// The same limits, for calls that are noted by `observer`.
    pub(super) fn observed_by(&self, observer: Option<Arc<Observer>>) -> Self {
        Self {
            observer,
            ..self.clone()
        }
    }

    /// How many calls are under way.
    pub(super) fn in_flight(&self) -> usize {
        self.max_concurrent_calls - self.slots.available_permits()
    }

    fn too_many_calls(&self) -> Status {
        Status::from(api::Error::OverLimit {
            what: "concurrent calls",
            name: "max-concurrent-calls",
            limit: self.max_concurrent_calls,
            retry_after: Some(RETRY_AFTER),
        })
    }
}

impl<S> Layer<S> for CallLimits {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        Limited {
            inner,
            limits: self.clone(),
        }
    }
}

/// A service within [`CallLimits`].
#[derive(Clone)]
pub(super) struct Limited<S> {
    inner: S,
    limits: CallLimits,
}

impl<S> Service<Request<Body>> for Limited<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let observer = self.limits.observer.as_ref();
        let mut call = observer.map(|observer| observer.begin(&request));
        let Ok(slot) = self.limits.slots.clone().try_acquire_owned() else {
            let refused = self.limits.too_many_calls().into_http();
            if let Some(call) = &mut call {
                call.answered(&refused);
            }
            return Box::pin(std::future::ready(Ok(refused)));
        };
        let max_message_bytes = self.limits.max_message_bytes;
        let answer = self.inner.call(request);
        Box::pin(async move {
            let mut response = answer.await?;
            name_message_limit(response.headers_mut(), max_message_bytes);
            if let Some(call) = &mut call {
                call.answered(&response);
            }
            Ok(response.map(|inner| {
                Body::new(LimitedBody {
                    inner,
                    max_message_bytes,
                    call,
                    _slot: slot,
                })
            }))
        })
    }
}

/// An answer on its way, which holds its call's slot until it was sent.
struct LimitedBody {
    inner: Body,
    max_message_bytes: usize,
    /// Has ended when this is dropped.
    call: Option<Call>,
    _slot: OwnedSemaphorePermit,
}

impl http_body::Body for LimitedBody {
    type Data = <Body as http_body::Body>::Data;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        let mut frame = Pin::new(&mut self.inner).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &mut frame
            && let Some(trailers) = frame.trailers_mut()
        {
            name_message_limit(trailers, self.max_message_bytes);
            if let Some(call) = &mut self.call {
                call.status(trailers);
            }
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Turns tonic's OUT_OF_RANGE for a message over the limit into
/// RESOURCE_EXHAUSTED, which is what other gRPC servers answer. The service
/// itself never answers OUT_OF_RANGE.
fn name_message_limit(headers: &mut HeaderMap, max_message_bytes: usize) {
    let code = headers.get(Status::GRPC_STATUS);
    if code.map(|code| Code::from_bytes(code.as_bytes())) != Some(Code::OutOfRange) {
        return;
    }
    let status = Status::from(api::Error::OverLimit {
        what: "message bytes",
        name: "max-message-bytes",
        limit: max_message_bytes,
        retry_after: None,
    });
    status
        .add_header(headers)
        .expect("text and details are encoded for headers");
}
