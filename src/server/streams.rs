//! Ends open streams when the server drains.
//!
//! A health watch or a reflection stream stays open for as long as its client
//! likes, and a connection with an open stream is never done.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{HeaderMap, Response};
use http_body::{Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::refusal;

/// `response`, cut off with UNAVAILABLE as soon as it has nothing to send and
/// `draining` is cancelled.
pub(super) fn end_when(draining: &CancellationToken, response: Response<Body>) -> Response<Body> {
    let draining = Box::pin(draining.clone().cancelled_owned());
    response.map(|inner| {
        Body::new(EndingBody {
            inner,
            draining,
            ended: false,
        })
    })
}

struct EndingBody {
    inner: Body,
    draining: Pin<Box<WaitForCancellationFutureOwned>>,
    ended: bool,
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
        Poll::Ready(Some(Ok(Frame::trailers(unavailable()))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

fn unavailable() -> HeaderMap {
    let status = Status::with_error_details(
        Code::Unavailable,
        "the server is draining",
        refusal::details("DRAINING"),
    );
    let mut trailers = HeaderMap::new();
    status
        .add_header(&mut trailers)
        .expect("text and details are encoded for headers");
    trailers
}
