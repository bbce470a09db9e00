//! The kinds of objects: one table of their names, their place in an API server and that of their pods.

use evenkeel_core::snapshot::ObjectKind;

/// A kind of objects, which is a resource of an API server.
#[derive(Debug, PartialEq, Eq)]
pub struct ApiResource {
    /// The kind of its objects.
    pub kind: &'static str,
    /// The group and version of its objects, e.g. `apps/v1`, or `v1` in the core group.
    pub api_version: &'static str,
    /// The resource's name in addresses and RBAC rules.
    pub plural: &'static str,
    /// Its short name in kubectl, as `kubectl api-resources` lists it; empty if it has none.
    short: &'static str,
    /// True if its objects are in namespaces.
    pub is_namespaced: bool,
    /// The place of the pod template in its objects as a JSON pointer: empty for a Pod and a placement,
    /// `None` for a kind without pods, and for kinds in which the template is searched for.
    pub(super) template: Option<&'static str>,
}

const fn namespaced(
    kind: &'static str,
    api_version: &'static str,
    plural: &'static str,
    short: &'static str,
) -> ApiResource {
    ApiResource {
        kind,
        api_version,
        plural,
        short,
        is_namespaced: true,
        template: None,
    }
}

/// The kind that can contain a scheduler's configuration.
pub(crate) static CONFIG_MAPS: ApiResource = namespaced("ConfigMap", "v1", "configmaps", "");

/// The part of a pod that evicts it.
pub(crate) static EVICTIONS: ApiResource = namespaced("Eviction", "v1", "pods/eviction", "");

/// The place of the pod template in most workloads.
const TEMPLATE: &str = "/spec/template";

/// The kinds that decisions read, and other kinds of workloads.
static KINDS: [ApiResource; 18] = [
    namespaced("Node", "v1", "nodes", "no").cluster_wide(),
    namespaced("Namespace", "v1", "namespaces", "ns").cluster_wide(),
    namespaced("Pod", "v1", "pods", "po").with(""),
    namespaced("Service", "v1", "services", "svc"),
    namespaced(
        "ReplicationController",
        "v1",
        "replicationcontrollers",
        "rc",
    )
    .with(TEMPLATE),
    namespaced("ReplicaSet", "apps/v1", "replicasets", "rs").with(TEMPLATE),
    namespaced("StatefulSet", "apps/v1", "statefulsets", "sts").with(TEMPLATE),
    namespaced(
        "PodDisruptionBudget",
        "policy/v1",
        "poddisruptionbudgets",
        "pdb",
    ),
    namespaced(
        "PersistentVolumeClaim",
        "v1",
        "persistentvolumeclaims",
        "pvc",
    ),
    namespaced("PersistentVolume", "v1", "persistentvolumes", "pv").cluster_wide(),
    namespaced("StorageClass", "storage.k8s.io/v1", "storageclasses", "sc").cluster_wide(),
    namespaced("Deployment", "apps/v1", "deployments", "deploy").with(TEMPLATE),
    namespaced("DaemonSet", "apps/v1", "daemonsets", "ds").with(TEMPLATE),
    namespaced("Job", "batch/v1", "jobs", "").with(TEMPLATE),
    namespaced("CronJob", "batch/v1", "cronjobs", "cj").with("/spec/jobTemplate/spec/template"),
    namespaced("PodTemplate", "v1", "podtemplates", ""),
    namespaced("Rollout", "argoproj.io/v1alpha1", "rollouts", "ro"),
    namespaced("CloneSet", "apps.kruise.io/v1alpha1", "clonesets", "clone"),
];

/// KubeFleet's kinds, which only files have.
static FLEET: [ApiResource; 3] = [
    namespaced(
        "ClusterResourcePlacement",
        "",
        "clusterresourceplacements",
        "crp",
    )
    .with("")
    .cluster_wide(),
    namespaced("ResourcePlacement", "", "resourceplacements", "rp").with(""),
    namespaced("MemberCluster", "", "memberclusters", "").cluster_wide(),
];

/// The kinds that admission reads when a pod is created.
pub static READ_BY_ADMISSION: [ApiResource; 3] = [
    namespaced("LimitRange", "v1", "limitranges", "limits"),
    namespaced("RuntimeClass", "node.k8s.io/v1", "runtimeclasses", "").cluster_wide(),
    namespaced(
        "PriorityClass",
        "scheduling.k8s.io/v1",
        "priorityclasses",
        "pc",
    )
    .cluster_wide(),
];

impl ApiResource {
    const fn cluster_wide(self) -> Self {
        Self {
            is_namespaced: false,
            ..self
        }
    }

    /// The same kind, whose objects have a pod template at this place.
    const fn with(self, template: &'static str) -> Self {
        Self {
            template: Some(template),
            ..self
        }
    }

    /// The resource whose objects are of `kind`.
    pub fn of(kind: ObjectKind) -> &'static Self {
        Self::of_kind(kind.as_str()).expect("each kind has a resource")
    }

    /// The resource of this kind, e.g. `Deployment`. `None` if decisions do not read the kind and
    /// it is no workload of Kubernetes.
    pub fn of_kind(kind: &str) -> Option<&'static Self> {
        KINDS.iter().find(|known| known.kind == kind)
    }

    /// The kinds that people name: those of [`Self::of_kind`], and KubeFleet's.
    pub(super) fn all() -> impl Iterator<Item = &'static Self> {
        KINDS.iter().chain(&FLEET)
    }

    /// The names of the kind in kubectl, the kind itself first.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        let names = [self.kind, self.plural, self.short].into_iter();
        names.filter(|name| !name.is_empty())
    }

    /// The path of all its objects, or of those in a namespace.
    pub(crate) fn path(&self, namespace: Option<&str>) -> String {
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

    /// The RBAC rule that grants the permission for this resource.
    pub(crate) fn rule(&self, verb: &str) -> String {
        let verbs = match verb {
            "get" | "list" | "watch" => "get, list, watch",
            other => other,
        };
        let group = self.api_version.split_once('/');
        format!(
            "{{apiGroups: [{:?}], resources: [{}], verbs: [{verbs}]}}",
            group.map_or("", |(group, _)| group),
            self.plural
        )
    }
}
