//! The resources that a pod requests of its node, summed as in Kubernetes (`docs/semantics.md`,
//! "Room").

use std::collections::BTreeMap;
use std::sync::Arc;

use super::amounts::{Amounts, Sums};
use super::containers::{is_sidecar, requests_of, sum};
use super::host_ports::HostPort;
use super::quantity::Quantity;
use super::resizing;
use super::sets::set_of;
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
            Some(status) => resizing::sum(spec, status, resizing),
            None => {
                let mut all = sum(spec, |container, _| Sums::of(container.resources.as_ref()));
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
        if status.is_some_and(resizing::tells_of_resources) {
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
