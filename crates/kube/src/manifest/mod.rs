//! Kubernetes objects in files: kubectl's JSON or YAML, lists, several documents in a file, many
//! files, directories, standard input.
//!
//! `source` lists the files and opens them, and `document` splits a file into single objects, each an
//! `item` until its kind is known. `kinds` is the table of kinds, `naming` reads names of objects as
//! people type them, and `finder` finds the requested object. `object`, `workload`, `fleet` and
//! `defaults` decode objects by kind. `controller` and `admission` complete a pod template as a cluster
//! does. `pod_facts` reads the fields of pods that no decision reads, and `scaling` says what
//! controllers of revisions do with a smaller number of replicas. `places` knows where custom resources
//! have constraints.

mod admission;
mod controller;
mod defaults;
mod document;
mod finder;
mod fleet;
mod item;
mod kinds;
mod naming;
mod object;
mod objects;
mod places;
mod pod_facts;
mod scaling;
mod source;
mod templates;
#[cfg(test)]
mod tests;
mod workload;
mod workload_ref;

pub use admission::{Admission, NotCounted};
pub use controller::NumberedPods;
pub use defaults::{default_constraints_in, read_default_constraints, system_default_constraints};
pub use document::Positions;
pub use finder::{FindPods, WorkloadFinder};
pub use fleet::{PlacementPolicy, Preference};
pub use item::{Item, full_name};
pub use kinds::{ApiResource, READ_BY_ADMISSION};
pub(crate) use kinds::{CONFIG_MAPS, EVICTIONS};
pub use naming::ObjectName;
pub use object::{ListFile, SavedOrigin, object_name};
pub use objects::{LoadedObjects, ObjectReader, read_objects};
pub use places::{CONSTRAINTS, ConstraintPlace, CustomResources, Unsaid};
pub use pod_facts::WaitingPod;
pub use source::{FiniteText, InputSource, ManifestError, Position, expand};
pub use templates::{ReadTemplate, Template, TemplateObject, resolve_references, templates_in};
pub use workload::WorkloadPod;
pub use workload_ref::referred_kinds;
