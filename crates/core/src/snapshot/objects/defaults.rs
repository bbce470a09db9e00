//! The default constraints, for pods without their own.

use std::sync::Arc;

use super::resource_versions::ResourceVersions;
use crate::limits::{Limit, Limits};
use crate::matching::names::HOSTNAME;
use crate::matching::{Constraint, KubernetesVersion, Path, VersionRules, Violations};
use crate::proto::v1;

/// The settings for all pods of a snapshot: its default constraints, the version of Kubernetes whose
/// rules decide, and whether its storage is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Defaults {
    /// The constraints, without selectors.
    pub constraints: Vec<Constraint>,
    /// True if the constraints are Kubernetes' own.
    pub system: bool,
    /// The version, where one was set.
    pub version: Option<KubernetesVersion>,
    /// True if the feed has read all claims, volumes and classes, though there may be none.
    pub has_storage: bool,
}

impl Defaults {
    /// Checks and compiles the constraints of a request, whose field is at `path`.
    ///
    /// # Errors
    /// Every fault of every constraint.
    pub fn compile(
        wire: &v1::DefaultConstraints,
        limits: &Limits,
        path: Path<'_>,
    ) -> Result<Self, Violations> {
        let mut faults = Violations::default();
        let list = path.field("constraints");
        let count = wire.constraints.len();
        faults.within(list, limits, Limit::ConstraintsPerPod, count);
        if wire.system && count > 0 {
            faults.add(path.field("system"), "excludes a list of constraints");
        }
        let constraints = if wire.system {
            Self::system_constraints()
        } else {
            Constraint::compile_defaults(&wire.constraints, list, &mut faults)
        };
        faults.finish(Self {
            constraints,
            system: wire.system,
            ..Self::default()
        })
    }

    /// Reads stored settings, and what the feed has read.
    ///
    /// # Errors
    /// Every fault; valid settings were stored, so there should be none.
    pub fn of_stored(
        wire: &v1::DefaultConstraints,
        version: &str,
        read: Option<&ResourceVersions>,
    ) -> Result<Self, Violations> {
        let defaults = Self::compile(wire, &Limits::none(), Path::root("defaultConstraints"))?;
        let mut faults = Violations::default();
        let path = Path::root("kubernetesVersion");
        let version = KubernetesVersion::compile(version, path, &mut faults);
        faults.finish(Self {
            version,
            has_storage: read.is_some_and(ResourceVersions::has_storage),
            ..defaults
        })
    }

    /// Returns the settings after a change of constraints or version, when the feed has read up to
    /// `read`; `None` where it changes nothing.
    pub fn after(
        &self,
        constraints: Option<&Arc<Self>>,
        version: Option<KubernetesVersion>,
        read: &ResourceVersions,
    ) -> Option<Arc<Self>> {
        let version = version.or(self.version);
        let has_storage = read.has_storage();
        let is_same = version == self.version && has_storage == self.has_storage;
        if constraints.is_none() && is_same {
            return None;
        }
        let constraints = constraints.map_or(self, |set| set);
        Some(Arc::new(Self {
            version,
            has_storage,
            ..constraints.clone()
        }))
    }

    /// The rules of the version.
    pub fn rules(&self) -> &'static VersionRules {
        VersionRules::of(self.version)
    }

    /// The version as it is stored and reported; empty where none was set.
    pub fn version_text(&self) -> String {
        self.version
            .map(|version| version.to_string())
            .unwrap_or_default()
    }

    /// Returns the settings with which a snapshot begins if its first change, at `revision` 0, sets
    /// none: Kubernetes' own. `None` for later changes.
    pub fn first(revision: i64) -> Option<Arc<Self>> {
        (revision == 0).then(|| {
            Arc::new(Self {
                constraints: Self::system_constraints(),
                system: true,
                ..Self::default()
            })
        })
    }

    /// Returns the constraints for the wire.
    pub fn to_wire(&self) -> v1::DefaultConstraints {
        let constraint = |c: &Constraint| c.to_wire(None);
        let constraints = if self.system {
            &[][..]
        } else {
            &self.constraints
        };
        v1::DefaultConstraints {
            constraints: constraints.iter().map(constraint).collect(),
            system: self.system,
        }
    }

    /// Kubernetes' own constraints (kube-scheduler's PodTopologySpread,
    /// `systemDefaultConstraints`).
    fn system_constraints() -> Vec<Constraint> {
        vec![
            Constraint::soft(HOSTNAME, 3),
            Constraint::soft("topology.kubernetes.io/zone", 5),
        ]
    }
}
