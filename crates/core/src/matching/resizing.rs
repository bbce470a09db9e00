//! The requests of a pod that may be in the middle of a resize, by the rules of each version
//! (`docs/semantics.md`, "Room").

use std::collections::{BTreeMap, HashMap};

use super::amounts::Sums;
use super::containers::{self, requests_of};
use super::version::Resizing;
use crate::proto::v1;

/// The status that a node reports for a pod that it runs.
struct Running<'a> {
    status: &'a v1::PodStatus,
    /// The statuses of the containers, by name.
    containers: HashMap<&'a str, &'a v1::ContainerStatus>,
    /// True if the node refused the resources that the spec asks for.
    is_infeasible: bool,
}

/// Returns whether the status mentions resources or a resize. Only then can versions differ.
pub(super) fn tells_of_resources(status: &v1::PodStatus) -> bool {
    let all = status.container_statuses.iter();
    let mut all = all.chain(&status.init_container_statuses);
    status.resources.is_some()
        || !status.allocated_resources.is_empty()
        || is_infeasible(status)
        || all.any(|it| it.resources.is_some() || !it.allocated_resources.is_empty())
}

/// Returns whether the node has refused for good to resize the pod.
fn is_infeasible(status: &v1::PodStatus) -> bool {
    let mut conditions = status.conditions.iter();
    let pending = conditions.find(|condition| condition.r#type == "PodResizePending");
    pending.is_some_and(|condition| condition.reason == "Infeasible")
}

/// The exact sums of the requests of a pod with this status, without overhead.
pub(super) fn sum(spec: &v1::PodSpec, status: &v1::PodStatus, resizing: Resizing) -> Sums {
    let running = Running::of(status);
    match resizing {
        Resizing::Sums => running.largest_of_sums(spec),
        Resizing::Containers | Resizing::ContainersAndPod => {
            let mut all = containers::sum(spec, |container, stays| {
                running.largest_of(container, stays)
            });
            let with_pod = resizing == Resizing::ContainersAndPod;
            all.replace_of_pod(running.of_pod_until_1_36(spec, with_pod));
            all
        }
    }
}

impl<'a> Running<'a> {
    fn of(status: &'a v1::PodStatus) -> Self {
        // If two entries have the same name, the first counts. Ordinary containers come first.
        let all = status.container_statuses.iter();
        let all = all.chain(&status.init_container_statuses).rev();
        Self {
            status,
            containers: all.map(|entry| (&*entry.name, entry)).collect(),
            is_infeasible: is_infeasible(status),
        }
    }

    /// Returns the requests of the spec, unless the node has refused them.
    fn wanted(&self, of_spec: Sums) -> Sums {
        match self.is_infeasible {
            true => Sums::default(),
            false => of_spec,
        }
    }

    /// Returns the requests of a container: the largest of the spec, the actual and the allocated
    /// resources. The status is ignored for ordinary init containers, and if it has no `resources`.
    fn largest_of(&self, container: &v1::Container, stays: bool) -> Sums {
        let wanted = Sums::of(container.resources.as_ref());
        let entry = self.containers.get(&*container.name);
        let entry = entry.filter(|entry| entry.resources.is_some());
        match entry {
            Some(entry) if stays => {
                let mut largest = self.wanted(wanted);
                largest.raise_to(Sums::of(entry.resources.as_ref()));
                largest.raise_to((&entry.allocated_resources).into());
                largest
            }
            _ => wanted,
        }
    }

    /// Returns the requests of the pod as a whole, for the resources that its spec names.
    fn of_pod_until_1_36(&self, spec: &v1::PodSpec, is_resized: bool) -> Sums {
        let named = requests_of(spec.resources.as_ref());
        match is_resized && self.status.resources.is_some() {
            false => named.into(),
            true => {
                let mut largest = self.largest_of_pod(named);
                largest.restrict_to(named);
                largest
            }
        }
    }

    /// The largest of the wanted, actual and allocated resources of the pod as a whole.
    fn largest_of_pod(&self, named: &BTreeMap<String, v1::Quantity>) -> Sums {
        let mut largest = self.wanted(named.into());
        largest.raise_to(Sums::of(self.status.resources.as_ref()));
        largest.raise_to((&self.status.allocated_resources).into());
        largest
    }

    /// The largest of three sums: of the spec, of the allocated resources, and of the actual
    /// resources of the containers. Figures of the pod as a whole, if there are any, replace these
    /// sums.
    fn largest_of_sums(&self, spec: &v1::PodSpec) -> Sums {
        let allocated = &self.status.allocated_resources;
        let actual = requests_of(self.status.resources.as_ref());
        let of_spec = |container: &v1::Container, _| Sums::of(container.resources.as_ref());
        let mut all = self.wanted(containers::sum(spec, of_spec));
        if allocated.is_empty() || actual.is_empty() {
            all.raise_to(containers::sum(spec, |container, _| {
                self.allocated(container)
            }));
            all.raise_to(containers::sum(spec, |container, _| self.actual(container)));
        } else {
            all.raise_to(allocated.into());
            all.raise_to(actual.into());
        }
        let named = requests_of(spec.resources.as_ref());
        if Sums::from(named).has_of_pod() {
            all.replace_of_pod(match self.status.resources {
                Some(_) => self.largest_of_pod(named),
                None => named.into(),
            });
        }
        all
    }

    fn allocated(&self, container: &v1::Container) -> Sums {
        let entry = self.containers.get(&*container.name);
        match entry {
            Some(entry) if !entry.allocated_resources.is_empty() => {
                (&entry.allocated_resources).into()
            }
            _ => self.wanted(Sums::of(container.resources.as_ref())),
        }
    }

    fn actual(&self, container: &v1::Container) -> Sums {
        let entry = self.containers.get(&*container.name);
        let actual = requests_of(entry.and_then(|entry| entry.resources.as_ref()));
        match actual.is_empty() {
            true => self.allocated(container),
            false => actual.into(),
        }
    }
}
