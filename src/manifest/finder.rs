//! Which object is meant, of those that have pods: the only one of a file, or
//! the one of a name.

use std::path::Path;

use indicatif::ProgressBar;
use serde_json::{Map, Value};

use super::document::{for_each_item, for_each_item_in};
use super::error::ManifestError;
use super::item::{Item, text};
use super::naming::ObjectName;
use super::source::{InputSource, expand};
use super::workload::{WorkloadPod, path_of_kind, template_paths, workload_pod};
use crate::matching::names;

/// How many choices an error lists.
const LISTED_CHOICES: usize = 20;

/// The label by which a Deployment tells the pods of its ReplicaSets apart.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// Looks through objects for the one that a question is about.
#[derive(Debug, Default)]
pub(crate) struct WorkloadFinder {
    name: Option<ObjectName>,
    /// Whether the objects are a cluster, where a kind is looked for among
    /// thousands of others, and not a file for the question.
    in_cluster: bool,
    found: Vec<(Item, InputSource)>,
    /// Other objects that could be meant.
    choices: Vec<String>,
    /// The ReplicaSets that the Deployment in question made.
    replica_sets: Vec<(Item, InputSource)>,
}

impl WorkloadFinder {
    /// Of a file that holds one workload, or one of that name.
    fn of_file(name: Option<ObjectName>) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    /// Of a cluster, by its kind, namespace and name.
    pub(crate) fn in_cluster(name: ObjectName) -> Self {
        Self {
            in_cluster: true,
            ..Self::of_file(Some(name))
        }
    }

    /// Looks at an object.
    pub(super) fn offer(&mut self, item: &Item, source: &InputSource) {
        let value = &item.value;
        let (kind, namespace, called) = parts(value);
        let is_called = |name: &ObjectName| name.is_of(kind, namespace, called);
        let is_named = self.name.as_ref().is_none_or(is_called);
        if self.in_cluster {
            if self.is_made_by_named(value) {
                self.replica_sets.push((item.clone(), source.clone()));
            }
            // Thousands of pods are no help to somebody who looks for a
            // Deployment.
            let wanted = self.name.as_ref().and_then(|name| name.kind.as_deref());
            if !is_named && !wanted.is_some_and(|wanted| wanted.eq_ignore_ascii_case(kind)) {
                return;
            }
        }
        if path_of_kind(kind).is_some() || !template_paths(value).is_empty() {
            self.choices.push(choice(value));
            if is_named {
                if self.in_cluster {
                    // One object, of which the last one read counts.
                    self.found.clear();
                }
                self.found.push((item.clone(), source.clone()));
            }
        }
    }

    /// Looks at the objects of a JSON text, of which `source` is the origin.
    ///
    /// # Errors
    /// The text is no JSON of an object or a list of them.
    pub(crate) fn offer_json(
        &mut self,
        text: &str,
        source: &InputSource,
    ) -> Result<(), ManifestError> {
        for_each_item_in(text, source, &mut |item| {
            self.offer(&item, source);
            Ok(())
        })
    }

    /// Whether an object is a ReplicaSet that the named Deployment made.
    fn is_made_by_named(&self, value: &Value) -> bool {
        let Some(name) = &self.name else { return false };
        let owners = value["metadata"]["ownerReferences"].as_array();
        text(value, "kind") == "ReplicaSet"
            && name.kind.as_deref() == Some("Deployment")
            && name.namespace.as_deref() == Some(parts(value).1)
            && owners.into_iter().flatten().any(|owner| {
                text(owner, "kind") == "Deployment" && text(owner, "name") == name.name
            })
    }

    /// The pod of the object that is meant. `place` says where it was looked
    /// for.
    ///
    /// # Errors
    /// None or several are meant, or the object has no pod that can be read.
    pub(crate) fn finish(self, place: &str) -> Result<WorkloadPod, ManifestError> {
        let found = self.found.len();
        if found != 1 {
            let problem = self.problem();
            return Err(ManifestError::Choice(format!("{place}: {problem}")));
        }
        let revision = self.current_revision();
        let mut found = self.found.into_iter();
        let (item, source) = found.next().expect("there is one");
        let workload = workload_pod(item, &source)?;
        Ok(match revision {
            None => workload,
            Some((replica_set, source)) => WorkloadPod {
                pod: workload_pod(replica_set, &source)?.pod,
                ..workload
            },
        })
    }

    /// The ReplicaSet from which a Deployment makes its next pod: its template is
    /// the Deployment's, so its pod has the hash and the owner that the real one
    /// gets. None before the Deployment made one.
    ///
    /// Fields that no decision reads are not compared, so several may have the same
    /// template. Of these it is the youngest that is not scaled down.
    fn current_revision(&self) -> Option<(Item, InputSource)> {
        let [(deployment, _)] = &self.found[..] else {
            return None;
        };
        let template = deployment.value.pointer("/spec/template")?;
        let same = self.replica_sets.iter().filter(|(item, _)| {
            let other = item.value.pointer("/spec/template").cloned();
            other.map(without_hash).as_ref() == Some(template)
        });
        let current = same.max_by_key(|(item, _)| {
            let replicas = item.value.pointer("/spec/replicas").and_then(Value::as_i64);
            let created = text(&item.value["metadata"], "creationTimestamp");
            (replicas.unwrap_or(1) > 0, created)
        });
        current.cloned()
    }

    /// That the kind of the name is unknown, where nothing is of that kind.
    fn unknown_kind(&self) -> Option<String> {
        let kind = self.name.as_ref()?.kind.as_deref()?;
        let is_of = |choice: &String| {
            let (of, _) = choice.split_once('/').unwrap_or_default();
            of.eq_ignore_ascii_case(kind)
        };
        let is_there = self.choices.iter().any(is_of);
        ObjectName::unknown_kind(kind).filter(|_| !is_there)
    }

    /// Why not exactly one object is meant.
    fn problem(&self) -> String {
        let problem = self.miscount();
        match self.unknown_kind() {
            Some(unknown) => format!("{unknown}: {problem}"),
            None => problem,
        }
    }

    /// How many objects are meant, and which there are.
    fn miscount(&self) -> String {
        let count = self.found.len();
        let matching = self.found.iter().map(|(item, _)| choice(&item.value));
        let matching: Vec<String> = matching.collect();
        match &self.name {
            Some(name) if self.in_cluster && self.choices.is_empty() => {
                let kind = name.kind.as_deref().unwrap_or_default();
                format!("no {name} in it, nor any other {kind}")
            }
            _ if self.choices.is_empty() => {
                "no Pod or workload with a pod template in it".to_owned()
            }
            Some(name) if count == 0 => {
                format!("no {name} in it; there is {}", listed(&self.choices))
            }
            Some(name) => format!(
                "{count} objects called {name} in it; say which with --name KIND/NAMESPACE/NAME: {}",
                listed(&matching)
            ),
            None => format!(
                "{count} pods and workloads in it; say which with --name KIND/NAME: {}",
                listed(&matching)
            ),
        }
    }
}

/// Reads the pod of the one workload in `path` (`-`: standard input), or of
/// the one called `name`.
/// `namespace` overrides the workload's, whatever the file says.
pub(crate) fn read_workload(
    path: &Path,
    name: Option<&ObjectName>,
    namespace: Option<&str>,
) -> Result<WorkloadPod, ManifestError> {
    let mut finder = WorkloadFinder::of_file(name.cloned());
    let sources = expand(&[path.to_path_buf()])?;
    for (index, source) in (0..).zip(&sources) {
        for_each_item(source, index, &ProgressBar::hidden(), &mut |item| {
            finder.offer(&item, source);
            Ok(())
        })?;
    }
    let mut workload = finder.finish(&path.display().to_string())?;
    if let Some(namespace) = namespace {
        workload
            .name
            .push_str(&format!(", in namespace {namespace}"));
        let metadata = workload.pod.metadata.get_or_insert_default();
        metadata.namespace = namespace.to_owned();
    }
    Ok(workload)
}

/// A pod template without the label that tells the pods of ReplicaSets apart.
fn without_hash(mut template: Value) -> Value {
    let labels = template.pointer_mut("/metadata/labels");
    if let Some(labels) = labels.and_then(Value::as_object_mut) {
        Map::remove(labels, TEMPLATE_HASH);
    }
    template
}

/// `KIND/NAMESPACE/NAME` of an object, as `--name` takes it.
fn choice(value: &Value) -> String {
    let (kind, namespace, name) = parts(value);
    format!("{kind}/{namespace}/{name}")
}

/// Kind, namespace and name of an object.
fn parts(value: &Value) -> (&str, &str, &str) {
    let metadata = &value["metadata"];
    let namespace = names::namespace_or_default(text(metadata, "namespace"));
    (text(value, "kind"), namespace, text(metadata, "name"))
}

fn listed(choices: &[String]) -> String {
    let mut text = choices[..choices.len().min(LISTED_CHOICES)].join(", ");
    if choices.len() > LISTED_CHOICES {
        text.push_str(&format!(" and {} more", choices.len() - LISTED_CHOICES));
    }
    text
}
