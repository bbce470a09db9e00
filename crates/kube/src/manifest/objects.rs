//! All objects of input files, as changes of a snapshot.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::admission::Admission;
use super::document::for_each_item;
use super::finder::WorkloadFinder;
use super::fleet::is_cluster;
use super::item::{Item, ObjectOrigin, text};
use super::object::{DecodedItem, SavedOrigin, decode, name_of, object_name};
use super::pod_facts::{StayReason, WaitingPod, keeps_node, pod_facts};
use super::source::{InputSource, ManifestError};
use evenkeel_core::proto::v1::change::Object;
use evenkeel_core::proto::v1::{Change, DefaultConstraints, PodFacts};
use evenkeel_core::snapshot::{ObjectId, ObjectKind, ResourceVersions};

/// The objects of input files, or of a cluster.
#[derive(Debug, Clone, Default)]
pub struct LoadedObjects {
    /// The objects that decisions read, each at most once.
    pub changes: Vec<Change>,
    /// The number of objects of other kinds, by kind (`Deployment.apps`).
    pub skipped: BTreeMap<String, u64>,
    /// The default constraints, if a file has any.
    pub default_constraints: Option<DefaultConstraints>,
    /// The version of Kubernetes of the objects' cluster; empty if unknown.
    pub kubernetes_version: String,
    /// The origin of the saved objects, if a file has one.
    pub saved: Option<SavedOrigin>,
    /// True if the objects contain clusters of a fleet, for which the rules of KubeFleet apply.
    pub is_fleet: bool,
    /// The fields of pods that controllers read, by namespace and name.
    pub pod_facts: HashMap<(String, String), PodFacts>,
    /// The reasons why pods should stay where they are, by namespace and name.
    pub staying: HashMap<(String, String), StayReason>,
    /// The names of nodes that an annotation keeps.
    pub staying_nodes: BTreeSet<String>,
    /// A message for each object that occurs more than once. The last occurrence counts.
    pub repeated: Vec<String>,
    /// The objects that admission reads when a pod is created.
    pub admission: Admission,
    /// The conditions of pods that wait for a node, by namespace and name.
    pub waiting: HashMap<(String, String), WaitingPod>,
    /// The kinds that a cluster listed, so that those objects are all that there are.
    pub listed: ResourceVersions,
    origins: Vec<ObjectOrigin>,
}

impl LoadedObjects {
    /// Kind, name and origin of a change, for a message.
    pub fn describe(&self, index: usize) -> String {
        let object = self.changes[index].object.as_ref();
        let name = object.map_or_else(String::new, object_name);
        format!("{name} ({})", self.origins[index].describe())
    }

    /// Returns the number of objects of each kind.
    pub fn kinds(&self) -> BTreeMap<&'static str, u64> {
        let mut kinds = BTreeMap::new();
        for object in self.changes.iter().filter_map(|it| it.object.as_ref()) {
            *kinds.entry(ObjectId::of(object).kind.as_str()).or_default() += 1;
        }
        kinds
    }

    /// Adds other objects, with their origins. No object may be in both.
    pub fn append(&mut self, other: Self) {
        self.origins.extend(other.origins);
        self.changes.extend(other.changes);
        self.is_fleet |= other.is_fleet;
        self.pod_facts.extend(other.pod_facts);
        self.staying.extend(other.staying);
        self.staying_nodes.extend(other.staying_nodes);
        self.admission.add_missing(other.admission);
        self.repeated.extend(other.repeated);
        self.waiting.extend(other.waiting);
        for (kind, count) in other.skipped {
            *self.skipped.entry(kind).or_default() += count;
        }
    }

    /// Drops the objects of the changes that are not marked in `kept`.
    pub fn keep(&mut self, kept: &[bool]) {
        let mut marks = kept.iter();
        self.origins.retain(|_| *marks.next().unwrap_or(&true));
        let mut marks = kept.iter();
        self.changes.retain(|_| *marks.next().unwrap_or(&true));
    }
}

/// Reads all of `sources`, and shows each object to `finder`.
pub fn read_objects(
    sources: Vec<InputSource>,
    mut finder: Option<&mut WorkloadFinder>,
) -> Result<LoadedObjects, ManifestError> {
    let mut reader = ObjectReader::default();
    for_each_item(sources, &mut |item| {
        if let Some(finder) = &mut finder {
            finder.offer(&item);
        }
        reader.take(item)
    })?;
    Ok(reader.objects)
}

/// Reads objects one by one.
#[derive(Default)]
pub struct ObjectReader {
    /// The objects that were read.
    pub objects: LoadedObjects,
    /// The index of each object in `objects.changes`, by kind, namespace and name.
    places: HashMap<(ObjectKind, String, String), usize>,
}

impl ObjectReader {
    /// Reads an object.
    ///
    /// # Errors
    /// The field that is wrong, and the reason.
    pub fn take(&mut self, item: Item) -> Result<(), ManifestError> {
        let origin = item.origin.clone();
        self.objects.admission.offer(&item.value);
        let (kind, version) = (text(&item.value, "kind"), text(&item.value, "apiVersion"));
        self.objects.is_fleet |= is_cluster(kind, version);
        let facts = (kind == "Pod").then(|| (pod_facts(&item.value), StayReason::of(&item.value)));
        if let Some((name, waiting)) = WaitingPod::of(&item.value) {
            self.objects.waiting.insert(name, waiting);
        }
        if kind == "Node" && keeps_node(&item.value) {
            let name = text(&item.value["metadata"], "name").to_owned();
            self.objects.staying_nodes.insert(name);
        }
        match decode(item)? {
            DecodedItem::Object(object) => {
                if let (Object::Pod(_), Some((facts, staying))) = (&object, facts) {
                    let id = ObjectId::of(&object);
                    let place = (id.namespace.to_owned(), id.name.to_owned());
                    if let Some(staying) = staying {
                        self.objects.staying.insert(place.clone(), staying);
                    }
                    self.objects.pod_facts.insert(place, facts);
                }
                let change = Change {
                    object: Some(object),
                };
                self.keep(change, origin);
            }
            DecodedItem::DefaultConstraints(constraints) => {
                self.objects.default_constraints = Some(constraints);
            }
            DecodedItem::Saved(saved) => {
                self.objects
                    .kubernetes_version
                    .clone_from(&saved.kubernetes_version);
                self.objects.saved = Some(saved);
            }
            DecodedItem::Other(kind) => *self.objects.skipped.entry(kind).or_default() += 1,
        }
        Ok(())
    }

    fn keep(&mut self, change: Change, origin: ObjectOrigin) {
        let objects = &mut self.objects;
        let id = change.object.as_ref().map(ObjectId::of);
        // An object without a name is kept: the server reports the fault.
        if let Some(id) = id.filter(|id| !id.name.is_empty()) {
            let place = (id.kind, id.namespace.to_owned(), id.name.to_owned());
            let index = *self.places.entry(place).or_insert(objects.changes.len());
            if index < objects.changes.len() {
                objects.repeated.push(format!(
                    "{} occurs more than once: taking the one of {}, not of {}",
                    name_of(&id),
                    origin.describe(),
                    objects.origins[index].describe(),
                ));
                objects.changes[index] = change;
                objects.origins[index] = origin;
                return;
            }
        }
        objects.changes.push(change);
        objects.origins.push(origin);
    }
}
