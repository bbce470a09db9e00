//! What every call of `SpreadService` passes through: the limit on concurrent
//! calls, the last word on how one is refused, and who notes how calls end.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use http_body::{Frame, SizeHint};
use prost::bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use super::arriving;
use super::config::Config;
use super::connections::Peer;
use super::observe::{Call, Observer};
use super::pieces::Pieces;
use super::refusals::Refusals;
use super::stalls::{Answers, Watch};
use crate::api;

/// When a client over the limit on concurrent calls may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Limits the calls of the service that it wraps, over all its connections.
#[derive(Clone)]
pub(super) struct CallLimits {
    slots: Arc<Semaphore>,
    max_concurrent_calls: usize,
    feeds: Arc<Semaphore>,
    max_feeds: usize,
    receive_timeout: Duration,
    answers: Answers,
    refusals: Refusals,
    observer: Option<Arc<Observer>>,
}

impl CallLimits {
    pub(super) fn new(config: &Config) -> Self {
        let max_concurrent_calls = config.limits.max_concurrent_calls;
        let max_message_bytes = config.limits.max_message_bytes;
        let max_feeds = config.clients.max_feeds;
        Self {
            feeds: Arc::new(Semaphore::new(max_feeds)),
            max_feeds,
            receive_timeout: config.clients.receive_timeout,
            answers: Answers::default(),
            slots: Arc::new(Semaphore::new(max_concurrent_calls)),
            max_concurrent_calls,
            refusals: Refusals { max_message_bytes },
            observer: None,
        }
    }

    /// The same limits on another thread, whose calls are noted by `observer`
    /// and whose answers are among `answers`.
    pub(super) fn on_thread(&self, observer: Option<Arc<Observer>>, answers: &Answers) -> Self {
        Self {
            observer,
            answers: answers.clone(),
            ..self.clone()
        }
    }

    /// How many calls are under way.
    pub(super) fn in_flight(&self) -> usize {
        self.max_concurrent_calls - self.slots.available_permits()
    }

    /// How many feeds may be open at once.
    pub(super) fn max_feeds(&self) -> usize {
        self.max_feeds
    }

    /// Feeds that are open now.
    pub(super) fn open_feeds(&self) -> usize {
        self.max_feeds - self.feeds.available_permits()
    }

    /// A slot for a call of its kind, or why there is none.
    fn admit(&self, is_feed: bool) -> Result<OwnedSemaphorePermit, Status> {
        let (slots, what, name, limit) = match is_feed {
            true => (&self.feeds, "open feeds", "max-feeds", self.max_feeds),
            false => (
                &self.slots,
                "concurrent calls",
                "max-concurrent-calls",
                self.max_concurrent_calls,
            ),
        };
        Arc::clone(slots).try_acquire_owned().map_err(|_| {
            Status::from(api::Error::OverLimit {
                what,
                name,
                limit,
                retry_after: Some(RETRY_AFTER),
            })
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
        let limits = &self.limits;
        let observer = limits.observer.as_ref();
        let mut call = observer.map(|observer| observer.begin(&request));
        let is_feed = request.uri().path().ends_with(FEED);
        let slot = match limits.admit(is_feed) {
            Ok(slot) => slot,
            Err(status) => {
                let refused = status.into_http();
                if let Some(call) = &mut call {
                    call.answered(&refused);
                }
                return Box::pin(std::future::ready(Ok(refused)));
            }
        };
        let (refusals, answers) = (limits.refusals, limits.answers.clone());
        let doom = request.extensions().get::<Peer>();
        let doom = doom.map(|peer| Arc::clone(&peer.doom));
        let last_moment = api::last_moment(request.headers());
        let request = match is_feed {
            true => request,
            false => arriving::within(limits.receive_timeout, request),
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let mut response = by(last_moment, answer).await?;
            refusals.amend(response.headers_mut());
            if let Some(call) = &mut call {
                call.answered(&response);
            }
            Ok(response.map(|inner| {
                Body::new(LimitedBody {
                    inner,
                    pieces: Pieces::default(),
                    refusals,
                    call,
                    watch: doom.map(|doom| answers.watch(doom)),
                    _slot: slot,
                })
            }))
        })
    }
}

/// What the path of a feed ends with.
const FEED: &str = "/StreamSnapshot";

/// `answer`, or that it is too late.
async fn by<F>(last_moment: Option<Instant>, answer: F) -> F::Output
where
    F: Future<Output = Result<Response<Body>, Infallible>>,
{
    let Some(last_moment) = last_moment else {
        return answer.await;
    };
    // Looks at the answer first: for one that is there no clock is set.
    tokio::select! {
        biased;
        answer = answer => answer,
        () = sleep_until(last_moment) => Ok(Status::from(api::Error::Deadline).into_http()),
    }
}

/// An answer on its way, which holds its call's slot until it was sent.
struct LimitedBody {
    inner: Body,
    /// What is left of the part that is being sent.
    pieces: Pieces,
    refusals: Refusals,
    /// Has ended when this is dropped.
    call: Option<Call>,
    /// Ends a connection that does not take it.
    watch: Option<Watch>,
    _slot: OwnedSemaphorePermit,
}

impl LimitedBody {
    /// Notes whether there is something for the client to take.
    fn note(&self, is_offered: bool) {
        if let Some(watch) = &self.watch {
            watch.note(is_offered);
        }
    }

    /// A frame as it is sent.
    fn amend(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        match frame.into_data() {
            Ok(data) => Frame::data(self.pieces.cut(data)),
            Err(mut frame) => {
                if let Some(trailers) = frame.trailers_mut() {
                    self.refusals.amend(trailers);
                    if let Some(call) = &mut self.call {
                        call.status(trailers);
                    }
                }
                frame
            }
        }
    }
}

impl http_body::Body for LimitedBody {
    type Data = <Body as http_body::Body>::Data;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        if let Some(piece) = self.pieces.next() {
            self.note(true);
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        let frame = Pin::new(&mut self.inner).poll_frame(context);
        self.note(frame.is_ready());
        frame.map_ok(|frame| self.amend(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
