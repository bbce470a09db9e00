//! When each watch was last heard: it was granted, or an event or a bookmark came, any
//! byte of one.
//! `kube` keeps bookmarks to itself, so the answers are listened to on their way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use http_body_util::BodyExt;
use kube::client::{Body, DynBody};
use tonic::codegen::http::{Request, Response};
use tower::{BoxError, Service};

use super::resource::ApiResource;

/// When the watches of a cluster were last heard, by resource.
#[derive(Debug, Clone)]
pub(super) struct Pulses(Arc<HeardWatches>);

#[derive(Debug)]
struct HeardWatches {
    begun: Instant,
    /// Milliseconds after `begun`; 0 for never.
    heard: Vec<(&'static ApiResource, AtomicU64)>,
}

impl Pulses {
    /// Of watches of these resources.
    pub(super) fn new(resources: impl IntoIterator<Item = &'static ApiResource>) -> Self {
        let never = |resource| (resource, AtomicU64::new(0));
        Self(Arc::new(HeardWatches {
            begun: Instant::now(),
            heard: resources.into_iter().map(never).collect(),
        }))
    }

    /// How long before now a watch was heard; `None` for never.
    pub(super) fn silent_for(&self, resource: &ApiResource) -> Option<Duration> {
        let (_, heard) = self.0.heard.iter().find(|(it, _)| *it == resource)?;
        let heard = heard.load(Ordering::Relaxed);
        let at = self.0.begun + Duration::from_millis(heard);
        (heard > 0).then(|| at.elapsed())
    }

    /// The place in `heard` of what is watched at this address.
    fn place(&self, path: &str, query: &str) -> Option<usize> {
        let is_watch = query.split('&').any(|part| part.starts_with("watch="));
        let plural = path.rsplit('/').next().filter(|_| is_watch)?;
        let mut resources = self.0.heard.iter();
        resources.position(|(resource, _)| resource.plural == plural)
    }

    fn note(&self, place: usize) {
        let after = self.0.begun.elapsed().as_millis();
        let after = u64::try_from(after).unwrap_or(u64::MAX).max(1);
        self.0.heard[place].1.store(after, Ordering::Relaxed);
    }
}

/// A client's calls, whose answers are listened to.
#[derive(Debug, Clone)]
pub(super) struct Listening<S> {
    pub(super) inner: S,
    pub(super) pulses: Pulses,
}

impl<S> Service<Request<Body>> for Listening<S>
where
    S: Service<Request<Body>, Response = Response<Box<DynBody>>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let uri = request.uri();
        let place = self.pulses.place(uri.path(), uri.query().unwrap_or(""));
        let (answered, pulses) = (self.inner.call(request), self.pulses.clone());
        Box::pin(async move {
            let answer = answered.await?;
            let Some(place) = place.filter(|_| answer.status().is_success()) else {
                return Ok(answer);
            };
            pulses.note(place);
            Ok(answer.map(|body| -> Box<DynBody> {
                Box::new(body.map_frame(move |frame| {
                    pulses.note(place);
                    frame
                }))
            }))
        })
    }
}
