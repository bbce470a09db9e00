//! Features that pods need and nodes declare (`docs/semantics.md`, "Node checks").

use crate::proto::v1;

/// A set of the features that decisions know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Features(u8);

/// A feature, with its bit in the set.
struct KnownFeature {
    feature: Features,
    /// The feature's name in `status.declaredFeatures` of nodes.
    name: &'static str,
    is_needed: fn(&v1::PodSpec) -> bool,
}

const KNOWN: [KnownFeature; 3] = [
    KnownFeature {
        feature: Features::RESTART_ALL_CONTAINERS,
        name: "RestartAllContainersOnContainerExits",
        is_needed: |spec| {
            let mut rules = each_container(spec).flat_map(|it| &it.restart_policy_rules);
            rules.any(|rule| rule.action == "RestartAllContainers")
        },
    },
    KnownFeature {
        feature: Features::USER_NAMESPACES_OF_HOST_NETWORK,
        name: "UserNamespacesHostNetworkSupport",
        is_needed: |spec| spec.host_network && spec.host_users == Some(false),
    },
    KnownFeature {
        feature: Features::BIND_MOUNT_OPTIONS,
        name: "VolumeBindMountOptions",
        is_needed: |spec| {
            let ephemeral = spec.ephemeral_containers.iter();
            let ephemeral = ephemeral.flat_map(v1::EphemeralContainer::mounts);
            let mounts = each_container(spec).flat_map(|it| &it.volume_mounts);
            let mut mounts = mounts.chain(ephemeral);
            mounts.any(|mount| !mount.bind_mount_options.is_empty())
        },
    },
];

impl Features {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// Restart rules by which the exit of one container restarts all containers.
    pub const RESTART_ALL_CONTAINERS: Self = Self(1);
    /// User namespaces of pods in the node's network.
    pub const USER_NAMESPACES_OF_HOST_NETWORK: Self = Self(2);
    /// Options with which volumes are mounted in containers.
    pub const BIND_MOUNT_OPTIONS: Self = Self(4);

    /// Returns the features that a pod needs, by the rules of any version.
    pub fn needed(spec: &v1::PodSpec) -> Self {
        let needed = KNOWN.iter().filter(|known| (known.is_needed)(spec));
        Self::union(needed.map(|known| known.feature))
    }

    /// Returns the features that a node declares. Unknown features are ignored.
    pub fn declared(names: &[String]) -> Self {
        let declared = KNOWN
            .iter()
            .filter(|known| names.iter().any(|it| it == known.name));
        Self::union(declared.map(|known| known.feature))
    }

    /// Returns the union of these features and `others`.
    #[must_use]
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
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
        let known = KNOWN
            .iter()
            .filter(move |known| !known.feature.within(self).is_empty());
        known.map(|known| known.name)
    }

    fn union(all: impl Iterator<Item = Self>) -> Self {
        all.fold(Self::NONE, Self::with)
    }
}

fn each_container(spec: &v1::PodSpec) -> impl Iterator<Item = &v1::Container> {
    spec.containers.iter().chain(&spec.init_containers)
}
