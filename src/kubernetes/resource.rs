//! What can be asked of an API server: one definition of each resource.

use crate::snapshot::{ObjectKind, OwnerKind};

/// A resource, as an API server's addresses and rules name it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ApiResource {
    /// Kind of its objects.
    pub(crate) kind: &'static str,
    /// Group and version of its objects, e.g. `apps/v1`; `v1` of the core.
    pub(crate) api_version: &'static str,
    /// Its name in addresses and RBAC rules.
    pub(crate) plural: &'static str,
    /// Whether its objects are in namespaces.
    pub(crate) is_namespaced: bool,
}

const fn namespaced(
    kind: &'static str,
    api_version: &'static str,
    plural: &'static str,
) -> ApiResource {
    ApiResource {
        kind,
        api_version,
        plural,
        is_namespaced: true,
    }
}

static NODES: ApiResource = ApiResource {
    kind: "Node",
    api_version: "v1",
    plural: "nodes",
    is_namespaced: false,
};
static PODS: ApiResource = namespaced("Pod", "v1", "pods");
static SERVICES: ApiResource = namespaced("Service", "v1", "services");
static REPLICATION_CONTROLLERS: ApiResource =
    namespaced("ReplicationController", "v1", "replicationcontrollers");
static REPLICA_SETS: ApiResource = namespaced("ReplicaSet", "apps/v1", "replicasets");
static STATEFUL_SETS: ApiResource = namespaced("StatefulSet", "apps/v1", "statefulsets");

/// What a scheduler's configuration can be in.
pub(super) static CONFIG_MAPS: ApiResource = namespaced("ConfigMap", "v1", "configmaps");

/// Those that decisions do not read, and that have pod templates.
static OTHER_WORKLOADS: [ApiResource; 4] = [
    namespaced("Deployment", "apps/v1", "deployments"),
    namespaced("DaemonSet", "apps/v1", "daemonsets"),
    namespaced("Job", "batch/v1", "jobs"),
    namespaced("CronJob", "batch/v1", "cronjobs"),
];

impl ApiResource {
    /// Those that decisions read, nodes first.
    pub(crate) fn read_by_decisions() -> impl Iterator<Item = &'static Self> {
        ObjectKind::all().map(Self::of)
    }

    /// The one whose objects are of `kind`.
    pub(crate) fn of(kind: ObjectKind) -> &'static Self {
        match kind {
            ObjectKind::Node => &NODES,
            ObjectKind::Pod => &PODS,
            ObjectKind::Owner(OwnerKind::Service) => &SERVICES,
            ObjectKind::Owner(OwnerKind::ReplicationController) => &REPLICATION_CONTROLLERS,
            ObjectKind::Owner(OwnerKind::ReplicaSet) => &REPLICA_SETS,
            ObjectKind::Owner(OwnerKind::StatefulSet) => &STATEFUL_SETS,
        }
    }

    /// The kind of the objects that are all listed or watched at this address, if
    /// decisions read them.
    pub(super) fn listed_at(path: &str) -> Option<ObjectKind> {
        ObjectKind::all().find(|kind| path.ends_with(&Self::of(*kind).path(None)))
    }

    /// The one with this Kubernetes kind, e.g. `Deployment`; `None` when it is
    /// neither read by decisions nor a workload of Kubernetes' own.
    pub(crate) fn of_kind(kind: &str) -> Option<&'static Self> {
        let mut all = Self::read_by_decisions().chain(&OTHER_WORKLOADS);
        all.find(|resource| resource.kind == kind)
    }

    /// Its API group; empty for the core.
    pub(crate) fn group(&self) -> &'static str {
        self.api_version
            .split_once('/')
            .map_or("", |(group, _)| group)
    }

    /// The version within its group.
    pub(super) fn version(&self) -> &'static str {
        self.api_version
            .split_once('/')
            .map_or(self.api_version, |(_, version)| version)
    }

    /// The address of all its objects, or of those in a namespace.
    pub(super) fn path(&self, namespace: Option<&str>) -> String {
        let root = match self.group() {
            "" => "/api",
            _ => "/apis",
        };
        let (version, plural) = (self.api_version, self.plural);
        match namespace.filter(|_| self.is_namespaced) {
            Some(namespace) => format!("{root}/{version}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{version}/{plural}"),
        }
    }
}
