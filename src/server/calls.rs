//! What every call of `SpreadService` passes through: the limit on concurrent
//! calls, the last word on how one is refused, and who notes how calls end.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use http_body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use super::observe::{Call, Observer};
use super::refusals::Refusals;
use crate::api;

/// When a client over the limit on concurrent calls may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Limits the calls of the service that it wraps, over all its connections.
#[derive(Clone)]
pub(super) struct CallLimits {
    slots: Arc<Semaphore>,
    max_concurrent_calls: usize,
    refusals: Refusals,
    observer: Option<Arc<Observer>>,
}

impl CallLimits {
    pub(super) fn new(max_concurrent_calls: usize, max_message_bytes: usize) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(max_concurrent_calls)),
            max_concurrent_calls,
            refusals: Refusals { max_message_bytes },
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
        let refusals = self.limits.refusals;
        let answer = self.inner.call(request);
        Box::pin(async move {
            let mut response = answer.await?;
            refusals.amend(response.headers_mut());
            if let Some(call) = &mut call {
                call.answered(&response);
            }
            Ok(response.map(|inner| {
                Body::new(LimitedBody {
                    inner,
                    refusals,
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
    refusals: Refusals,
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
            self.refusals.amend(trailers);
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
