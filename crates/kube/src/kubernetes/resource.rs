//! The definitions of the resources of an API server.

use evenkeel_core::snapshot::ObjectKind;

/// A resource of an API server.
#[derive(Debug, PartialEq, Eq)]
pub struct ApiResource {
    /// The kind of its objects.
    pub kind: &'static str,
    /// The group and version of its objects, e.g. `apps/v1`, or `v1` in the core group.
    pub api_version: &'static str,
    /// The resource's name in addresses and RBAC rules.
    pub plural: &'static str,
    /// True if its objects are in namespaces.
    pub is_namespaced: bool,
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

const fn cluster_wide(
    kind: &'static str,
    api_version: &'static str,
    plural: &'static str,
) -> ApiResource {
    ApiResource {
        is_namespaced: false,
        ..namespaced(kind, api_version, plural)
    }
}

/// The kind that can contain a scheduler's configuration.
pub(super) static CONFIG_MAPS: ApiResource = namespaced("ConfigMap", "v1", "configmaps");

/// The part of a pod that evicts it.
pub(super) static EVICTIONS: ApiResource = namespaced("Eviction", "v1", "pods/eviction");

/// The kinds that decisions read, and other kinds of workloads.
static RESOURCES: [ApiResource; 18] = [
    cluster_wide("Node", "v1", "nodes"),
    cluster_wide("Namespace", "v1", "namespaces"),
    namespaced("Pod", "v1", "pods"),
    namespaced("Service", "v1", "services"),
    namespaced("ReplicationController", "v1", "replicationcontrollers"),
    namespaced("ReplicaSet", "apps/v1", "replicasets"),
    namespaced("StatefulSet", "apps/v1", "statefulsets"),
    namespaced("PodDisruptionBudget", "policy/v1", "poddisruptionbudgets"),
    namespaced("PersistentVolumeClaim", "v1", "persistentvolumeclaims"),
    cluster_wide("PersistentVolume", "v1", "persistentvolumes"),
    cluster_wide("StorageClass", "storage.k8s.io/v1", "storageclasses"),
    namespaced("Deployment", "apps/v1", "deployments"),
    namespaced("DaemonSet", "apps/v1", "daemonsets"),
    namespaced("Job", "batch/v1", "jobs"),
    namespaced("CronJob", "batch/v1", "cronjobs"),
    namespaced("PodTemplate", "v1", "podtemplates"),
    namespaced("Rollout", "argoproj.io/v1alpha1", "rollouts"),
    namespaced("CloneSet", "apps.kruise.io/v1alpha1", "clonesets"),
];

/// The kinds that admission reads when a pod is created.
pub static READ_BY_ADMISSION: [ApiResource; 3] = [
    namespaced("LimitRange", "v1", "limitranges"),
    cluster_wide("RuntimeClass", "node.k8s.io/v1", "runtimeclasses"),
    cluster_wide("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses"),
];

impl ApiResource {
    /// The resource whose objects are of `kind`.
    pub fn of(kind: ObjectKind) -> &'static Self {
        Self::of_kind(kind.as_str()).expect("each kind has a resource")
    }

    /// The resource of this kind, e.g. `Deployment`. `None` if decisions do not read the kind and
    /// it is no workload of Kubernetes.
    pub fn of_kind(kind: &str) -> Option<&'static Self> {
        RESOURCES.iter().find(|resource| resource.kind == kind)
    }

    /// The path of all its objects, or of those in a namespace.
    pub(super) fn path(&self, namespace: Option<&str>) -> String {
        let root = match self.api_version.contains('/') {
            true => "/apis",
            false => "/api",
        };
        let (version, plural) = (self.api_version, self.plural);
        match namespace.filter(|_| self.is_namespaced) {
            Some(namespace) => format!("{root}/{version}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{version}/{plural}"),
        }
    }
}
