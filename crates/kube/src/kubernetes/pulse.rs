//! The times when each watch was last heard, and the resource versions from which watches were
//! requested. A watch is heard when it is granted, or when any byte of an event or a bookmark
//! arrives. `kube` does not pass on bookmarks, so the bytes of the answers are listened to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use kube::client::DynBody;
use tokio::sync::Notify;
use tonic::codegen::http::{Response, Uri};

use super::resource::ApiResource;
use evenkeel_core::snapshot::ObjectKind;

/// The times when the watches of a cluster were last heard, by resource.
#[derive(Debug, Clone)]
pub(super) struct Pulses(Arc<HeardWatches>);

#[derive(Debug)]
struct HeardWatches {
    begun: Instant,
    watches: Vec<HeardWatch>,
    /// Notified whenever a watch is heard.
    any: Notify,
}

/// The watch of one resource.
#[derive(Debug)]
struct HeardWatch {
    resource: &'static ApiResource,
    /// The time when it was last heard, in milliseconds after `begun`; 0 means never.
    heard: AtomicU64,
    /// The resource version from which it was last requested; 0 if this is no number.
    from: AtomicU64,
    /// Notified when it is requested.
    requested: Notify,
}

impl Pulses {
    /// The pulses of watches of the kinds that decisions read.
    pub(super) fn new() -> Self {
        let never = |kind| HeardWatch {
            resource: ApiResource::of(kind),
            heard: AtomicU64::new(0),
            from: AtomicU64::new(0),
            requested: Notify::new(),
        };
        Self(Arc::new(HeardWatches {
            begun: Instant::now(),
            watches: ObjectKind::all().map(never).collect(),
            any: Notify::new(),
        }))
    }

    /// Returns the time when a watch was last heard; `None` if never.
    pub(super) fn heard(&self, resource: &ApiResource) -> Option<Instant> {
        let heard = self.watch(resource)?.heard.load(Ordering::Relaxed);
        (heard > 0).then(|| self.0.begun + Duration::from_millis(heard))
    }

    /// The resource version from which a watch was last requested; 0 if this is no number.
    pub(super) fn watched_from(&self, resource: &ApiResource) -> u64 {
        let watch = self.watch(resource);
        watch.map_or(0, |watch| watch.from.load(Ordering::Relaxed))
    }

    /// Waits until a watch is requested. Returns the resource version from which it is. Returns at
    /// once if one was requested since the last call.
    pub(super) async fn requested(&self, resource: &ApiResource) -> u64 {
        if let Some(watch) = self.watch(resource) {
            watch.requested.notified().await;
        }
        self.watched_from(resource)
    }

    /// Forgets the resource version from which a watch was requested, because the resource is
    /// listed again.
    pub(super) fn forget_version(&self, resource: &ApiResource) {
        if let Some(watch) = self.watch(resource) {
            watch.from.store(0, Ordering::Relaxed);
        }
    }

    /// Waits until any watch is heard. Returns at once if one was heard since the last call.
    pub(super) async fn any(&self) {
        self.0.any.notified().await;
    }

    fn watch(&self, resource: &ApiResource) -> Option<&HeardWatch> {
        let mut watches = self.0.watches.iter();
        watches.find(|watch| watch.resource == resource)
    }

    /// Records a request with this address. Returns the index of its resource if it is one to
    /// watch.
    pub(super) fn asked(&self, uri: &Uri) -> Option<usize> {
        let query = uri.query().unwrap_or("");
        let value = |of: &str| {
            let mut parts = query.split('&').filter_map(|part| part.split_once('='));
            parts.find(|(name, _)| *name == of).map(|(_, value)| value)
        };
        value("watch")?;
        let plural = uri.path().rsplit('/').next()?;
        let mut watches = self.0.watches.iter();
        let place = watches.position(|watch| watch.resource.plural == plural)?;
        let from = value("resourceVersion").and_then(|version| version.parse().ok());
        let watch = &self.0.watches[place];
        watch.from.store(from.unwrap_or(0), Ordering::Relaxed);
        watch.requested.notify_one();
        Some(place)
    }

    /// The answer to a request, which records whenever the watch of the resource with this index is
    /// heard.
    pub(super) fn listen(
        &self,
        place: Option<usize>,
        answer: Response<Box<DynBody>>,
    ) -> Response<Box<DynBody>> {
        let Some(place) = place.filter(|_| answer.status().is_success()) else {
            return answer;
        };
        self.note(place);
        let pulses = self.clone();
        answer.map(|body| -> Box<DynBody> {
            Box::new(body.map_frame(move |frame| {
                pulses.note(place);
                frame
            }))
        })
    }

    fn note(&self, place: usize) {
        let after = self.0.begun.elapsed().as_millis();
        let after = u64::try_from(after).unwrap_or(u64::MAX).max(1);
        let heard = &self.0.watches[place].heard;
        heard.store(after, Ordering::Relaxed);
        self.0.any.notify_one();
    }
}
