//! The resources that a pod requests of its node, summed as in Kubernetes, also by the rules of each
//! version while it is resized (`docs/semantics.md`, "Room").

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::amounts::{Amounts, Quantity, Sums};
use super::fit::HostPort;
use super::selector::set_of;
use super::version::{Resizing, VersionRules};
use super::violations::{Path, Violations};
use crate::limits::{Limit, Limits};
use crate::proto::v1;

/// The prefix of resource names that stand for a device class.
const BY_DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// The requests of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Requests {
    /// Amounts of resources.
    pub amounts: Amounts<i64>,
    /// Ports of the node, ascending, each once.
    pub ports: Box<[HostPort]>,
}

/// The requests of a pod that exists, by the rules of each version.
#[derive(Debug, Default)]
pub struct RequestsByVersion {
    /// The requests by the rules of the newest version.
    pub newest: Requests,
    /// The requests by the rules of other versions, where they differ.
    pub others: Vec<(Resizing, Requests)>,
}

impl Requests {
    /// Checks and sums up the requests of an incoming pod, whose spec is at `path`. Its status is
    /// not read, because the pod does not run yet.
    pub fn compile(
        spec: &v1::PodSpec,
        limits: &Limits,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Self {
        let before = faults.total();
        check_spec(spec, path, faults);
        if faults.total() > before {
            return Self::default();
        }
        let requests = Self::of(spec, None, Resizing::Sums);
        let list = path.field("containers.resources.requests");
        faults.within(
            list,
            limits,
            Limit::PodResources,
            requests.amounts.named.len(),
        );
        requests
    }

    /// Returns the requests of a pod that has only this container, which has to be valid.
    pub fn of_one(container: v1::Container) -> Self {
        let spec = v1::PodSpec {
            containers: vec![container],
            ..v1::PodSpec::default()
        };
        Self::of(&spec, None, Resizing::Sums)
    }

    /// Returns the requests of a valid pod. While its node resizes the pod, each is the larger of the
    /// present and the wanted amount.
    fn of(spec: &v1::PodSpec, status: Option<&v1::PodStatus>, resizing: Resizing) -> Self {
        let mut all = match status {
            Some(status) => sum_while_resized(spec, status, resizing),
            None => {
                let mut all =
                    sum_of_containers(spec, |container, _| Sums::of(container.resources.as_ref()));
                all.replace_of_pod(Sums::of(spec.resources.as_ref()));
                all
            }
        };
        all.add_all(&Sums::from(&spec.overhead));
        Self {
            amounts: all.rounded(),
            ports: ports(spec),
        }
    }

    /// Returns the number of requested ports and named resources. For most pods it is 0.
    pub fn rare_len(&self) -> usize {
        self.amounts.named.len() + self.ports.len()
    }

    /// The names of the extended resources that the pod requests, for example those of device
    /// plugins.
    pub fn extended(&self) -> impl Iterator<Item = &Arc<str>> {
        let named = self.amounts.named.iter().filter(|(_, amount)| *amount > 0);
        named.map(|(name, _)| name).filter(|name| {
            name.starts_with(BY_DEVICE_CLASS)
                || name.contains('/') && !name.contains("kubernetes.io/")
        })
    }

    /// Returns whether the pod requests nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A container with the same requests; `None` if there are none.
    pub fn to_wire(&self) -> Option<v1::Container> {
        (!self.is_empty()).then(|| v1::Container {
            ports: self.ports.iter().map(HostPort::to_wire).collect(),
            resources: Some(v1::ResourceRequirements {
                requests: self.amounts.to_wire(),
            }),
            ..v1::Container::default()
        })
    }
}

impl RequestsByVersion {
    /// Checks and sums up a pod that exists, whose field is at `path`.
    pub fn compile(pod: &v1::Pod, path: Path<'_>, faults: &mut Violations) -> Self {
        let before = faults.total();
        check_existing(pod, path, faults);
        match faults.total() == before {
            true => Self::of(pod),
            false => Self::default(),
        }
    }

    /// Sums up a valid pod that exists.
    pub fn of(pod: &v1::Pod) -> Self {
        let Some(spec) = &pod.spec else {
            return Self::default();
        };
        let resizing = VersionRules::of(None).resizing;
        let status = pod.status.as_ref();
        let newest = Requests::of(spec, status, resizing);
        let mut others = Vec::new();
        if status.is_some_and(tells_of_resources) {
            let rules = VersionRules::all().map(|rules| rules.resizing);
            let rules = rules.filter(|other| *other != resizing);
            let all = rules.map(|other| (other, Requests::of(spec, status, other)));
            others.extend(all.filter(|(_, requests)| *requests != newest));
        }
        Self { newest, others }
    }
}

/// The host ports that containers and sidecars take.
fn ports(spec: &v1::PodSpec) -> Box<[HostPort]> {
    let sidecars = spec.init_containers.iter().filter(|c| is_sidecar(c));
    let containers = spec.containers.iter().chain(sidecars);
    let ports = containers.flat_map(|container| &container.ports);
    set_of(ports.filter_map(HostPort::of))
}

fn check_spec(spec: &v1::PodSpec, path: Path<'_>, faults: &mut Violations) {
    for (name, list) in [
        ("containers", &spec.containers),
        ("initContainers", &spec.init_containers),
    ] {
        for (path, container) in path.field(name).each(list) {
            check_resources(container.resources.as_ref(), path, faults);
            for (path, port) in path.field("ports").each(&container.ports) {
                HostPort::check(port, path, faults);
            }
        }
    }
    check_resources(spec.resources.as_ref(), path, faults);
    check_quantities(&spec.overhead, path.field("overhead"), faults);
}

fn check_existing(pod: &v1::Pod, path: Path<'_>, faults: &mut Violations) {
    if let Some(spec) = &pod.spec {
        check_spec(spec, path.field("spec"), faults);
    }
    let Some(status) = &pod.status else { return };
    let path = path.field("status");
    check_resources(status.resources.as_ref(), path, faults);
    let allocated = path.field("allocatedResources");
    check_quantities(&status.allocated_resources, allocated, faults);
    for (name, list) in [
        ("containerStatuses", &status.container_statuses),
        ("initContainerStatuses", &status.init_container_statuses),
    ] {
        for (path, status) in path.field(name).each(list) {
            check_resources(status.resources.as_ref(), path, faults);
            let allocated = path.field("allocatedResources");
            check_quantities(&status.allocated_resources, allocated, faults);
        }
    }
}

fn check_resources(
    resources: Option<&v1::ResourceRequirements>,
    path: Path<'_>,
    faults: &mut Violations,
) {
    let path = path.field("resources.requests");
    check_quantities(requests_of(resources), path, faults);
}

/// Checks quantities by name. As in Kubernetes, any name is allowed.
pub(super) fn check_quantities(
    wire: &BTreeMap<String, v1::Quantity>,
    path: Path<'_>,
    faults: &mut Violations,
) {
    for (name, quantity) in wire {
        let text = &quantity.string;
        if Quantity::parse(text).is_none() {
            let rule = "must be a quantity of at least 0, such as 500m or 1.5Gi";
            faults.add(path, format!("{text:?} of {name:?} {rule}"));
        }
    }
}

/// Returns whether an init container is a sidecar, which runs as long as the pod.
fn is_sidecar(container: &v1::Container) -> bool {
    container.restart_policy == "Always"
}

/// Returns the requests of a container or a pod, by name.
fn requests_of(resources: Option<&v1::ResourceRequirements>) -> &BTreeMap<String, v1::Quantity> {
    static NONE: BTreeMap<String, v1::Quantity> = BTreeMap::new();
    resources.map_or(&NONE, |resources| &resources.requests)
}

impl Sums {
    /// Returns the sums of a container's or a pod's requests.
    pub fn of(resources: Option<&v1::ResourceRequirements>) -> Self {
        requests_of(resources).into()
    }
}

/// Sums up the containers of a pod. Per resource, this is the larger of two sums: of the containers
/// that run as long as the pod, and of those that run at once while it starts. `figure` returns the
/// requests of a container; its flag is true if the container runs as long as the pod.
fn sum_of_containers(spec: &v1::PodSpec, figure: impl Fn(&v1::Container, bool) -> Sums) -> Sums {
    let mut all = Sums::default();
    for container in &spec.containers {
        all.add_all(&figure(container, true));
    }
    let (mut sidecars, mut starting) = (Sums::default(), Sums::default());
    for container in &spec.init_containers {
        if is_sidecar(container) {
            let requests = figure(container, true);
            all.add_all(&requests);
            sidecars.add_all(&requests);
        } else {
            // An ordinary init container runs beside the sidecars that were started before it.
            let mut beside = sidecars.clone();
            beside.add_all(&figure(container, false));
            starting.raise_to(beside);
        }
    }
    all.raise_to(starting);
    all
}

/// The status that a node reports for a pod that it runs.
struct Running<'a> {
    status: &'a v1::PodStatus,
    /// The statuses of the containers, by name.
    containers: HashMap<&'a str, &'a v1::ContainerStatus>,
    /// True if the node refused the resources that the spec asks for.
    is_infeasible: bool,
}

/// Returns whether the status mentions resources or a resize. Only then can versions differ.
fn tells_of_resources(status: &v1::PodStatus) -> bool {
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
fn sum_while_resized(spec: &v1::PodSpec, status: &v1::PodStatus, resizing: Resizing) -> Sums {
    let running = Running::of(status);
    match resizing {
        Resizing::Sums => running.largest_of_sums(spec),
        Resizing::Containers | Resizing::ContainersAndPod => {
            let mut all = sum_of_containers(spec, |container, stays| {
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
        let mut all = self.wanted(sum_of_containers(spec, of_spec));
        if allocated.is_empty() || actual.is_empty() {
            all.raise_to(sum_of_containers(spec, |container, _| {
                self.allocated(container)
            }));
            all.raise_to(sum_of_containers(spec, |container, _| {
                self.actual(container)
            }));
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
