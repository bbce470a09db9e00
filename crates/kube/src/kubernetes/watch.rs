//! Follows the objects of one kind: lists, watches, and lists again when events may be lost.

use std::borrow::Cow;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures::StreamExt;
use kube::Api;
use kube::core::{DynamicResourceScope, ObjectMeta};
use kube::runtime::watcher::{self, Config, Event};
use serde::{Deserialize, Deserializer};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::connection::ClusterClient;
use super::error::{ApiRequest, Error};
use super::progress::WatchProgress;
use super::resource::ApiResource;
use crate::kubernetes::counts::ListReason;
use crate::manifest::LeanValue;
use evenkeel_core::snapshot::ObjectKind;
use evenkeel_log::backoff::Backoff;

/// The seconds that a watch lasts before the next one continues it. A granted watch shows that the
/// API server is alive. Bookmarks do not, because kinds that never changed get none. A dead
/// connection is noticed 5 s later.
const WATCH_SECONDS: u32 = 30;

/// The shortest pause before the same request to an API server.
pub(super) const SHORTEST_PAUSE: Duration = Duration::from_millis(400);
/// The longest pause. An API server that comes back is noticed within this time.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// An object of a list or a watch: the metadata that `kube` needs, and the fields that decisions
/// read.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    /// The metadata for `kube`, which has only the resource version.
    meta: ObjectMeta,
    pub(super) object: LeanValue,
}

impl<'de> Deserialize<'de> for Watched {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let object = LeanValue::deserialize(input)?;
        let version = object.metadata("resourceVersion");
        Ok(Self {
            meta: ObjectMeta {
                resource_version: (!version.is_empty()).then(|| version.to_owned()),
                ..ObjectMeta::default()
            },
            object,
        })
    }
}

impl kube::Resource for Watched {
    type DynamicType = &'static ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &&'static ApiResource) -> Cow<'static, str> {
        resource.kind.into()
    }

    fn group(resource: &&'static ApiResource) -> Cow<'static, str> {
        resource.group_and_version().0.into()
    }

    fn version(resource: &&'static ApiResource) -> Cow<'static, str> {
        resource.group_and_version().1.into()
    }

    fn plural(resource: &&'static ApiResource) -> Cow<'static, str> {
        resource.plural.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

/// What came of the list or the watch of one kind.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are events")]
pub(super) enum WatchOutcome {
    /// An event of a list or a watch.
    Event(Event<Watched>),
    /// A watch goes on from this resource version, so all events up to there have come.
    ReadUpTo(u64),
    /// A list or a watch failed, and is repeated.
    Failed(Error),
}

/// An event of the objects of one kind.
#[derive(Debug)]
pub(super) struct KindEvent {
    pub(super) kind: ObjectKind,
    pub(super) happened: WatchOutcome,
    /// The reason why a list begins, if this event begins one.
    pub(super) reason: ListReason,
    /// The time when it happened. It may be taken later than a pulse that came after it.
    pub(super) at: Instant,
}

/// Follows the objects of `kind` until the receiver is gone.
pub(super) async fn follow(cluster: ClusterClient, kind: ObjectKind, to: mpsc::Sender<KindEvent>) {
    let resource = ApiResource::of(kind);
    let mut reason = ListReason::Start;
    let mut failures = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
    // After a watch expires, a list follows at once, unless the last expiry was shortly before.
    let mut expiries = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
    loop {
        let api = Api::<Watched>::all_with(cluster.client.clone(), &resource);
        let mut events = pin!(watcher::watcher(
            api,
            Config::default().timeout(WATCH_SECONDS)
        ));
        let progress = WatchProgress::new(&cluster, resource);
        let mut ahead = pin!(progress.is_ahead());
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                version = cluster.pulses.requested(resource) => {
                    let happened = WatchOutcome::ReadUpTo(version);
                    let event = KindEvent { kind, happened, reason, at: Instant::now() };
                    match to.send(event).await {
                        Ok(()) => continue,
                        Err(_) => return,
                    }
                }
                () = &mut ahead => {
                    reason = ListReason::Restored;
                    break;
                }
            };
            let Some(event) = event else { break };
            let mut again = None;
            let happened = event.map_err(|error| {
                again = must_list_again(&error);
                reason = again.unwrap_or(ListReason::Failed);
                failed(&error, |verb| cluster.asked(verb, resource, false))
            });
            progress.note(&happened);
            let has_failed = happened.is_err();
            let happened = happened.map_or_else(WatchOutcome::Failed, WatchOutcome::Event);
            let event = KindEvent {
                kind,
                happened,
                reason,
                at: Instant::now(),
            };
            if to.send(event).await.is_err() {
                return;
            }
            if again == Some(ListReason::Expired) {
                sleep(expiries.before_attempt()).await;
            } else if has_failed {
                sleep(failures.after_failure()).await;
            }
            if again.is_some() {
                break;
            }
        }
    }
}

/// The reason to list again after an error after which `kube` would continue its watch although
/// events may be lost. `None` if `kube` continues correctly itself.
fn must_list_again(error: &watcher::Error) -> Option<ListReason> {
    match error {
        // After this answer to a request for a watch, `kube` would request the same version
        // forever.
        watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status)
            if status.code == 410 =>
        {
            Some(ListReason::Expired)
        }
        // The event cannot be read, so it may be about any object.
        watcher::Error::WatchFailed(kube::Error::SerdeError(_)) => Some(ListReason::Failed),
        _ => None,
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
