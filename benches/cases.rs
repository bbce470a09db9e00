//! The questions of the benchmarks.

use std::collections::BTreeMap;

use evenkeel::proto::v1;
use support::synth::{
    HOSTNAME_KEY, INSTANCE_TYPE_KEY, SyntheticCluster, SyntheticWorkload, TAINT_KEY, ZONE_KEY,
};

/// The number of zones.
pub const ZONES: [usize; 3] = [3, 10, 100];

/// The workload that the questions are about: one of average size.
pub fn workload(cluster: &SyntheticCluster) -> SyntheticWorkload<'_> {
    let shape = cluster.shape();
    let average = shape.pods / shape.workloads;
    let near = |workload: &SyntheticWorkload<'_>| workload.replicas().abs_diff(average);
    let nearest = cluster.workloads().min_by_key(near);
    nearest.expect("there is a workload")
}

/// The constraints of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constraints {
    /// The name in the tables.
    pub name: &'static str,
    /// `DoNotSchedule`, else `ScheduleAnyway`.
    pub is_hard: bool,
    /// The topology keys of the constraints.
    pub keys: &'static [&'static str],
}

/// The constraint sets.
pub const CONSTRAINTS: [Constraints; 4] = [
    Constraints {
        name: "zone hard",
        is_hard: true,
        keys: &[ZONE_KEY],
    },
    Constraints {
        name: "zone + hostname hard",
        is_hard: true,
        keys: &[ZONE_KEY, HOSTNAME_KEY],
    },
    Constraints {
        name: "zone soft",
        is_hard: false,
        keys: &[ZONE_KEY],
    },
    Constraints {
        name: "zone + hostname soft",
        is_hard: false,
        keys: &[ZONE_KEY, HOSTNAME_KEY],
    },
];

/// The nodes on which the pod may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// On all nodes: it tolerates the taint of some.
    AllNodes,
    /// On nodes of one instance type without a taint, which its constraints
    /// honor.
    SomeNodes,
}

impl Reach {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::AllNodes, Self::SomeNodes];

    /// Returns the name in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllNodes => "all nodes",
            Self::SomeNodes => "taints and selector",
        }
    }
}

/// A pod to place: one more replica of a workload.
pub fn incoming(
    workload: SyntheticWorkload<'_>,
    constraints: Constraints,
    reach: Reach,
) -> v1::Pod {
    let mut pod = workload.pods().next().expect("the workload has pods");
    let metadata = pod.metadata.get_or_insert_default();
    metadata.name.clear();
    metadata.uid.clear();
    let constraint = |key: &&str| v1::TopologySpreadConstraint {
        max_skew: 2,
        topology_key: (*key).to_owned(),
        when_unsatisfiable: match constraints.is_hard {
            true => "DoNotSchedule".to_owned(),
            false => "ScheduleAnyway".to_owned(),
        },
        label_selector: Some(v1::LabelSelector {
            match_labels: BTreeMap::from([("app".to_owned(), workload.name())]),
            ..Default::default()
        }),
        node_taints_policy: (reach == Reach::SomeNodes).then(|| "Honor".to_owned()),
        ..Default::default()
    };
    let mut spec = v1::PodSpec {
        topology_spread_constraints: constraints.keys.iter().map(constraint).collect(),
        ..Default::default()
    };
    match reach {
        Reach::AllNodes => spec.tolerations.push(v1::Toleration {
            key: TAINT_KEY.to_owned(),
            operator: "Exists".to_owned(),
            ..Default::default()
        }),
        Reach::SomeNodes => {
            let (key, value) = (INSTANCE_TYPE_KEY.to_owned(), "m7.large".to_owned());
            spec.node_selector = BTreeMap::from([(key, value)]);
        }
    }
    pod.spec = Some(spec);
    pod.status = None;
    pod
}

/// Changes the selectors of a pod's constraints to new ones that match the same pods.
pub fn make_new(pod: &mut v1::Pod, number: u64) {
    let spec = pod.spec.get_or_insert_default();
    for constraint in &mut spec.topology_spread_constraints {
        let selector = constraint.label_selector.get_or_insert_default();
        selector.match_expressions = vec![v1::LabelSelectorRequirement {
            key: "tier".to_owned(),
            operator: "NotIn".to_owned(),
            values: vec![format!("none-{number}")],
        }];
    }
}
