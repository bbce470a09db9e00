//! Pods that take much to decide about: each a valid one, within the limits.

use evenkeel::proto::v1::{
    Affinity, Container, LabelSelector, LabelSelectorRequirement, Node, NodeAffinity, NodeSelector,
    NodeSelectorRequirement, NodeSelectorTerm, ObjectMeta, Pod, PodAffinity, PodAffinityTerm,
    PodSpec, Quantity, ResourceRequirements, Toleration, TopologySpreadConstraint,
};
use support::synth::{HOSTNAME_KEY, INSTANCE_TYPE_KEY, RACK_KEY, ZONE_KEY};

/// Constraints that a pod may have by default.
const CONSTRAINTS: usize = 32;

/// The size of the questions.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Nodes of the cluster.
    pub nodes: usize,
    /// Terms of a node affinity.
    pub terms: usize,
    /// Values of one requirement.
    pub values: usize,
    /// Tolerations.
    pub tolerations: usize,
    /// Requirements of one selector.
    pub requirements: usize,
    /// Candidates, bonuses, capacities, holders.
    pub names: usize,
    /// Replicas, and reservations.
    pub replicas: usize,
    /// Changes of an overlay.
    pub overlay: usize,
    /// Changes of a batch.
    pub batch: usize,
}

/// A kind of pod. `salt` makes it differ from all before, so that nothing that
/// was kept for them helps.
pub type Make = fn(&Scale, usize) -> Pod;

/// All kinds, by name.
pub const PODS: [(&str, Make); 14] = [
    ("terms with In", |scale, salt| {
        terms(scale.terms, "In", salt)
    }),
    ("terms with NotIn", |scale, salt| {
        terms(scale.terms, "NotIn", salt)
    }),
    ("terms with Gt", |scale, salt| {
        terms(scale.terms, "Gt", salt)
    }),
    ("terms with Exists", |scale, salt| {
        terms(scale.terms, "Exists", salt)
    }),
    ("values of In", |scale, salt| {
        affine(vec![required("In", values(scale, salt))])
    }),
    ("values of NotIn", |scale, salt| {
        affine(vec![required("NotIn", values(scale, salt))])
    }),
    ("tolerations", tolerations),
    ("selectors with NotIn", |scale, salt| {
        selecting(scale, "NotIn", salt)
    }),
    ("selectors with Exists", |scale, salt| {
        selecting(scale, "DoesNotExist", salt)
    }),
    ("values of a selector", |scale, salt| {
        let requirement = LabelSelectorRequirement {
            key: "app".into(),
            operator: "NotIn".into(),
            values: values(scale, salt),
        };
        let selector = LabelSelector {
            match_expressions: vec![requirement],
            ..Default::default()
        };
        spread(vec![constraint(ZONE_KEY, 1, selector)])
    }),
    ("constraints", constraints),
    ("resources", resources),
    ("terms over namespaces", terms_over_namespaces),
    ("all at once", |scale, salt| {
        let mut pod = constraints(scale, salt);
        let spec = pod.spec.get_or_insert_default();
        spec.affinity = terms(scale.terms / 4, "NotIn", salt)
            .spec
            .and_then(|spec| spec.affinity);
        spec.tolerations = tolerations(scale, salt)
            .spec
            .map(|spec| spec.tolerations)
            .unwrap_or_default();
        pod
    }),
];

/// A pod that requests as many resources of names of their own as are allowed.
fn resources(_: &Scale, salt: usize) -> Pod {
    let quantity = |number| Quantity {
        string: format!("{}", number + salt + 1),
    };
    let requests = (0..1_000).map(|number| (format!("e.io/r{number}"), quantity(number)));
    let container = Container {
        resources: Some(ResourceRequirements {
            requests: requests.collect(),
        }),
        ..Default::default()
    };
    let mut pod = spread(Vec::new());
    pod.spec.get_or_insert_default().containers = vec![container];
    pod
}

/// A pod with as many terms of anti-affinity as are allowed, each about all namespaces.
fn terms_over_namespaces(_: &Scale, salt: usize) -> Pod {
    let term = |number| PodAffinityTerm {
        topology_key: HOSTNAME_KEY.into(),
        label_selector: Some(app(&format!("app-{:05}", number + salt))),
        namespace_selector: Some(LabelSelector::default()),
        ..Default::default()
    };
    let apart = PodAffinity {
        required_during_scheduling_ignored_during_execution: (0..CONSTRAINTS).map(term).collect(),
        ..Default::default()
    };
    let mut pod = spread(Vec::new());
    pod.spec.get_or_insert_default().affinity = Some(Affinity {
        pod_anti_affinity: Some(apart),
        ..Default::default()
    });
    pod
}

/// A pod of a workload of the cluster, spread over zones: a small question.
pub fn small() -> Pod {
    spread(vec![constraint(ZONE_KEY, 1_000_000, app("app-00000"))])
}

/// A pod that carries the labels of the largest workload.
pub fn spread(constraints: Vec<TopologySpreadConstraint>) -> Pod {
    Pod {
        metadata: Some(ObjectMeta {
            namespace: "team-000".into(),
            labels: app("app-00000").match_labels,
            ..Default::default()
        }),
        spec: Some(PodSpec {
            topology_spread_constraints: constraints,
            ..Default::default()
        }),
        status: None,
    }
}

/// A hard constraint.
pub fn constraint(key: &str, max_skew: i32, selector: LabelSelector) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew,
        topology_key: key.into(),
        when_unsatisfiable: "DoNotSchedule".into(),
        label_selector: Some(selector),
        ..Default::default()
    }
}

/// The pods of a workload.
pub fn app(name: &str) -> LabelSelector {
    LabelSelector {
        match_labels: [("app".to_owned(), name.to_owned())].into(),
        match_expressions: Vec::new(),
    }
}

/// A value that no other salt gives.
fn value(salt: usize, number: usize) -> String {
    format!("v-{salt}-{number}")
}

fn values(scale: &Scale, salt: usize) -> Vec<String> {
    (0..scale.values).map(|n| value(salt, n)).collect()
}

fn required(operator: &str, values: Vec<String>) -> NodeSelectorTerm {
    NodeSelectorTerm {
        match_expressions: vec![NodeSelectorRequirement {
            key: INSTANCE_TYPE_KEY.into(),
            operator: operator.into(),
            values,
        }],
        match_fields: Vec::new(),
    }
}

/// So many terms, of which only the last can match.
fn terms(count: usize, operator: &str, salt: usize) -> Pod {
    let none = |number: usize| {
        let mut term = required(operator, vec![value(salt, number)]);
        let requirement = &mut term.match_expressions[0];
        match operator {
            // One that every node fails, looked at after one that all pass.
            "NotIn" => {
                let second = required("In", vec![value(salt, number)]);
                term.match_expressions.extend(second.match_expressions);
            }
            "Gt" => requirement.values = vec![(salt + number).to_string()],
            "Exists" => {
                requirement.key = value(salt, number);
                requirement.values.clear();
            }
            _ => {}
        }
        term
    };
    affine((0..count).map(none).collect())
}

fn affine(terms: Vec<NodeSelectorTerm>) -> Pod {
    let mut pod = small();
    pod.spec.get_or_insert_default().affinity = Some(Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                node_selector_terms: terms,
            }),
            ..Default::default()
        }),
        ..Default::default()
    });
    pod
}

/// Tolerations of which none fits, under a constraint that looks at taints.
fn tolerations(scale: &Scale, salt: usize) -> Pod {
    let mut pod = small();
    let spec = pod.spec.get_or_insert_default();
    spec.tolerations = (0..scale.tolerations)
        .map(|number| Toleration {
            key: "dedicated".into(),
            value: value(salt, number),
            ..Default::default()
        })
        .collect();
    spec.topology_spread_constraints[0].node_taints_policy = Some("Honor".into());
    pod
}

fn selecting(scale: &Scale, operator: &str, salt: usize) -> Pod {
    let requirement = |number| match operator {
        "NotIn" => LabelSelectorRequirement {
            key: "app".into(),
            operator: operator.into(),
            values: vec![value(salt, number)],
        },
        _ => LabelSelectorRequirement {
            key: value(salt, number),
            operator: operator.into(),
            values: Vec::new(),
        },
    };
    let selector = LabelSelector {
        match_expressions: (0..scale.requirements).map(requirement).collect(),
        ..Default::default()
    };
    spread(vec![constraint(ZONE_KEY, 1, selector)])
}

/// As many constraints as a pod may have, no two of which share anything: no
/// two of one kind may be about the same key.
fn constraints(scale: &Scale, salt: usize) -> Pod {
    let own = |number: usize| {
        let requirement = LabelSelectorRequirement {
            key: "app".into(),
            operator: "NotIn".into(),
            values: (0..scale.values.div_ceil(32))
                .map(|n| format!("{}-{number}", value(salt, n)))
                .collect(),
        };
        let selector = LabelSelector {
            match_expressions: vec![requirement],
            ..Default::default()
        };
        let mut one = constraint(&topology_key(number / 2), i32::MAX, selector);
        if number % 2 == 1 {
            one.when_unsatisfiable = "ScheduleAnyway".into();
        }
        one.node_taints_policy = (number % 4 < 2).then(|| "Honor".into());
        one.node_affinity_policy = (number % 8 < 4).then(|| "Ignore".into());
        one
    };
    spread((0..CONSTRAINTS).map(own).collect())
}

/// A label key that all nodes of the cluster have.
fn topology_key(number: usize) -> String {
    let usual = [ZONE_KEY, HOSTNAME_KEY, RACK_KEY, INSTANCE_TYPE_KEY];
    let key = usual.get(number).map(|key| (*key).to_owned());
    key.unwrap_or_else(|| format!("example.com/topology-{number}"))
}

/// A synthetic node with all the keys that [`PODS`] spread over.
pub fn with_topologies(mut node: Node, index: usize) -> Node {
    let metadata = node.metadata.get_or_insert_default();
    for number in 4..CONSTRAINTS / 2 {
        let value = format!("domain-{}", index % (number * number));
        metadata.labels.insert(topology_key(number), value);
    }
    node
}
