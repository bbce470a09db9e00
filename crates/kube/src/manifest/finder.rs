//! Finds the pod or workload that a question is about: the only one of a file, or the one with a
//! name.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::admission::Admission;
use super::controller::ReplicaSets;
use super::document::for_each_item;
use super::item::{Item, text};
use super::naming::ObjectName;
use super::object;
use super::places::CustomResources;
use super::scaling;
use super::source::{InputSource, ManifestError, expand};
use super::templates::{Template, templates_of, unapplied};
use super::workload::{WorkloadPod, path_of_kind, selector, template_paths, workload_pod};
use super::workload_ref::{is_only_template, is_referable, referred, resolved};
use crate::misspelt;
use evenkeel_core::matching::{names, revisions::has_replica_sets};
use evenkeel_core::proto::v1::{Change, LabelSelector, RevisionSize};

/// A function that takes from a finder the pods that a command decides about. The text is the place
/// of the search, for messages.
pub type FindPods = fn(&WorkloadFinder, &str) -> Result<Vec<WorkloadPod>, ManifestError>;

/// The number of choices that an error lists.
const LISTED_CHOICES: usize = 20;

/// Searches for the object that a question is about.
#[derive(Debug, Default)]
pub struct WorkloadFinder {
    name: Option<ObjectName>,
    /// True if the objects are those of a cluster, with thousands of others, not a file for the
    /// question.
    in_cluster: bool,
    found: Vec<Item>,
    /// The objects that the user could have meant.
    choices: Vec<String>,
    /// The ReplicaSets of the named Deployment or Rollout.
    replica_sets: ReplicaSets,
    /// The workloads whose template a Rollout may have.
    referable: Vec<Value>,
    /// The Services of a file.
    services: Vec<Item>,
    admission: Admission,
    /// What the files say that has no effect here.
    unapplied: Vec<ManifestError>,
}

impl WorkloadFinder {
    /// A finder in a cluster, by kind, namespace and name.
    pub fn in_cluster(name: ObjectName) -> Self {
        Self {
            name: Some(name),
            in_cluster: true,
            ..Self::default()
        }
    }

    /// Searches the file or directory `path` (`-`: standard input), which contains one workload or
    /// one of that name. `namespace` overrides the namespace in the file.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(
        path: &Path,
        name: Option<&ObjectName>,
        namespace: Option<&str>,
    ) -> Result<Self, ManifestError> {
        let mut finder = Self {
            name: name.cloned(),
            ..Self::default()
        };
        let sources = expand(&[path.to_path_buf()])?;
        for_each_item(sources, &mut |item| {
            finder.unapplied.extend(unapplied(&item));
            finder.offer(&item);
            Ok(())
        })?;
        if name.is_none() {
            finder.leave_out_templates();
        }
        if let Some(namespace) = namespace {
            finder.move_to(namespace);
        }
        Ok(finder)
    }

    /// Leaves out the workloads without pods that are there for the template of a found Rollout.
    fn leave_out_templates(&mut self) {
        let found = self.found.iter().map(|item| item.value.clone());
        let rollouts: Vec<Value> = found.filter(|it| referred(it).is_some()).collect();
        self.found.retain(|item| {
            let is_of = |rollout: &Value| resolved(rollout, &item.value).is_some();
            !is_only_template(&item.value) || !rollouts.iter().any(is_of)
        });
    }

    /// The object, with the template and selector that it refers to.
    fn whole(&self, item: &Item) -> Item {
        let mut item = item.clone();
        let mut referable = self.referable.iter();
        if let Some(resolved) = referable.find_map(|other| resolved(&item.value, other)) {
            item.value = resolved;
        }
        item
    }

    /// What the files say that has no effect on the answer.
    pub fn unapplied(&self) -> &[ManifestError] {
        &self.unapplied
    }

    /// The kind and name of the workload that has the template of the found object, if that is another.
    pub fn referred(&self) -> Option<(&str, &str)> {
        referred(&self.found.first()?.value)
    }

    /// The namespace of the first found object, else the default namespace.
    pub fn namespace(&self) -> &str {
        let found = self.found.first();
        found.map_or(names::DEFAULT_NAMESPACE, |item| parts(&item.value).1)
    }

    /// The templates of the found objects, each with its source.
    pub fn templates(&self) -> impl Iterator<Item = (Template, &InputSource)> {
        self.found.iter().flat_map(|item| {
            let templates = templates_of(self.whole(item), &CustomResources::default());
            templates.map(move |template| (template, &*item.origin.source))
        })
    }

    /// Adds the objects that admission reads when a pod is created.
    pub fn admit_by(&mut self, admission: Admission) {
        self.admission.add_missing(admission);
    }

    /// Moves the found objects of a file, and the Services of their namespaces, to another
    /// namespace.
    fn move_to(&mut self, namespace: &str) {
        let of = |item: &Item| parts(&item.value).1.to_owned();
        let former: BTreeSet<String> = self.found.iter().map(of).collect();
        let beside = self.services.iter_mut();
        let beside = beside.filter(|service| former.contains(parts(&service.value).1));
        let moved = self.found.iter_mut().chain(beside);
        let moved = moved.map(|item| &mut item.value);
        for value in moved.chain(&mut self.referable) {
            value["metadata"]["namespace"] = namespace.into();
        }
    }

    /// Considers an object.
    pub(super) fn offer(&mut self, item: &Item) {
        let value = &item.value;
        self.admission.offer(value);
        let (kind, namespace, called) = parts(value);
        let is_called = |name: &ObjectName| name.is_of(kind, namespace, called);
        let is_named = self.name.as_ref().is_none_or(is_called);
        let wanted = |kind: &str| {
            let wanted = self.name.as_ref().and_then(|name| name.kind.as_deref());
            wanted.is_some_and(|wanted| wanted.eq_ignore_ascii_case(kind))
        };
        let is_choice = wanted(kind);
        if is_referable(kind) && (wanted("Rollout") || !self.in_cluster) {
            self.referable.push(value.clone());
        }
        if self.in_cluster {
            self.offer_replica_set(item);
            // Only objects of the wanted kind are choices. A list of thousands of pods would not
            // help a question about a Deployment.
            if !is_named && !is_choice {
                return;
            }
        } else if kind == "Service" {
            self.services.push(item.clone());
        }
        if path_of_kind(kind).is_some() || !template_paths(value).is_empty() {
            self.choices.push(choice(value));
            if is_named {
                if self.in_cluster {
                    // In a cluster these are the same object, and the last occurrence counts.
                    self.found.clear();
                }
                self.found.push(item.clone());
            }
        }
    }

    /// Considers an object of a cluster.
    pub fn offer_object(&mut self, object: Value, source: &InputSource) {
        self.offer(&Item::listed(object, &Arc::new(source.clone())));
    }

    /// Keeps an object if it is a ReplicaSet of the named Deployment or Rollout.
    fn offer_replica_set(&mut self, item: &Item) {
        if let Some(name) = &self.name
            && name.kind.as_deref().is_some_and(has_replica_sets)
            && name.namespace.is_some()
        {
            self.replica_sets.offer(item, name);
        }
    }

    /// The selector of the named object, if it was found and has one.
    pub fn selector(&self) -> Option<LabelSelector> {
        let [item] = &*self.found else {
            return None;
        };
        selector(&self.whole(item).value)
    }

    /// The pods that each revision of the named object keeps when it is scaled down by `count`, if
    /// its controller decides that by revisions and enough was found to know it.
    pub fn revision_sizes(&self, count: i32) -> Vec<RevisionSize> {
        match &*self.found {
            [item] => scaling::sizes(&item.value, self.replica_sets.all(), count),
            _ => Vec::new(),
        }
    }

    /// The pod of the requested object. `place` is the place of the search, for messages.
    ///
    /// # Errors
    /// No object or several match, or the object has no pod that can be read.
    pub fn finish(&self, place: &str) -> Result<WorkloadPod, ManifestError> {
        let [one] = &*self.found else {
            let unknown = self.unknown_kind();
            let unknown = unknown.map_or_else(String::new, |unknown| format!("{unknown}: "));
            let miscount = self.miscount();
            let message = format!("{place}: {unknown}{miscount}");
            return Err(ManifestError::Choice(message));
        };
        self.pod_of(one)
    }

    /// As [`Self::finish`], in the form of [`FindPods`].
    ///
    /// # Errors
    /// The errors of [`Self::finish`].
    pub fn finish_one(&self, place: &str) -> Result<Vec<WorkloadPod>, ManifestError> {
        Ok(vec![self.finish(place)?])
    }

    /// The pods of the found objects: one, or several workloads that have replicas. `place` is the
    /// place of the search, for messages.
    ///
    /// # Errors
    /// The errors of [`Self::finish`]. It is also an error if several objects match and one of them
    /// has no replicas.
    pub fn finish_all(&self, place: &str) -> Result<Vec<WorkloadPod>, ManifestError> {
        let has_replicas = |item: &Item| {
            let kind = parts(&item.value).0;
            matches!(
                kind,
                "CloneSet"
                    | "Deployment"
                    | "ReplicaSet"
                    | "ReplicationController"
                    | "Rollout"
                    | "StatefulSet"
            )
        };
        if self.found.len() < 2 || !self.found.iter().all(has_replicas) {
            return Ok(vec![self.finish(place)?]);
        }
        self.found.iter().map(|found| self.pod_of(found)).collect()
    }

    fn pod_of(&self, item: &Item) -> Result<WorkloadPod, ManifestError> {
        let item = &self.whole(item);
        let mut workload = workload_pod(item.clone(), &self.admission)?;
        if let Some(replica_set) = self.replica_sets.current(item) {
            workload.pod = workload_pod(replica_set, &self.admission)?.pod;
        } else if has_replica_sets(&workload.object.kind) {
            let next = self.replica_sets.next(item, &self.admission)?;
            workload.next_revision = Some(next);
        }
        workload.beside = self.beside(item)?;
        Ok(workload)
    }

    /// Returns the objects that default constraints read and that a file creates together with a
    /// workload.
    fn beside(&self, item: &Item) -> Result<Vec<Change>, ManifestError> {
        let mut beside = Vec::new();
        if self.in_cluster {
            return Ok(beside);
        }
        let (kind, namespace, _) = parts(&item.value);
        if let "ReplicaSet" | "StatefulSet" | "ReplicationController" = kind {
            beside.push(object::change(item.clone())?);
        }
        for service in &self.services {
            if parts(&service.value).1 == namespace {
                beside.push(object::change(service.clone())?);
            }
        }
        Ok(beside)
    }

    /// The message that the kind of the name is unknown, if no object has that kind.
    fn unknown_kind(&self) -> Option<String> {
        let kind = self.name.as_ref()?.kind.as_deref()?;
        let is_of = |choice: &String| {
            let (of, _) = choice.split_once('/').unwrap_or_default();
            of.eq_ignore_ascii_case(kind)
        };
        let is_there = self.choices.iter().any(is_of);
        ObjectName::unknown_kind(kind).filter(|_| !is_there)
    }

    /// Says how many objects match, and lists them.
    fn miscount(&self) -> String {
        let count = self.found.len();
        let matching = self.found.iter().map(|item| choice(&item.value));
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
                let known = self.choices.iter().map(String::as_str);
                format!(
                    "no {name} in it{}",
                    misspelt::nearest(&name.to_string(), known)
                )
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
