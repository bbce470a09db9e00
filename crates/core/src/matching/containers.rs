//! The containers of a pod and the sum of their requests.

use std::collections::BTreeMap;

use super::amounts::Sums;
use crate::proto::v1;

/// Returns whether an init container is a sidecar, which runs as long as the pod.
pub(super) fn is_sidecar(container: &v1::Container) -> bool {
    container.restart_policy == "Always"
}

/// Returns the requests of a container or a pod, by name.
pub(super) fn requests_of(
    resources: Option<&v1::ResourceRequirements>,
) -> &BTreeMap<String, v1::Quantity> {
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
pub(super) fn sum(spec: &v1::PodSpec, figure: impl Fn(&v1::Container, bool) -> Sums) -> Sums {
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
