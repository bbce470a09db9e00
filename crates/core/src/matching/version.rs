//! Versions of Kubernetes, the one table of the rules in which they differ, and the features that pods
//! need and nodes declare (`docs/semantics.md`, "Node checks").

use std::fmt;
use std::str::FromStr;

use super::violations::{Path, Violations};
use crate::proto::v1;

/// The rule for the requests of a pod that its node is resizing (`docs/semantics.md`, "Room").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resizing {
    /// For each container, the larger of its present and its wanted resources counts.
    Containers,
    /// As [`Self::Containers`], and the same for the pod as a whole.
    ContainersAndPod,
    /// The largest of the sums over all containers counts: of wanted, allocated and actual
    /// resources.
    Sums,
}

/// The rules that differ between versions.
#[derive(Debug, PartialEq, Eq)]
pub struct VersionRules {
    /// The first minor version with these rules.
    since: u32,
    /// The rule for the requests of a pod that is being resized.
    pub resizing: Resizing,
    /// True if PreFilter checks the node that a pod names, before cordons are checked.
    pub node_name_first: bool,
    /// True if a `namespaceSelector` of an incoming pod that accepts a namespace without labels
    /// selects all namespaces.
    pub no_labels_select_all: bool,
    /// The features that a pod may need and a node has to declare.
    pub features: Features,
    /// True if a device class may provide a resource that a node lacks.
    pub device_classes: bool,
}

/// Ascending by version.
const TABLE: [VersionRules; 3] = [
    VersionRules {
        since: 35,
        resizing: Resizing::Containers,
        node_name_first: false,
        no_labels_select_all: true,
        features: Features(0b000),
        device_classes: false,
    },
    VersionRules {
        since: 36,
        resizing: Resizing::ContainersAndPod,
        node_name_first: false,
        no_labels_select_all: true,
        features: Features(0b011),
        device_classes: true,
    },
    VersionRules {
        since: 37,
        resizing: Resizing::Sums,
        node_name_first: true,
        no_labels_select_all: false,
        features: Features(0b111),
        device_classes: true,
    },
];

/// A version of Kubernetes: 1 and a minor version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KubernetesVersion {
    minor: u32,
}

impl KubernetesVersion {
    /// Reads a version such as `1.37`, `v1.37.2` or `1.37+`; the part after the minor version is
    /// ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let minor = text.trim_start_matches('v').strip_prefix("1.")?;
        let end = minor.find(|c: char| !c.is_ascii_digit());
        let (minor, rest) = minor.split_at(end.unwrap_or(minor.len()));
        let is_one = rest.is_empty() || rest.starts_with(['.', '+', '-']);
        let minor = minor.parse().ok().filter(|_| is_one)?;
        Some(Self { minor })
    }

    /// Checks and reads a version of a request, whose field is at `path`; `None` where
    /// it is empty.
    pub fn compile(text: &str, path: Path<'_>, faults: &mut Violations) -> Option<Self> {
        let version = Self::parse(text);
        if version.is_none() && !text.is_empty() {
            faults.add(path, NotAVersion.to_string());
        }
        version
    }
}

/// The error for a text that is no version of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a version of Kubernetes, such as 1.37")]
pub struct NotAVersion;

impl FromStr for KubernetesVersion {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        Self::parse(text).ok_or(NotAVersion)
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor)
    }
}

impl VersionRules {
    /// Returns the rules of a version. Without a version, these are the rules of the newest in the
    /// table. A version older than the table has the rules of the first row.
    pub fn of(version: Option<KubernetesVersion>) -> &'static Self {
        let [first, ..] = &TABLE;
        let holds = |rules: &&Self| version.is_none_or(|version| rules.since <= version.minor);
        TABLE.iter().rev().find(holds).unwrap_or(first)
    }

    /// The rules of all versions, ascending.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        TABLE.iter()
    }
}

/// A set of the features that decisions know: a bit for each row of [`KNOWN`], the lowest for the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Features(u8);

/// A feature: its name in `status.declaredFeatures` of nodes, and whether a pod needs it.
type KnownFeature = (&'static str, fn(&v1::PodSpec) -> bool);

const KNOWN: [KnownFeature; 3] = [
    ("RestartAllContainersOnContainerExits", |spec| {
        let mut rules = each_container(spec).flat_map(|it| &it.restart_policy_rules);
        rules.any(|rule| rule.action == "RestartAllContainers")
    }),
    ("UserNamespacesHostNetworkSupport", |spec| {
        spec.host_network && spec.host_users == Some(false)
    }),
    ("VolumeBindMountOptions", |spec| {
        let ephemeral = spec.ephemeral_containers.iter();
        let ephemeral = ephemeral.flat_map(v1::EphemeralContainer::mounts);
        let mounts = each_container(spec).flat_map(|it| &it.volume_mounts);
        let mut mounts = mounts.chain(ephemeral);
        mounts.any(|mount| !mount.bind_mount_options.is_empty())
    }),
];

impl Features {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Returns the features that a pod needs, by the rules of any version.
    pub fn needed(spec: &v1::PodSpec) -> Self {
        Self::those(|(_, is_needed)| is_needed(spec))
    }

    /// Returns the features that a node declares. Unknown features are ignored.
    pub fn declared(names: &[String]) -> Self {
        Self::those(|(name, _)| names.iter().any(|it| it == name))
    }

    fn those(is_in: impl Fn(&KnownFeature) -> bool) -> Self {
        let bits = KNOWN.iter().enumerate();
        let bits = bits.map(|(at, known)| u8::from(is_in(known)) << at);
        Self(bits.sum())
    }

    /// Returns the features that are in both sets.
    #[must_use]
    pub const fn within(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// The names of the features, ascending.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let known = KNOWN.iter().enumerate();
        let known = known.filter(move |(at, _)| self.0 >> at & 1 == 1);
        known.map(|(_, (name, _))| *name)
    }
}

fn each_container(spec: &v1::PodSpec) -> impl Iterator<Item = &v1::Container> {
    spec.containers.iter().chain(&spec.init_containers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_clusters_tell_them() {
        for (text, minor) in [
            ("1.37", 37),
            ("v1.37.2", 37),
            ("1.36+", 36),
            ("v1.35.4-gke.1", 35),
        ] {
            let version = KubernetesVersion::parse(text);
            assert_eq!(version, Some(KubernetesVersion { minor }), "{text}");
        }
        for text in [
            "",
            "1",
            "1.",
            "2.0",
            "v1.x",
            "1.37beta",
            "1.99999999999",
            "-1.37",
        ] {
            assert_eq!(KubernetesVersion::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_version_has_the_newest_rules_that_are_not_later() {
        let of = |text| VersionRules::of(KubernetesVersion::parse(text)).since;
        let found = ["1.28", "1.35", "1.36.9", "1.37", "1.45"].map(of);
        assert_eq!(found, [35, 35, 36, 37, 37]);
        assert_eq!(VersionRules::of(None).since, 37);
    }
}
