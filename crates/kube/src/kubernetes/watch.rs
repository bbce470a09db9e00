//! Follows the objects of one kind: lists them, then watches. After a failure the watch goes on where
//! it was, and when events may be lost the feed begins again.
//!
//! `kube`'s watcher keeps bookmarks and granted watches to itself. Both say how far a kind was read,
//! and that the API server is alive.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use kube::api::WatchParams;
use kube::core::{Request, WatchEvent};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::connection::ClusterClient;
use super::counts::ListReason;
use super::error::Error;
use super::listing::{ObjectSelection, PagedList};
use crate::manifest::{ApiResource, InputSource, Item};
use evenkeel_core::snapshot::ObjectKind;
use evenkeel_log::backoff::Backoff;

/// The seconds that a watch lasts before the next one continues it. A granted watch shows that the
/// API server is alive. Bookmarks do not, because kinds that never changed get none.
const WATCH_SECONDS: u32 = 30;
/// The longest silence of a watch, after which its connection is dead.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);

/// The shortest pause before the same request to an API server.
pub(super) const SHORTEST_PAUSE: Duration = Duration::from_millis(400);
/// The longest pause. An API server that comes back is noticed within this time.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What came of the list or the watch of one kind.
#[derive(Debug)]
pub(super) enum WatchOutcome {
    /// The list begins.
    ListBegins,
    /// An object of the list.
    Listed(Item),
    /// The list is complete, and has the state of this resource version.
    ListEnds(u64),
    /// An object was created or changed.
    Put {
        /// The object.
        object: Item,
        /// True if it was created.
        is_new: bool,
    },
    /// An object was deleted.
    Gone(Item),
    /// All events up to this resource version have come.
    ReadUpTo(u64),
    /// A list or a watch failed, and is repeated. No event is lost.
    Failed(Error),
    /// Events may be lost. Nothing follows.
    Lost(ListReason, String),
}

/// An event of the objects of one kind.
#[derive(Debug)]
pub(super) struct KindEvent {
    pub(super) kind: ObjectKind,
    pub(super) happened: WatchOutcome,
    /// The time when it happened.
    pub(super) at: Instant,
}

/// Why a list or a watch ended early.
enum Failure {
    /// It can be repeated.
    Repeated(Error),
    /// Events may be lost.
    Lost(ListReason, String),
    /// The receiver is gone.
    Unheard,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error.is_expired() {
            true => Self::Lost(ListReason::Expired, error.to_string()),
            false => Self::Repeated(error),
        }
    }
}

/// Follows the objects of `kind` until events may be lost or the receiver is gone.
pub(super) async fn follow(cluster: ClusterClient, kind: ObjectKind, to: mpsc::Sender<KindEvent>) {
    let follower = Follower {
        source: Arc::new(cluster.source()),
        cluster,
        resource: ApiResource::of(kind),
        kind,
        to,
    };
    if let Err(Failure::Lost(reason, what)) = follower.run().await {
        let _ = follower.tell(WatchOutcome::Lost(reason, what)).await;
    }
}

struct Follower {
    cluster: ClusterClient,
    source: Arc<InputSource>,
    resource: &'static ApiResource,
    kind: ObjectKind,
    to: mpsc::Sender<KindEvent>,
}

impl Follower {
    async fn run(&self) -> Result<Infallible, Failure> {
        let mut pauses = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        let mut read = loop {
            match self.list().await {
                Ok(version) => break version,
                Err(Failure::Repeated(error)) => {
                    self.tell(WatchOutcome::Failed(error)).await?;
                    sleep(pauses.after_failure()).await;
                }
                Err(ended) => return Err(ended),
            }
        };
        let mut pauses = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        let mut is_first = true;
        loop {
            sleep(pauses.before_attempt()).await;
            match self.watch(&mut read, is_first).await {
                Ok(()) => {}
                Err(Failure::Repeated(error)) => self.tell(WatchOutcome::Failed(error)).await?,
                Err(ended) => return Err(ended),
            }
            is_first = false;
        }
    }

    /// Tells of an event.
    async fn tell(&self, happened: WatchOutcome) -> Result<(), Failure> {
        let (kind, at) = (self.kind, Instant::now());
        let event = KindEvent { kind, happened, at };
        self.to.send(event).await.map_err(|_| Failure::Unheard)
    }

    /// Lists the objects, and returns the resource version of the list. It can be repeated as long as
    /// it has not begun.
    async fn list(&self) -> Result<String, Failure> {
        let mut pages = PagedList::of(&self.cluster, ObjectSelection::all(self.resource));
        let mut read: Option<String> = None;
        loop {
            let page = match pages.next(&mut |_| ()).await {
                Ok(Some(page)) => page,
                Ok(None) => break,
                Err(error) if read.is_none() => return Err(Failure::Repeated(error)),
                Err(error) if error.is_expired() => return Err(error.into()),
                Err(error) => {
                    return Err(Failure::Lost(ListReason::Failed, error.to_string()));
                }
            };
            if read.is_none() {
                self.tell(WatchOutcome::ListBegins).await?;
            }
            read = Some(page.metadata.resource_version.unwrap_or_default());
            for object in page.items {
                let object = Item::listed(object, &self.source);
                self.tell(WatchOutcome::Listed(object)).await?;
            }
        }
        let read = read.unwrap_or_default();
        self.tell(WatchOutcome::ListEnds(number(&read))).await?;
        Ok(read)
    }

    /// Watches from the resource version `read` on, which moves with the events, until the watch ends.
    async fn watch(&self, read: &mut String, is_first: bool) -> Result<(), Failure> {
        if !is_first {
            self.check_restored(number(read)).await?;
        }
        let asked = self.cluster.asked("watch", self.resource, false);
        let failed = |error: &kube::Error| Failure::from(asked.failed(error));
        let wanted = WatchParams::default().timeout(WATCH_SECONDS);
        let request = Request::new(self.resource.path(None)).watch(&wanted, read);
        let request = request.map_err(|error| failed(&kube::Error::BuildRequest(error)))?;
        let events = self.cluster.client.request_events::<Value>(request);
        let mut events = pin!(events.await.map_err(|error| failed(&error))?);
        self.tell(WatchOutcome::ReadUpTo(number(read))).await?;
        let put = |object, is_new| WatchOutcome::Put {
            object: Item::listed(object, &self.source),
            is_new,
        };
        while let Ok(event) = timeout(SILENCE, events.try_next()).await {
            let happened = match event {
                // The event may be about any object.
                Err(error @ kube::Error::SerdeError(_)) => {
                    let what = asked.failed(&error).to_string();
                    return Err(Failure::Lost(ListReason::Failed, what));
                }
                Err(error) => return Err(failed(&error)),
                Ok(None) => return Ok(()),
                Ok(Some(WatchEvent::Error(status))) => return Err(asked.refused(&status).into()),
                Ok(Some(WatchEvent::Bookmark(bookmark))) => {
                    *read = bookmark.metadata.resource_version;
                    WatchOutcome::ReadUpTo(number(read))
                }
                Ok(Some(WatchEvent::Added(object))) => put(object, true),
                Ok(Some(WatchEvent::Modified(object))) => put(object, false),
                Ok(Some(WatchEvent::Deleted(object))) => {
                    WatchOutcome::Gone(Item::listed(object, &self.source))
                }
            };
            if let WatchOutcome::Put { object, .. } | WatchOutcome::Gone(object) = &happened {
                *read = object.metadata("resourceVersion").to_owned();
            }
            self.tell(happened).await?;
        }
        Ok(())
    }

    /// Checks that the API server is not behind what was watched, as after a restore of its storage
    /// from a backup. It would grant a watch from a version that it does not have yet, and such a watch
    /// tells nothing of what was lost.
    async fn check_restored(&self, watched: u64) -> Result<(), Failure> {
        let now = self.cluster.version(self.resource).await?;
        match now.filter(|now| *now < watched) {
            Some(now) => {
                let plural = self.resource.plural;
                let what = format!(
                    "the API server has {plural} of resource version {now}, behind {watched}, \
                     which was watched, as after a restore from a backup"
                );
                Err(Failure::Lost(ListReason::Restored, what))
            }
            None => Ok(()),
        }
    }
}

/// A resource version as a number; 0 if it is none.
fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}
