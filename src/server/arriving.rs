//! Requests that are still on their way: a client may send the first bytes and
//! never the last.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic::body::Body;

use crate::api;

/// `request`, which fails when it has not arrived whole in time.
pub(super) fn within(patience: Duration, request: Request<Body>) -> Request<Body> {
    request.map(|inner| {
        Body::new(ArrivingBody {
            inner,
            patience,
            late: None,
        })
    })
}

struct ArrivingBody {
    inner: Body,
    patience: Duration,
    /// Begins when there is something to wait for: most requests are here.
    late: Option<Pin<Box<Sleep>>>,
}

impl http_body::Body for ArrivingBody {
    type Data = <Body as http_body::Body>::Data;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(context) {
            return Poll::Ready(frame);
        }
        let patience = this.patience;
        let late = this.late.get_or_insert_with(|| Box::pin(sleep(patience)));
        late.as_mut().poll(context).map(|()| {
            let error = api::Error::NotReceived(patience);
            Some(Err(error.into()))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
