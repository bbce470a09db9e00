//! All objects of some files, as changes of a snapshot.

use std::collections::{BTreeMap, HashMap};

use indicatif::ProgressBar;

use super::document::{for_each_item, for_each_item_in};
use super::error::ManifestError;
use super::finder::WorkloadFinder;
use super::fleet::is_cluster;
use super::item::{Item, ObjectOrigin, text};
use super::object::{DecodedItem, decode, name_of, object_name};
use super::saved::{SavedOrigin, Verifier};
use super::source::InputSource;
use crate::proto::v1::{Change, DefaultConstraints};
use crate::snapshot::{ObjectId, ObjectKind};

/// The objects of some files.
#[derive(Debug, Default)]
pub(crate) struct LoadedObjects {
    /// The objects that decisions read, each at most once.
    pub(crate) changes: Vec<Change>,
    /// How many objects of other kinds there were, by kind (`Deployment.apps`).
    pub(crate) skipped: BTreeMap<String, u64>,
    /// Default constraints, when a file holds some.
    pub(crate) default_constraints: Option<DefaultConstraints>,
    /// Where the objects were saved from, when a file says so.
    pub(crate) saved: Option<SavedOrigin>,
    /// Whether they are clusters of a fleet, where other rules hold than
    /// kube-scheduler's.
    pub(crate) is_fleet: bool,
    /// A line for each object that occurs more than once. The last one counts.
    pub(crate) repeated: Vec<String>,
    origins: Vec<ObjectOrigin>,
    sources: Vec<InputSource>,
}

impl LoadedObjects {
    /// Kind, name and origin of a change, for a message.
    pub(crate) fn describe(&self, index: usize) -> String {
        let name = self.changes[index]
            .object
            .as_ref()
            .map_or_else(String::new, object_name);
        format!("{name} ({})", self.place(self.origins[index]))
    }

    /// How many objects there are of each kind.
    pub(crate) fn kinds(&self) -> BTreeMap<&'static str, u64> {
        let mut kinds = BTreeMap::new();
        for object in self
            .changes
            .iter()
            .filter_map(|change| change.object.as_ref())
        {
            *kinds.entry(ObjectId::of(object).kind.as_str()).or_default() += 1;
        }
        kinds
    }

    /// Adds objects of other kinds or names, with where they come from.
    pub(crate) fn append(&mut self, other: Self) {
        let before = u32::try_from(self.sources.len()).unwrap_or(u32::MAX);
        let moved = other.origins.into_iter().map(|origin| ObjectOrigin {
            source: origin.source + before,
            ..origin
        });
        self.origins.extend(moved);
        self.sources.extend(other.sources);
        self.changes.extend(other.changes);
        self.is_fleet |= other.is_fleet;
        self.repeated.extend(other.repeated);
        for (kind, count) in other.skipped {
            *self.skipped.entry(kind).or_default() += count;
        }
    }

    fn place(&self, origin: ObjectOrigin) -> String {
        origin.describe(&self.sources[origin.source as usize])
    }
}

/// Reads all of `sources`, and shows each object to `finder`. `progress` counts
/// bytes.
pub(crate) fn read_objects(
    sources: Vec<InputSource>,
    mut finder: Option<&mut WorkloadFinder>,
    progress: &ProgressBar,
) -> Result<LoadedObjects, ManifestError> {
    progress.set_length(sources.iter().filter_map(InputSource::size_bytes).sum());
    let mut reader = Reader::default();
    for (index, source) in (0..).zip(&sources) {
        for_each_item(source, index, progress, &mut |item| {
            if let Some(finder) = &mut finder {
                finder.offer(&item, source);
            }
            reader.take(item, &sources)
        })?;
        let ended = reader.verifier.end_of_source();
        ended.map_err(|message| not_whole(source, message))?;
    }
    reader.objects.sources = sources;
    Ok(reader.objects)
}

/// Objects of one source that come page by page.
pub(crate) struct ObjectPages {
    reader: Reader,
    source: [InputSource; 1],
}

impl ObjectPages {
    /// None yet, of `source`.
    pub(crate) fn of(source: InputSource) -> Self {
        Self {
            reader: Reader::default(),
            source: [source],
        }
    }

    /// Reads a page, the JSON text of a list.
    pub(crate) fn read(&mut self, page: &str) -> Result<(), ManifestError> {
        let [source] = &self.source;
        for_each_item_in(page, source, &mut |item| {
            self.reader.take(item, &self.source)
        })
    }

    /// The objects of all pages.
    pub(crate) fn finish(self) -> LoadedObjects {
        let mut objects = self.reader.objects;
        objects.sources = self.source.into();
        objects
    }
}

#[derive(Default)]
struct Reader {
    objects: LoadedObjects,
    /// Where an object is in `objects.changes`, by kind, namespace and name.
    places: HashMap<(ObjectKind, String, String), usize>,
    verifier: Verifier,
}

fn not_whole(source: &InputSource, message: &'static str) -> ManifestError {
    let file = source.to_string();
    ManifestError::NotWhole { file, message }
}

impl Reader {
    fn take(&mut self, item: Item, sources: &[InputSource]) -> Result<(), ManifestError> {
        let origin = item.origin;
        let source = &sources[origin.source as usize];
        let not_whole = |message| not_whole(source, message);
        let version = text(&item.value, "apiVersion");
        self.objects.is_fleet |= is_cluster(text(&item.value, "kind"), version);
        match decode(item, source)? {
            DecodedItem::Object(object) => {
                let change = Change {
                    object: Some(object),
                };
                self.verifier.add(&change);
                self.keep(change, origin, sources);
            }
            DecodedItem::DefaultConstraints(constraints) => {
                self.verifier.add_defaults(&constraints);
                self.objects.default_constraints = Some(constraints);
            }
            DecodedItem::Saved(saved) => {
                self.verifier.begin().map_err(not_whole)?;
                self.objects.saved = Some(saved);
            }
            DecodedItem::SavedEnd(summary) => self.verifier.end(&summary).map_err(not_whole)?,
            DecodedItem::Other(kind) => *self.objects.skipped.entry(kind).or_default() += 1,
        }
        Ok(())
    }

    fn keep(&mut self, change: Change, origin: ObjectOrigin, sources: &[InputSource]) {
        let objects = &mut self.objects;
        let id = change.object.as_ref().map(ObjectId::of);
        // An object without a name is kept: the server reports the fault.
        if let Some(id) = id.filter(|id| !id.name.is_empty()) {
            let place = (id.kind, id.namespace.to_owned(), id.name.to_owned());
            let index = *self.places.entry(place).or_insert(objects.changes.len());
            if index < objects.changes.len() {
                let describe =
                    |origin: ObjectOrigin| origin.describe(&sources[origin.source as usize]);
                objects.repeated.push(format!(
                    "{} occurs more than once: taking the one of {}, not of {}",
                    name_of(&id),
                    describe(origin),
                    describe(objects.origins[index]),
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
