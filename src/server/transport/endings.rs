//! Ends open streams when the server drains.
//!
//! A client may keep a health watch or a reflection stream open for ever, and a
//! connection with an open stream does not end.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{HeaderMap, Request, Response};
use http_body::{Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::Status;
use tonic::body::Body;

use super::responses;
use crate::api;

/// Makes the messages of `request` end when `draining` is cancelled: a service may wait for their
/// end.
pub fn end_request(draining: &CancellationToken, request: Request<Body>) -> Request<Body> {
    request.map(|body| EndingBody::wrap(body, draining, || None))
}

/// Makes `response` end with UNAVAILABLE as soon as it has nothing to send and `draining` is
/// cancelled.
pub fn end_response(draining: &CancellationToken, response: Response<Body>) -> Response<Body> {
    let farewell = || Some(responses::trailers(&api::Error::Draining.into()));
    response.map(|body| EndingBody::wrap(body, draining, farewell))
}

struct EndingBody {
    inner: Body,
    draining: Pin<Box<WaitForCancellationFutureOwned>>,
    /// The trailers that are sent at an early end.
    farewell: fn() -> Option<HeaderMap>,
    ended: bool,
}

impl EndingBody {
    fn wrap(
        inner: Body,
        draining: &CancellationToken,
        farewell: fn() -> Option<HeaderMap>,
    ) -> Body {
        let draining = Box::pin(draining.clone().cancelled_owned());
        Body::new(Self {
            inner,
            draining,
            farewell,
            ended: false,
        })
    }
}

impl http_body::Body for EndingBody {
    type Data = <Body as http_body::Body>::Data;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            return Poll::Ready(frame);
        }
        if self.draining.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.ended = true;
        Poll::Ready((self.farewell)().map(|last| Ok(Frame::trailers(last))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
