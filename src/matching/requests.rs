//! What a pod requests of the node that it runs on, summed as Kubernetes sums
//! it (`docs/semantics.md`, "Room").

use std::collections::{BTreeMap, HashMap};

use super::amounts::{self, Amounts, Sums};
use super::host_ports::HostPort;
use super::quantity::Quantity;
use super::violations::{Path, Violations};
use crate::account::heap;
use crate::proto::v1;

/// The policy that makes a sidecar of an init container.
const ALWAYS: &str = "Always";

/// What a pod requests of its node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Requests {
    /// Amounts of resources.
    pub amounts: Amounts<i64>,
    /// Ports of the node, ascending, each once.
    pub ports: Box<[HostPort]>,
}

/// What a node says of the containers of a pod that it runs, by name.
#[derive(Default)]
struct Running<'a> {
    containers: HashMap<&'a str, &'a v1::ContainerStatus>,
    /// Whether the node refused what the spec asks for now.
    is_infeasible: bool,
}

impl Requests {
    /// Checks and sums up the pod of a request, whose spec is at `path`. What its
    /// status says is not read: it runs nowhere yet.
    pub fn compile(spec: &v1::PodSpec, path: Path<'_>, faults: &mut Violations) -> Self {
        let before = faults.total();
        check_spec(spec, path, faults);
        match faults.total() == before {
            true => Self::of(spec, &Running::default()),
            false => Self::default(),
        }
    }

    /// Checks and sums up a pod that exists, whose field is at `path`.
    pub fn compile_existing(pod: &v1::Pod, path: Path<'_>, faults: &mut Violations) -> Self {
        let before = faults.total();
        check_existing(pod, path, faults);
        match faults.total() == before {
            true => Self::of_existing(pod),
            false => Self::default(),
        }
    }

    /// What a valid pod that exists requests: while its node resizes it, the larger
    /// of what it has and what it shall have.
    pub fn of_existing(pod: &v1::Pod) -> Self {
        let Some(spec) = &pod.spec else {
            return Self::default();
        };
        let running = pod.status.as_ref().map(Running::of);
        Self::of(spec, &running.unwrap_or_default())
    }

    /// What a pod with this one valid container requests.
    pub fn of_one(container: v1::Container) -> Self {
        let spec = v1::PodSpec {
            containers: vec![container],
            ..v1::PodSpec::default()
        };
        Self::of(&spec, &Running::default())
    }

    fn of(spec: &v1::PodSpec, running: &Running<'_>) -> Self {
        if spec.containers.is_empty()
            && spec.init_containers.is_empty()
            && spec.overhead.is_empty()
            && spec.resources.is_none()
        {
            return Self::default();
        }
        Self {
            amounts: sum(spec, running).rounded(),
            ports: ports(spec),
        }
    }

    /// How many things it requests of which most pods request none.
    pub fn rare_len(&self) -> usize {
        self.amounts.named.len() + self.ports.len()
    }

    /// Whether it requests nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A container that requests the same; none where there is nothing to
    /// request.
    pub fn to_wire(&self) -> Option<v1::Container> {
        (!self.is_empty()).then(|| v1::Container {
            ports: self.ports.iter().map(HostPort::to_wire).collect(),
            resources: Some(v1::ResourceRequirements {
                requests: self.amounts.to_wire(),
            }),
            ..v1::Container::default()
        })
    }

    /// What it takes on the heap, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let ports = self.ports.iter().map(HostPort::heap_bytes);
        self.amounts.heap_bytes() + heap::list::<HostPort>(self.ports.len()) + ports.sum::<usize>()
    }
}

/// The exact sums of a pod's requests.
fn sum(spec: &v1::PodSpec, running: &Running<'_>) -> Sums {
    let mut all = Sums::default();
    for container in &spec.containers {
        all.add_all(&running.requests(container));
    }
    let (mut sidecars, mut starting) = (Sums::default(), Sums::default());
    for container in &spec.init_containers {
        if is_sidecar(container) {
            let requests = running.requests(container);
            all.add_all(&requests);
            sidecars.add_all(&requests);
        } else {
            // It runs beside the sidecars that were started before it.
            let mut beside = sidecars.clone();
            beside.add(requests_of(container.resources.as_ref()));
            starting.raise_to(beside);
        }
    }
    all.raise_to(starting);
    let of_pod = requests_of(spec.resources.as_ref());
    for (resource, quantity) in amounts::read(of_pod) {
        if resource.is_of_pods() {
            all.replace(resource, quantity);
        }
    }
    all.add(&spec.overhead);
    all
}

/// The ports that containers and sidecars take of the node.
fn ports(spec: &v1::PodSpec) -> Box<[HostPort]> {
    let sidecars = spec.init_containers.iter().filter(|c| is_sidecar(c));
    let containers = spec.containers.iter().chain(sidecars);
    let ports = containers.flat_map(|container| &container.ports);
    let mut ports: Vec<HostPort> = ports.filter_map(HostPort::of).collect();
    ports.sort_unstable();
    ports.dedup();
    ports.into()
}

/// Whether an init container runs as long as the pod.
fn is_sidecar(container: &v1::Container) -> bool {
    container.restart_policy == ALWAYS
}

fn requests_of(resources: Option<&v1::ResourceRequirements>) -> &BTreeMap<String, v1::Quantity> {
    static NONE: BTreeMap<String, v1::Quantity> = BTreeMap::new();
    resources.map_or(&NONE, |resources| &resources.requests)
}

impl<'a> Running<'a> {
    fn of(status: &'a v1::PodStatus) -> Self {
        let all = status.container_statuses.iter();
        let all = all.chain(&status.init_container_statuses);
        let told = all.filter(|container| container.resources.is_some());
        let resize = status
            .conditions
            .iter()
            .find(|c| c.r#type == "PodResizePending");
        Self {
            containers: told
                .map(|container| (&*container.name, container))
                .collect(),
            is_infeasible: resize.is_some_and(|condition| condition.reason == "Infeasible"),
        }
    }

    /// What a container requests that runs as long as the pod.
    fn requests(&self, container: &v1::Container) -> Sums {
        let wanted = requests_of(container.resources.as_ref());
        let mut sums = Sums::default();
        let Some(status) = self.containers.get(&*container.name) else {
            sums.add(wanted);
            return sums;
        };
        let mut raise = |to: &BTreeMap<String, v1::Quantity>| {
            let mut other = Sums::default();
            other.add(to);
            sums.raise_to(other);
        };
        if !self.is_infeasible {
            raise(wanted);
        }
        raise(requests_of(status.resources.as_ref()));
        raise(&status.allocated_resources);
        sums
    }
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
    let path = path.field("resources");
    check_quantities(requests_of(resources), path.field("requests"), faults);
}

/// Checks quantities by name. As in Kubernetes, any name will do.
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
