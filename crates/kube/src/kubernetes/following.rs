//! The state of each kind in a feed, and the changes to send.

use std::time::{Instant, SystemTime};

use kube::runtime::watcher::Event;
use tracing::{info, warn};

use super::connection::ClusterClient;
use super::error::{Broken, Error};
use super::known::{Difference, LeftOut, SentObjects};
use super::pending::{PendingChanges, key_of, reference};
use super::pulse::Pulses;
use super::resource::ApiResource;
use super::sink::Undone;
use super::watch::{KindEvent, WatchOutcome};
use crate::kubernetes::counts::FeedCounts;
use crate::manifest::{InputSource, LeanValue};
use evenkeel_core::proto::v1::Change;
use evenkeel_core::snapshot::{
    ObjectId, ObjectKind, OwnerKind, ResourceVersions, metadata_mut, metadata_of,
};

/// The most changes of a batch after a kind is listed again. With more differences, the whole
/// snapshot is replaced.
const MAX_DIFFERENCES: usize = 10_000;

/// The state of the list of a kind.
#[derive(Debug)]
enum ListPhase {
    /// The first list is not complete.
    First,
    /// The list is complete, and events of a watch follow.
    Follows,
    /// The kind is listed again. The differences wait until the list is complete. If the list
    /// fails, they wait for the next list.
    Again(PendingChanges),
}

/// The state of a kind that is followed.
#[derive(Debug)]
struct FollowedKind {
    kind: ObjectKind,
    phase: ListPhase,
    known: SentObjects,
    /// True if the account may not read the kind and decisions do not need it.
    is_missing: bool,
    /// The time of the last failure of its list or watch, if nothing was heard since.
    failed: Option<Instant>,
    /// The last moment up to which all changes are known, because the watch was heard or the list
    /// was complete.
    known_at: Option<Instant>,
    /// True if its watch was heard after the first list.
    is_watched: bool,
    /// The resource version up to which all changes are sent or pending; 0 if it is not known.
    read: u64,
    /// The highest resource version in the present list.
    listed: u64,
}

/// The states of all kinds.
pub(super) struct FollowedKinds<'a> {
    kinds: Vec<FollowedKind>,
    /// The changes that wait to be sent.
    pub(super) pending: PendingChanges,
    /// True after the replace, when decisions see the changes that are sent.
    pub(super) is_live: bool,
    source: InputSource,
    counts: &'a FeedCounts,
    left_out: &'a mut LeftOut,
}

impl<'a> FollowedKinds<'a> {
    /// All kinds, before anything is known about them.
    pub(super) fn new(
        cluster: &ClusterClient,
        counts: &'a FeedCounts,
        left_out: &'a mut LeftOut,
    ) -> Self {
        let new = |kind| FollowedKind {
            kind,
            phase: ListPhase::First,
            known: SentObjects::new(left_out.hashes.clone()),
            is_missing: false,
            failed: None,
            known_at: None,
            is_watched: false,
            read: 0,
            listed: 0,
        };
        Self {
            kinds: ObjectKind::all().map(new).collect(),
            pending: PendingChanges::default(),
            is_live: false,
            source: cluster.source(),
            counts,
            left_out,
        }
    }

    /// Returns whether all kinds are listed and watched, except missing ones.
    pub(super) fn is_complete(&self) -> bool {
        let is_there = |kind: &FollowedKind| {
            let is_listed = matches!(kind.phase, ListPhase::Follows);
            kind.is_missing || is_listed && kind.is_watched
        };
        self.kinds.iter().all(is_there)
    }

    /// The last moment up to which all changes of all kinds are known, except missing ones.
    pub(super) fn known_at(&self) -> Option<Instant> {
        let there = self.kinds.iter().filter(|kind| !kind.is_missing);
        // `None` sorts before all others.
        there.map(|kind| kind.known_at).min().flatten()
    }

    /// The resource versions up to which all changes are sent or pending, of the kinds that were
    /// listed.
    pub(super) fn resource_versions(&self) -> ResourceVersions {
        let mut versions = ResourceVersions::default();
        for kind in self.kinds.iter().filter(|kind| kind.known_at.is_some()) {
            versions.set(kind.kind, kind.read);
        }
        versions
    }

    /// Returns the number of known objects.
    pub(super) fn objects(&self) -> usize {
        self.kinds.iter().map(|kind| kind.known.objects.len()).sum()
    }

    /// Takes an event.
    ///
    /// # Errors
    /// A list has too many differences for one batch.
    pub(super) fn take(&mut self, event: KindEvent) -> Result<(), Broken> {
        let kind = event.kind;
        let counts = self.counts.of(kind.as_str());
        match event.happened {
            WatchOutcome::Event(Event::Init) => {
                counts.listing(event.reason);
                let is_live = self.is_live;
                let kind = self.kind(kind);
                kind.known.list();
                kind.listed = 0;
                if !is_live {
                    kind.phase = ListPhase::First;
                } else if !matches!(kind.phase, ListPhase::Again(_)) {
                    kind.phase = ListPhase::Again(PendingChanges::default());
                    info!(
                        kind = kind.kind.as_str(),
                        reason = event.reason.as_str(),
                        "listing"
                    );
                }
            }
            WatchOutcome::Event(Event::InitApply(watched)) => {
                let version = version_of(&watched.object);
                self.put(kind, watched.object, false)?;
                let kind = self.kind(kind);
                kind.listed = kind.listed.max(version);
            }
            WatchOutcome::Event(Event::InitDone) => self.complete(kind, event.at)?,
            WatchOutcome::Event(Event::Apply(watched)) => {
                counts.event();
                let version = version_of(&watched.object);
                self.put(kind, watched.object, true)?;
                self.read_up_to(kind, version);
                self.recovered(kind);
            }
            WatchOutcome::Event(Event::Delete(watched)) => {
                counts.event();
                self.read_up_to(kind, version_of(&watched.object));
                let [namespace, name, uid] =
                    ["namespace", "name", "uid"].map(|field| watched.object.metadata(field));
                self.remove(kind, namespace, name, uid);
                self.recovered(kind);
            }
            WatchOutcome::ReadUpTo(version) => self.read_up_to(kind, version),
            WatchOutcome::Failed(error) => self.failed(kind, &error, event.at),
        }
        Ok(())
    }

    fn kind(&mut self, wanted: ObjectKind) -> &mut FollowedKind {
        let found = self.kinds.iter_mut().find(|kind| kind.kind == wanted);
        found.expect("all kinds are there from the start")
    }

    /// Records that all events of a kind up to a version were taken. While the kind is listed
    /// again, its changes wait.
    fn read_up_to(&mut self, kind: ObjectKind, version: u64) {
        let kind = self.kind(kind);
        if matches!(kind.phase, ListPhase::Follows) {
            kind.read = kind.read.max(version);
        }
    }

    fn put(&mut self, kind: ObjectKind, object: LeanValue, is_event: bool) -> Result<(), Broken> {
        let created = object.metadata("creationTimestamp").to_owned();
        let name = [object.metadata("namespace"), object.metadata("name")].map(str::to_owned);
        let mut object = match object.decode(kind, &self.source) {
            Ok(object) => object,
            Err(error) => {
                self.counts.of(kind.as_str()).left_out();
                warn!(%error, "an object is left out");
                let [namespace, name] = &name;
                self.remove(kind, namespace, name, "");
                return Ok(());
            }
        };
        if let Some(metadata) = metadata_mut(&mut object) {
            // The resource version changes with every write, and no decision reads it.
            metadata.resource_version.clear();
        }
        let (difference, hash) = self.kind(kind).known.note(&object);
        if difference == Difference::None || self.left_out.has(&object, hash) {
            return Ok(());
        }
        let is_live = self.is_live;
        let created = humantime::parse_rfc3339(&created).ok();
        let created = created.filter(|_| is_live && is_event && difference == Difference::New);
        let pending = self.pending_of(kind);
        pending.put(object);
        if let Some(created) = created {
            pending.created.push((kind, created));
        }
        self.check_differences(kind)
    }

    /// Checks that the pending changes fit into one batch.
    fn check_differences(&mut self, kind: ObjectKind) -> Result<(), Broken> {
        let is_live = self.is_live;
        match self.pending_of(kind).changes.len() {
            many if is_live && many > MAX_DIFFERENCES => {
                Err(Broken::TooManyChanges(many, ApiResource::of(kind).plural))
            }
            _ => Ok(()),
        }
    }

    /// Deletes the object with this name, if the snapshot has one.
    fn remove(&mut self, kind: ObjectKind, namespace: &str, name: &str, uid: &str) {
        self.left_out.forget(kind, namespace, name);
        if self.kind(kind).known.forget(namespace, name) {
            let gone = reference(kind, namespace, name, uid);
            self.pending_of(kind).delete(gone);
        }
    }

    /// Returns the pending changes to which a change of this kind belongs: those of its present
    /// list, else the next batch.
    fn pending_of(&mut self, wanted: ObjectKind) -> &mut PendingChanges {
        let found = self.kinds.iter_mut().find(|kind| kind.kind == wanted);
        match found.map(|kind| &mut kind.phase) {
            Some(ListPhase::Again(pending)) => pending,
            _ => &mut self.pending,
        }
    }

    /// Completes a list: objects that are not in it are deleted.
    fn complete(&mut self, wanted: ObjectKind, at: Instant) -> Result<(), Broken> {
        let gone = self.kind(wanted).known.unlisted(wanted);
        for reference in gone {
            self.pending_of(wanted).delete(reference);
        }
        self.check_differences(wanted)?;
        let kind = self.kind(wanted);
        if let ListPhase::Again(pending) = std::mem::replace(&mut kind.phase, ListPhase::Follows) {
            self.pending.append(pending);
        }
        let kind = self.kind(wanted);
        // The list is of one moment, so it has everything up to the highest version in it. That
        // may be lower than before, after a restore of the cluster from a backup.
        kind.read = kind.listed;
        kind.known_at = Some(at);
        self.recovered(wanted);
        Ok(())
    }

    /// Records that a list or a watch failed.
    fn failed(&mut self, wanted: ObjectKind, error: &Error, at: Instant) {
        self.counts.of(wanted.as_str()).failed();
        let may_miss = !matches!(wanted, ObjectKind::Node | ObjectKind::Pod) && error.is_refusal();
        let kind = self.kind(wanted);
        kind.failed = Some(at);
        kind.is_missing |= may_miss;
        let what = match may_miss {
            true => {
                let whose = match wanted {
                    ObjectKind::Owner(OwnerKind::PodDisruptionBudget) => "plans",
                    ObjectKind::Storage(_) => "pods with volumes",
                    _ => "default constraints",
                };
                format!("{whose} do without {}: {error}", wanted.as_str())
            }
            false => error.to_string(),
        };
        if self.counts.trouble(wanted.as_str(), Some(what)) {
            warn!(kind = wanted.as_str(), %error, "cannot watch");
        }
    }

    fn recovered(&mut self, wanted: ObjectKind) {
        let kind = self.kind(wanted);
        kind.is_missing = false;
        if kind.failed.take().is_some() {
            self.counts.trouble(wanted.as_str(), None);
            info!(kind = wanted.as_str(), "watching again");
        }
    }

    /// Takes over the times when the watches of listed kinds were heard.
    pub(super) fn hear(&mut self, pulses: &Pulses) {
        for wanted in ObjectKind::all() {
            let kind = self.kind(wanted);
            let heard = pulses.heard(ApiResource::of(wanted));
            let heard = heard.filter(|heard| {
                matches!(kind.phase, ListPhase::Follows)
                    && kind.failed.is_none_or(|failed| *heard > failed)
            });
            if let Some(heard) = heard {
                kind.is_watched = true;
                kind.known_at = kind.known_at.max(Some(heard));
                self.recovered(wanted);
            }
        }
    }

    /// Records the outcome of a batch of a replace.
    ///
    /// # Errors
    /// The batch was not applied.
    pub(super) fn done(
        &mut self,
        batch: PendingChanges,
        done: Result<(), Undone>,
    ) -> Result<(), Broken> {
        match &done {
            Ok(()) => self.sent(&batch),
            Err(Undone::Refused(refused)) => self.leave_out(batch, refused),
            Err(_) => {}
        }
        Ok(done?)
    }

    /// Records a batch that was applied.
    pub(super) fn sent(&self, batch: &PendingChanges) {
        for object in batch.changes.iter().filter_map(|it| it.object.as_ref()) {
            let kind = ObjectId::of(object).kind;
            self.counts.of(kind.as_str()).changed(1);
        }
        let now = SystemTime::now();
        for (kind, created) in &batch.created {
            // The clocks of two machines may differ, so a negative lag counts as 0.
            let lag = now.duration_since(*created).unwrap_or_default();
            self.counts.of(kind.as_str()).lagged(lag);
        }
    }

    /// Puts the changes of a batch back, without the objects that the snapshot refuses. Older
    /// versions of these are deleted from the snapshot.
    pub(super) fn leave_out(&mut self, batch: PendingChanges, refused: &[(usize, String)]) {
        let mut changes: Vec<Option<Change>> = batch.changes.into_iter().map(Some).collect();
        for (place, why) in refused {
            let object = changes.get_mut(*place).and_then(Option::take);
            let Some(object) = object.and_then(|change| change.object) else {
                continue;
            };
            let key = key_of(&object);
            let (kind, namespace, name) = &key;
            self.counts.of(kind.as_str()).left_out();
            warn!(kind = kind.as_str(), %namespace, %name, why, "an object is left out");
            if metadata_of(&object).is_some() {
                let hash = self.kind(*kind).known.hash_of(&object);
                let held = reference(*kind, namespace, name, "");
                self.pending.delete(held);
                self.left_out.insert(key, hash);
            }
        }
        for object in changes.into_iter().flatten().filter_map(|it| it.object) {
            self.pending.put(object);
        }
    }
}

/// The resource version of an object; 0 if this is no number.
fn version_of(object: &LeanValue) -> u64 {
    let version = object.metadata("resourceVersion");
    version.parse().unwrap_or(0)
}
