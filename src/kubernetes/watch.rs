//! Follows one kind of objects: list, watch, and list again when events may be
//! lost.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures::StreamExt;
use kube::Api;
use kube::runtime::watcher::{self, Config, Event};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::connection::ClusterClient;
use super::error::{ApiRequest, Error};
use super::pauses::Pauses;
use super::resource::ApiResource;
use super::watched::Watched;
use crate::manifest::ListedObject;
use crate::server::ListReason;
use crate::snapshot::ObjectKind;

/// How long a watch lasts until it is continued by another, in seconds. That an API
/// server grants it is a sign of life: bookmarks are none for kinds of which nothing
/// ever changed. A connection that is dead is noticed 5 s later.
const WATCH_SECONDS: u32 = 30;

/// How long a watch has to last not to expire again and again.
const CALM: Duration = Duration::from_secs(30);

/// What happened to the objects of one kind.
#[derive(Debug)]
pub(super) enum KindChange {
    /// A list begins: what it does not name is gone.
    Listing(ListReason),
    /// An object of the list.
    Listed(ListedObject),
    /// The list is complete; what follows are changes.
    Complete,
    /// An object was created or changed.
    Applied(ListedObject),
    /// An object was deleted.
    Deleted(ListedObject),
    /// A list or a watch failed. It is tried again.
    Failed(Error),
}

/// What happened, and to which kind.
pub(super) type KindEvent = (ObjectKind, KindChange);

/// Follows the objects of `kind` until nobody listens any more.
pub(super) async fn follow(cluster: ClusterClient, kind: ObjectKind, to: mpsc::Sender<KindEvent>) {
    let resource = ApiResource::of(kind);
    let mut reason = ListReason::Start;
    let mut pauses = Pauses::default();
    let mut expiries = Expiries::default();
    loop {
        let api = Api::<Watched>::all_with(cluster.client().clone(), &resource);
        let mut events = pin!(watcher::watcher(
            api,
            Config::default().timeout(WATCH_SECONDS)
        ));
        while let Some(event) = events.next().await {
            let (happened, then) = match event {
                Ok(event) => (happened(event, reason), Then::GoOn),
                Err(error) => {
                    let then = after(&error);
                    reason = match then {
                        Then::GoOn => ListReason::Failed,
                        Then::ListAgain(reason) => reason,
                    };
                    let failed = failed(&error, |verb| cluster.asked(verb, resource, false));
                    (KindChange::Failed(failed), then)
                }
            };
            let has_failed = matches!(happened, KindChange::Failed(_));
            if to.send((kind, happened)).await.is_err() {
                return;
            }
            if !has_failed {
                pauses.reset();
            } else if then == Then::ListAgain(ListReason::Expired) {
                expiries.pause().await;
            } else {
                sleep(pauses.next()).await;
            }
            if let Then::ListAgain(_) = then {
                break;
            }
        }
    }
}

/// Watches that expired. One is followed by a list at once; those that expire again and
/// again are not.
#[derive(Default)]
struct Expiries {
    last: Option<Instant>,
    pauses: Pauses,
}

impl Expiries {
    /// One more. Waits as long as it has to.
    async fn pause(&mut self) {
        match self.last.replace(Instant::now()) {
            Some(last) if last.elapsed() < CALM => sleep(self.pauses.next()).await,
            _ => self.pauses.reset(),
        }
    }
}

/// What to do after an error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// `kube` continues by itself, with a watch or with a list.
    GoOn,
    /// Its watch would continue, and events may be lost: begin anew.
    ListAgain(ListReason),
}

/// What an error of the watcher says about events that may be lost.
fn after(error: &watcher::Error) -> Then {
    let is_gone = |status: &kube::core::Status| status.code == 410;
    match error {
        // In the answer to a request for a watch kube would ask for the same
        // version again and again.
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) if is_gone(status) => {
            Then::ListAgain(ListReason::Expired)
        }
        watcher::Error::WatchError(status) if is_gone(status) => {
            Then::ListAgain(ListReason::Expired)
        }
        // An event that cannot be read, and so may be of any object.
        watcher::Error::WatchFailed(kube::Error::SerdeError(_)) => {
            Then::ListAgain(ListReason::Failed)
        }
        _ => Then::GoOn,
    }
}

fn happened(event: Event<Watched>, reason: ListReason) -> KindChange {
    match event {
        Event::Init => KindChange::Listing(reason),
        Event::InitApply(watched) => KindChange::Listed(watched.object),
        Event::InitDone => KindChange::Complete,
        Event::Apply(watched) => KindChange::Applied(watched.object),
        Event::Delete(watched) => KindChange::Deleted(watched.object),
    }
}

fn failed<'a>(error: &watcher::Error, asked: impl Fn(&'static str) -> ApiRequest<'a>) -> Error {
    match error {
        watcher::Error::InitialListFailed(error) => asked("list").failed(error),
        watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => {
            asked("watch").failed(error)
        }
        watcher::Error::WatchError(status) => asked("watch").refused(status),
        watcher::Error::NoResourceVersion => {
            let status = kube::core::Status::failure("an answer without resourceVersion", "");
            asked("list").refused(&status)
        }
    }
}
