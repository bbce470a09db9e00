//! Decodes the objects that decisions read by their kind, and writes them back: a Kubernetes list as a
//! file with one object per line, which is written object by object.

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::admission::{set_of_containers, set_of_pod};
use super::fleet::{binding, cluster, is_binding, is_cluster};
use super::item::{DEFAULT_CONSTRAINTS_KIND, Item, OWN_API_VERSION, full_name, text};
use super::source::ManifestError;
use evenkeel_core::proto::v1::change::Object;
use evenkeel_core::proto::v1::{Change, DefaultConstraints, UpdateSnapshotRequest};
use evenkeel_core::snapshot::{ObjectId, ObjectKind};
use evenkeel_core::with_message;
use evenkeel_log::visible;

/// An object of a file, in the form that a snapshot takes.
#[expect(clippy::large_enum_variant, reason = "one at a time, on the stack")]
pub(super) enum DecodedItem {
    /// A part of the snapshot's state.
    Object(Object),
    /// The snapshot's default constraints.
    DefaultConstraints(DefaultConstraints),
    /// The origin of a saved snapshot, whose content follows.
    Saved(SavedOrigin),
    /// An object of this kind, which no snapshot takes.
    Other(String),
}

/// Decodes an object by its kind and API version.
pub(super) fn decode(mut item: Item) -> Result<DecodedItem, ManifestError> {
    let kind = text(&item.value, "kind");
    let version = text(&item.value, "apiVersion");
    if is_cluster(kind, version) {
        return Ok(DecodedItem::Object(Object::Node(cluster(item)?)));
    }
    if is_binding(kind, version) {
        let kind = qualified_kind(&item);
        let pod = binding(item)?.map(Object::Pod);
        return Ok(pod.map_or(DecodedItem::Other(kind), DecodedItem::Object));
    }
    if version == OWN_API_VERSION {
        if kind == DEFAULT_CONSTRAINTS_KIND {
            return item.decode().map(DecodedItem::DefaultConstraints);
        }
        if let Some(saved) = SavedOrigin::of_item(&item.value) {
            return Ok(DecodedItem::Saved(saved));
        }
    }
    // A missing version means the version of the known kind.
    let known = ObjectKind::parse(kind).filter(|it| [it.api_version(), ""].contains(&version));
    if known == Some(ObjectKind::Pod) {
        set_of_containers(&mut item.value);
        set_of_pod(&mut item.value);
    }
    Ok(match known {
        Some(kind) => DecodedItem::Object(item.object(kind)?),
        None => DecodedItem::Other(qualified_kind(&item)),
    })
}

/// An object as a change. The change is empty if decisions do not read the object's kind.
pub(super) fn change(item: Item) -> Result<Change, ManifestError> {
    let object = match decode(item)? {
        DecodedItem::Object(object) => Some(object),
        _ => None,
    };
    Ok(Change { object })
}

/// Kind and group, in the form that `kubectl get` takes: `Deployment.apps`.
fn qualified_kind(item: &Item) -> String {
    let kind = text(&item.value, "kind");
    match text(&item.value, "apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}"),
        None => kind.to_owned(),
    }
}

/// The objects and default constraints of an update as items of a Kubernetes
/// list, which [`super::read_objects`] reads back. Deletions are left out.
pub(super) fn items_of(update: &UpdateSnapshotRequest) -> serde_json::Result<Vec<Value>> {
    let mut items = Vec::with_capacity(update.changes.len() + 1);
    if let Some(constraints) = &update.default_constraints {
        let value = serde_json::to_value(constraints)?;
        items.push(own_item(value, OWN_API_VERSION, DEFAULT_CONSTRAINTS_KIND));
    }
    let objects = update
        .changes
        .iter()
        .filter_map(|change| change.object.as_ref());
    for object in objects {
        let value = with_message!(
            object,
            message => serde_json::to_value(message)?,
            _deleted => continue
        );
        let kind = ObjectId::of(object).kind;
        items.push(own_item(value, kind.api_version(), kind.as_str()));
    }
    Ok(items)
}

/// The fields of an object, after its kind and version.
fn own_item(value: Value, version: &str, kind: &str) -> Value {
    let mut fields = json!({ "apiVersion": version, "kind": kind });
    if let (Value::Object(fields), Value::Object(more)) = (&mut fields, value) {
        fields.extend(more);
    }
    fields
}

/// Kind, namespace and name of the object of a change, for a message.
pub fn object_name(object: &Object) -> String {
    name_of(&ObjectId::of(object))
}

/// Kind, namespace and name of an object id, for a message.
pub(super) fn name_of(id: &ObjectId<'_>) -> String {
    full_name(id.kind.as_str(), id.namespace, id.name)
}

/// Kind of the first item, which has the origin of the snapshot.
const SAVED_KIND: &str = "SavedSnapshot";

/// The origin of a saved snapshot: its epoch and revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedOrigin {
    /// Name of the snapshot.
    pub snapshot: String,
    /// Epoch of the revision.
    pub epoch: String,
    /// The revision.
    pub revision: i64,
    /// The version of Kubernetes that was set; empty if none.
    pub kubernetes_version: String,
}

impl SavedOrigin {
    /// The origin as an item of a list.
    pub(super) fn to_item(&self) -> Value {
        json!({
            "apiVersion": OWN_API_VERSION,
            "kind": SAVED_KIND,
            "metadata": {
                "name": self.snapshot,
                "uid": self.epoch,
                "resourceVersion": self.revision.to_string(),
            },
            "kubernetesVersion": self.kubernetes_version,
        })
    }

    /// The origin in an item; `None` if the item is another one.
    pub(super) fn of_item(value: &Value) -> Option<Self> {
        let metadata = &value["metadata"];
        let is_one = text(value, "kind") == SAVED_KIND;
        is_one.then_some(Self {
            snapshot: text(metadata, "name").to_owned(),
            epoch: text(metadata, "uid").to_owned(),
            revision: text(metadata, "resourceVersion").parse().ok()?,
            kubernetes_version: text(value, "kubernetesVersion").to_owned(),
        })
    }
}

/// A list that is being written: to standard output, or to a temporary file that is renamed at the
/// end, so that the file is complete or does not exist.
pub struct ListFile {
    path: PathBuf,
    /// The temporary file; `None` for standard output.
    aside: Option<NamedTempFile>,
    output: BufWriter<Box<dyn Write>>,
    separator: &'static str,
    objects: u64,
}

impl ListFile {
    /// A list without items; `-` is standard output.
    pub fn create(path: &Path) -> io::Result<Self> {
        let aside = match path == Path::new("-") {
            true => None,
            false => Some(new_file_beside(path).map_err(writing(path))?),
        };
        let output: Box<dyn Write> = match &aside {
            None => Box::new(io::stdout()),
            Some(file) => Box::new(file.as_file().try_clone().map_err(writing(path))?),
        };
        let mut output = BufWriter::new(output);
        write!(output, r#"{{"apiVersion":"v1","kind":"List","items":["#)?;
        Ok(Self {
            path: path.to_owned(),
            aside,
            output,
            separator: "\n",
            objects: 0,
        })
    }

    /// Adds the item with the origin of the objects.
    pub fn add_origin(&mut self, saved: &SavedOrigin) -> io::Result<()> {
        self.add_item(&saved.to_item())
    }

    /// Adds the objects and default constraints of an update.
    pub fn add(&mut self, update: &UpdateSnapshotRequest) -> io::Result<()> {
        self.objects += update.changes.len() as u64;
        for item in items_of(update)? {
            self.add_item(&item)?;
        }
        Ok(())
    }

    fn add_item(&mut self, item: &serde_json::Value) -> io::Result<()> {
        let item = item.to_string();
        let item = match &self.aside {
            Some(_) => Cow::Borrowed(&*item),
            // Standard output may be a terminal, so control characters are escaped.
            None => visible::json(&item),
        };
        write!(self.output, "{}{item}", self.separator)?;
        self.separator = ",\n";
        Ok(())
    }

    /// Ends the list. Returns the number of its objects, and true if the list is in a file, not on
    /// standard output.
    pub fn finish(mut self) -> io::Result<(u64, bool)> {
        writeln!(self.output, "\n]}}")?;
        self.output.flush()?;
        let is_file = self.aside.is_some();
        if let Some(file) = self.aside {
            let synced = file.as_file().sync_all();
            let renamed = synced.and_then(|()| Ok(file.persist(&self.path)?));
            renamed.map_err(writing(&self.path))?;
        }
        Ok((self.objects, is_file))
    }
}

/// Returns a function that adds to an error which file was being written.
fn writing(path: &Path) -> impl Fn(io::Error) -> io::Error {
    let path = path.display();
    move |error| io::Error::new(error.kind(), format!("writing {path}: {error}"))
}

/// A file that can be renamed to `path`, with the permissions that the user's mask allows.
fn new_file_beside(path: &Path) -> io::Result<NamedTempFile> {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".evenkeel-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(directory)
}
