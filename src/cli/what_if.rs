//! The overlay of a question: objects that it adds, changes or deletes. The pod itself is deleted
//! if it runs already, so that it does not count against itself.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;

use super::args;
use super::output;
use crate::manifest::{self, ObjectName};
use crate::misspelt;
use crate::proto::v1::change::Object;
use crate::proto::v1::{Change, ObjectReference, Pod};
use crate::snapshot::{ObjectId, ObjectKind};

/// Flags of what-if.
#[derive(Debug, Args)]
#[command(next_help_heading = "What if")]
pub(crate) struct WhatIf {
    /// What if these objects were added or updated; nothing is stored
    ///
    /// A file, directory or - as for --load. Can be repeated. No other call
    /// waits for this one, or sees its objects.
    #[arg(long, value_name = "FILE")]
    overlay: Vec<PathBuf>,

    /// What if this object were gone: node/NAME, or KIND/[NAMESPACE/]NAME
    ///
    /// An object that is not there is refused.
    #[arg(long, value_name = "OBJECT", value_parser = deletion)]
    overlay_delete: Vec<ObjectReference>,
}

/// The changes that a question assumes; the user's deletions come after the user's objects.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    pub(crate) changes: Vec<Change>,
    /// The name of each change, for errors.
    pub(crate) names: Vec<String>,
}

impl WhatIf {
    /// Returns whether standard input is one of the files.
    pub(crate) fn reads_standard_input(&self) -> bool {
        self.overlay.iter().any(|path| path == Path::new("-"))
    }

    /// Reads the files.
    pub(crate) fn read(&self) -> Result<Overlay> {
        let objects = args::read_files(&self.overlay)?;
        if !objects.skipped.is_empty() {
            let kinds: Vec<&str> = objects.skipped.keys().map(String::as_str).collect();
            let kinds = kinds.join(", ");
            output::warn(&format!("--overlay: no decision reads {kinds}"));
        }
        let names = (0..objects.changes.len()).map(|index| objects.describe(index));
        let mut overlay = Overlay {
            names: names.collect(),
            changes: objects.changes,
        };
        for object in &self.overlay_delete {
            overlay.delete(object.clone());
        }
        Ok(overlay)
    }
}

impl Overlay {
    /// Deletes an object.
    pub(crate) fn delete(&mut self, object: ObjectReference) {
        let object = Object::Delete(object);
        let name = manifest::object_name(&object);
        self.names.push(format!("--overlay-delete {name}"));
        self.changes.push(Change {
            object: Some(object),
        });
    }

    /// Refuses an answer if objects to delete did not exist, because then the question was probably
    /// another.
    ///
    /// # Errors
    /// A sentence that names these objects.
    pub(crate) fn check_deleted(unknown: &[ObjectReference]) -> Result<()> {
        // The kind is written as the server names it, because a newer server may know more kinds.
        let name = |it: &ObjectReference| manifest::full_name(&it.kind, &it.namespace, &it.name);
        let names: Vec<String> = unknown.iter().map(name).collect();
        anyhow::ensure!(
            names.is_empty(),
            "--overlay-delete: the snapshot has no {}",
            names.join(", ")
        );
        Ok(())
    }

    /// Adds objects that are created together with the subject of the question, except those that
    /// the overlay mentions already.
    pub(crate) fn suppose(&mut self, objects: Vec<Change>) {
        for change in objects {
            let Some(object) = &change.object else {
                continue;
            };
            if !self.is_about(object) {
                self.names.push(manifest::object_name(object));
                self.changes.push(change);
            }
        }
    }

    /// Returns whether the overlay mentions an object.
    fn is_about(&self, object: &Object) -> bool {
        let mut objects = self.changes.iter().filter_map(|c| c.object.as_ref());
        objects.any(|other| ObjectId::of(other) == ObjectId::of(object))
    }

    /// Returns whether the overlay mentions the object itself.
    pub(crate) fn mentions(&self, object: &ObjectReference) -> bool {
        self.is_about(&Object::Delete(object.clone()))
    }
}

/// Returns the reference to a pod with a name; `None` for the pod of a template.
pub(crate) fn named_pod(pod: &Pod) -> Option<ObjectReference> {
    let metadata = pod.metadata.as_ref()?;
    let is_named = !metadata.name.is_empty();
    is_named.then(|| pod_called(&metadata.namespace, &metadata.name))
}

/// Returns the reference to the pod of this name.
pub(crate) fn pod_called(namespace: &str, name: &str) -> ObjectReference {
    ObjectReference {
        kind: ObjectKind::Pod.as_str().to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: String::new(),
    }
}

/// Parses an argument of `--overlay-delete`.
fn deletion(text: &str) -> Result<ObjectReference, String> {
    let named: ObjectName = text.parse()?;
    let kind = named.kind.ok_or("want KIND/NAME or KIND/NAMESPACE/NAME")?;
    if ObjectKind::parse(&kind).is_none() {
        let hint = misspelt::hint(&kind, ObjectKind::all().map(ObjectKind::as_str));
        return Err(format!("{kind:?} is none of {}{hint}", ObjectKind::list()));
    }
    Ok(ObjectReference {
        kind,
        namespace: named.namespace.unwrap_or_default(),
        name: named.name,
        uid: String::new(),
    })
}
