//! The state of each kind in a feed, and the changes that wait to be sent as one batch.

use std::hash::{DefaultHasher, Hasher};
use std::time::{Instant, SystemTime};

use hashbrown::HashMap;
use tracing::{info, warn};

use super::counts::{FeedCounts, ListReason};
use super::error::{Broken, Error};
use super::sink::Undone;
use super::watch::{KindEvent, WatchOutcome};
use crate::manifest::Item;
use evenkeel_core::proto::v1::change::Object;
use evenkeel_core::proto::v1::{Change, ObjectReference};
use evenkeel_core::snapshot::kind::{encode_object, metadata_mut, metadata_of};
use evenkeel_core::snapshot::{ObjectId, ObjectKind, OwnerKind, ResourceVersions};

/// Objects with the hash of a version of each. This takes some 90 bytes an object.
pub(super) type Hashes = HashMap<ObjectKey, u64>;

/// The state of a kind that is followed.
#[derive(Debug)]
struct FollowedKind {
    kind: ObjectKind,
    /// True if it is listed.
    is_listed: bool,
    /// True if its watch was granted, or has ended since.
    is_watched: bool,
    /// True if the account may not read the kind and decisions do not need it.
    is_missing: bool,
    /// True if its list or watch failed, and nothing was heard since.
    has_failed: bool,
    /// The last moment up to which all changes are known.
    known_at: Option<Instant>,
    /// The resource version up to which all changes are sent or pending; 0 if it is not known.
    read: u64,
}

/// The states of all kinds.
pub(super) struct FollowedKinds<'a> {
    kinds: Vec<FollowedKind>,
    /// The changes that wait to be sent.
    pub(super) pending: PendingChanges,
    /// True after the replace, when decisions see the changes that are sent.
    pub(super) is_live: bool,
    /// Why a watch ended before the replace, which is completed with what is listed. Then the feed
    /// begins again.
    pub(super) lost: Option<Broken>,
    /// The reason why all kinds are listed.
    reason: ListReason,
    counts: &'a FeedCounts,
    /// The objects that were sent, so that only changes are.
    sent: Hashes,
    /// The versions of objects that the snapshot refused. They are sent again when they change.
    refused: &'a mut Hashes,
}

impl<'a> FollowedKinds<'a> {
    /// All kinds, before anything is known about them.
    pub(super) fn new(reason: ListReason, counts: &'a FeedCounts, refused: &'a mut Hashes) -> Self {
        let new = |kind: ObjectKind| {
            counts.trouble(kind.as_str(), None);
            FollowedKind {
                kind,
                is_listed: false,
                is_watched: false,
                is_missing: false,
                has_failed: false,
                known_at: None,
                read: 0,
            }
        };
        Self {
            kinds: ObjectKind::all().map(new).collect(),
            pending: PendingChanges::default(),
            is_live: false,
            lost: None,
            reason,
            counts,
            sent: Hashes::new(),
            refused,
        }
    }

    /// Returns whether all kinds are listed and watched, except missing ones.
    pub(super) fn is_complete(&self) -> bool {
        let mut kinds = self.kinds.iter();
        kinds.all(|kind| kind.is_missing || (kind.is_listed && kind.is_watched))
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
        self.sent.len()
    }

    /// Takes an event.
    ///
    /// # Errors
    /// The feed has to begin again.
    pub(super) fn take(&mut self, event: KindEvent) -> Result<(), Broken> {
        let (wanted, at) = (event.kind, event.at);
        let counts = self.counts.of(wanted);
        let read = match event.happened {
            WatchOutcome::ListBegins => {
                counts.lists[self.reason as usize].inc();
                if self.is_live {
                    let what = format!("{} could not be read before", wanted.as_str());
                    let reason = ListReason::Failed;
                    return Err(Broken::Lost { reason, what });
                }
                return Ok(());
            }
            WatchOutcome::Listed(object) => {
                self.put(wanted, object, false);
                return Ok(());
            }
            WatchOutcome::Failed(error) => return self.failed(wanted, error),
            WatchOutcome::Lost(reason, what) => {
                let broken = Broken::Lost { reason, what };
                let is_live = self.is_live;
                let kind = self.kind(wanted);
                if is_live || !kind.is_listed {
                    return Err(broken);
                }
                kind.is_watched = true;
                self.lost = Some(broken);
                return Ok(());
            }
            WatchOutcome::ListEnds(version) => {
                self.kind(wanted).is_listed = true;
                version
            }
            WatchOutcome::Put { object, is_new } => {
                counts.events.inc();
                let version = version_of(&object);
                self.put(wanted, object, is_new);
                version
            }
            WatchOutcome::Gone(object) => {
                counts.events.inc();
                let [namespace, name, uid] =
                    ["namespace", "name", "uid"].map(|field| object.metadata(field));
                self.remove(wanted, namespace, name, uid);
                version_of(&object)
            }
            WatchOutcome::ReadUpTo(version) => {
                self.kind(wanted).is_watched = true;
                version
            }
        };
        let kind = self.kind(wanted);
        kind.read = kind.read.max(read);
        kind.known_at = Some(at);
        kind.is_missing = false;
        if std::mem::take(&mut kind.has_failed) {
            self.counts.trouble(wanted.as_str(), None);
            info!(kind = wanted.as_str(), "watching again");
        }
        Ok(())
    }

    fn kind(&mut self, wanted: ObjectKind) -> &mut FollowedKind {
        let found = self.kinds.iter_mut().find(|kind| kind.kind == wanted);
        found.expect("all kinds are there from the start")
    }

    /// Adds an object to the pending changes, unless the snapshot has it, or has refused it.
    fn put(&mut self, kind: ObjectKind, object: Item, is_new: bool) {
        let created = humantime::parse_rfc3339(object.metadata("creationTimestamp")).ok();
        let name = [object.metadata("namespace"), object.metadata("name")].map(str::to_owned);
        let mut object = match object.object(kind) {
            Ok(object) => object,
            Err(error) => {
                self.counts.of(kind).left_out.inc();
                warn!(%error, "an object is left out");
                let [namespace, name] = &name;
                self.remove(kind, namespace, name, "");
                return;
            }
        };
        if let Some(metadata) = metadata_mut(&mut object) {
            // The resource version changes with every write, and no decision reads it.
            metadata.resource_version.clear();
        }
        let (key, hash) = (key_of(&object), hash_of(&object));
        if self.refused.get(&key) == Some(&hash) || self.sent.get(&key) == Some(&hash) {
            return;
        }
        self.refused.remove(&key);
        self.sent.insert(key, hash);
        self.pending.put(object);
        let created = created.filter(|_| self.is_live && is_new);
        self.pending.created.extend(created.map(|at| (kind, at)));
    }

    /// Deletes the object with this name, if the snapshot has one.
    fn remove(&mut self, kind: ObjectKind, namespace: &str, name: &str, uid: &str) {
        let key = (kind, namespace.into(), name.into());
        self.refused.remove(&key);
        if self.sent.remove(&key).is_some() {
            self.pending.delete(reference(kind, namespace, name, uid));
        }
    }

    /// Records that a list or a watch failed.
    ///
    /// # Errors
    /// The credentials have to be read again.
    fn failed(&mut self, wanted: ObjectKind, error: Error) -> Result<(), Broken> {
        self.counts.of(wanted).errors.inc();
        let may_miss = !matches!(wanted, ObjectKind::Node | ObjectKind::Pod) && error.is_refusal();
        let kind = self.kind(wanted);
        kind.has_failed = true;
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
        match error.has_code(401) {
            true => Err(error.into()),
            false => Ok(()),
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
            self.counts.of(ObjectId::of(object).kind).changes.inc();
        }
        let now = SystemTime::now();
        for (kind, created) in &batch.created {
            // The clocks of two machines may differ, so a negative lag counts as 0.
            let lag = now.duration_since(*created).unwrap_or_default();
            self.counts.of(*kind).lag.observe(lag.as_secs_f64());
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
            self.counts.of(*kind).left_out.inc();
            warn!(kind = kind.as_str(), %namespace, %name, why, "an object is left out");
            if metadata_of(&object).is_some() {
                let hash = hash_of(&object);
                self.pending.delete(reference(*kind, namespace, name, ""));
                self.refused.insert(key, hash);
            }
        }
        for object in changes.into_iter().flatten().filter_map(|it| it.object) {
            self.pending.put(object);
        }
    }
}

/// The resource version of an object; 0 if this is no number.
fn version_of(object: &Item) -> u64 {
    let version = object.metadata("resourceVersion");
    version.parse().unwrap_or(0)
}

fn hash_of(object: &Object) -> u64 {
    let mut encoded = Vec::new();
    encode_object(object, &mut encoded);
    let mut hasher = DefaultHasher::new();
    hasher.write(&encoded);
    hasher.finish()
}

/// Kind, namespace and name of an object.
pub(super) type ObjectKey = (ObjectKind, Box<str>, Box<str>);

pub(super) fn key_of(object: &Object) -> ObjectKey {
    let id = ObjectId::of(object);
    (id.kind, id.namespace.into(), id.name.into())
}

/// A reference to an object; an empty `uid` means any object of this name.
pub(super) fn reference(
    kind: ObjectKind,
    namespace: &str,
    name: &str,
    uid: &str,
) -> ObjectReference {
    ObjectReference {
        kind: kind.as_str().to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    }
}

/// The pending changes, at most one for each object. A later change replaces an earlier one.
#[derive(Debug, Default)]
pub(super) struct PendingChanges {
    pub(super) changes: Vec<Change>,
    places: HashMap<ObjectKey, usize>,
    /// An upper bound of the bytes of the changes.
    pub(super) bytes: usize,
    /// The creation times of objects that a watch reported as new.
    pub(super) created: Vec<(ObjectKind, SystemTime)>,
}

impl PendingChanges {
    /// Creates or changes an object.
    pub(super) fn put(&mut self, object: Object) {
        self.bytes += object.encoded_len();
        let key = key_of(&object);
        let change = Change {
            object: Some(object),
        };
        match self.places.get(&key) {
            Some(place) => self.changes[*place] = change,
            None => {
                self.places.insert(key, self.changes.len());
                self.changes.push(change);
            }
        }
    }

    /// Deletes an object. If the batch has an earlier change of this name, the uid is left out,
    /// because the snapshot may have an older object with this name and another uid.
    pub(super) fn delete(&mut self, mut reference: ObjectReference) {
        let object = Object::Delete(reference.clone());
        if self.places.contains_key(&key_of(&object)) {
            reference.uid.clear();
        }
        self.put(Object::Delete(reference));
    }
}
