//! Kubernetes objects in files: kubectl's JSON or YAML, lists, several documents in a file, many
//! files, directories, standard input.
//!
//! `source` lists the files and opens them, `document` splits a file into single objects, each an
//! `item` until its kind is known, and `lean` leaves out the fields that no decision reads.
//! `naming` reads names of objects as people type them, `names` lists those in files, and `finder` finds the requested object.
//! `object`, `workload`, `fleet` and `defaults` decode objects by kind. `controller`,
//! `pod_defaults` and `admission` complete a pod template as a cluster does. `pod_facts` reads the
//! fields of pods that no decision reads, and `scaling` says what controllers of revisions do with a smaller number of replicas. `places` knows where custom resources have constraints.
//! `saved` has the origin of a saved snapshot.

mod admission;
mod controller;
mod defaults;
mod document;
mod error;
mod finder;
mod fleet;
mod item;
mod lean;
mod list_file;
mod names;
mod naming;
mod object;
mod objects;
mod places;
mod pod_defaults;
mod pod_facts;
mod positions;
mod revision;
mod saved;
mod scaling;
mod source;
mod templates;
#[cfg(test)]
mod tests;
mod workload;
mod workload_ref;
mod yaml;

pub use admission::{Admission, NotCounted};
pub use controller::NumberedPods;
pub use defaults::{default_constraints_in, read_default_constraints, system_default_constraints};
pub use error::{ManifestError, Position};
pub use finder::{FindPods, WorkloadFinder};
pub use fleet::{PlacementPolicy, Preference};
pub use item::{Item, full_name};
pub use list_file::ListFile;
pub use names::{NamedObject, for_each_name};
pub use naming::ObjectName;
pub use object::object_name;
pub use objects::{LoadedObjects, ObjectReader, read_objects};
pub use places::{CONSTRAINTS, ConstraintPlace, CustomResources, Unsaid};
pub use pod_facts::WaitingPod;
pub use positions::Positions;
pub use saved::SavedOrigin;
pub use source::{FiniteText, InputSource, expand};
pub use templates::{ReadTemplate, Template, TemplateObject, resolve_references, templates_in};
pub use workload::WorkloadPod;
pub use workload_ref::referred_kinds;
