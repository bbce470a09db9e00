//! `PlanNodes`: the nodes that may go, and those that must come.

use std::collections::{BTreeMap, HashSet};

use super::answer::{count, defaults_kind};
use super::error::Error;
use super::read_your_writes::AskedSnapshot;
use super::rebalance::{blocker_kind, pod_move, rebalanced, staying};
use super::request;
use crate::limits::Limit;
use crate::matching::{Path, Selector, Violations, names};
use crate::plan::{
    DrainOptions, DrainPlan, LeavingNode, NeedOptions, NeedPlan, NeededPods, NodeTemplate,
    PodOfNode, RebalanceOptions, SpareOptions,
};
use crate::proto::v1;
use crate::proto::v1::plan_nodes_request::Question as NodeQuestion;
use crate::snapshot::{Batch, Imagined, Limits, Snapshot};
use crate::spread::Question;

/// The most new nodes of a plan.
const MOST_NODES: usize = 1_000;

/// The most combinations of a template and domains.
const MOST_COMBINATIONS: usize = 64;

/// The highest price of a node.
const MOST_PRICE: i32 = 1_000_000;

/// A valid request.
#[derive(Debug)]
pub struct ValidNodePlan {
    /// The snapshot, and the revision to wait for.
    pub asked: AskedSnapshot,
    question: ValidNodeQuestion,
}

/// A valid question about nodes.
#[derive(Debug)]
enum ValidNodeQuestion {
    Need(Box<NeedOptions>),
    Drain(DrainOptions),
    Spare(SpareOptions),
}

impl ValidNodePlan {
    /// Checks a request.
    ///
    /// # Errors
    /// Every fault of the request.
    pub fn of(wire: v1::PlanNodesRequest, limits: &Limits) -> Result<Self, Error> {
        let mut faults = Violations::default();
        let snapshot = request::snapshot_name(&wire.snapshot, Path::root("snapshot"), &mut faults);
        let asked = AskedSnapshot::of(snapshot, wire.min_revision, wire.epoch, limits, &mut faults);
        let max_domains = request::max_domains(wire.max_domains, &mut faults);
        let question = match wire.question {
            Some(NodeQuestion::Need(wire)) => {
                let need = need(wire, limits, &mut faults);
                Some(ValidNodeQuestion::Need(Box::new(need)))
            }
            Some(NodeQuestion::Drain(wire)) => {
                let path = Path::root("drain");
                let nodes = path.field("nodes");
                if wire.nodes.is_empty() {
                    faults.add(nodes, "is required");
                }
                check_nodes(&wire.nodes, nodes, limits, &mut faults);
                Some(ValidNodeQuestion::Drain(DrainOptions {
                    nodes: wire.nodes,
                    one_at_a_time: wire.one_at_a_time,
                    whole_only: false,
                    rules: rules(wire.rules, path, (limits, max_domains), &mut faults),
                }))
            }
            Some(NodeQuestion::Spare(wire)) => {
                let path = Path::root("spare");
                let most = usize::try_from(wire.max).ok().filter(|most| *most > 0);
                if most.is_none() {
                    faults.add(path.field("max"), "must be at least 1");
                }
                let selector = wire.selector.as_ref();
                let at = path.field("selector");
                check_nodes(&wire.stay, path.field("stay"), limits, &mut faults);
                Some(ValidNodeQuestion::Spare(SpareOptions {
                    most: most.unwrap_or(1),
                    selector: selector.map(|it| Selector::compile(Some(it), at, &mut faults)),
                    stay: wire.stay.into_iter().collect(),
                    rules: rules(wire.rules, path, (limits, max_domains), &mut faults),
                }))
            }
            None => {
                faults.add(Path::root("question"), "is required: need, drain or spare");
                None
            }
        };
        let Some(question) = question else {
            return Err(faults.into());
        };
        Ok(faults.finish(Self { asked, question })?)
    }

    /// Plans, and answers without the epoch and age of the snapshot.
    ///
    /// # Errors
    /// [`Error::NoNode`] when a node does not exist, and [`Error::Deadline`] when `is_given_up`
    /// returned true.
    pub fn answer(
        self,
        snapshot: &Snapshot,
        is_given_up: &dyn Fn() -> bool,
    ) -> Result<v1::PlanNodesResponse, Error> {
        let needed = match &self.question {
            ValidNodeQuestion::Need(options) => &options.pods[..],
            _ => &[],
        };
        let namespaces = needed.iter().map(|it| it.question.namespace.clone());
        let namespaces: Vec<String> = namespaces.collect();
        let namespaces: Vec<&str> = namespaces.iter().map(String::as_str).collect();
        let plan = |imagined: &mut Imagined<'_>| {
            Ok::<_, Error>(match self.question {
                ValidNodeQuestion::Need(options) => {
                    let like = options.templates.iter();
                    exist(imagined, like.filter_map(|it| it.like.as_ref().ok()))?;
                    needed_nodes(NeedPlan::of(imagined, *options)?)
                }
                ValidNodeQuestion::Drain(options) => {
                    exist(imagined, options.nodes.iter())?;
                    drained(DrainPlan::of(imagined, &options)?)
                }
                ValidNodeQuestion::Spare(options) => {
                    drained(DrainPlan::of_spare(imagined, &options)?)
                }
            })
        };
        snapshot.imagine(&namespaces, &Batch::default(), is_given_up, plan)
    }
}

/// Checks that nodes exist.
fn exist<'n>(
    imagined: &Imagined<'_>,
    nodes: impl Iterator<Item = &'n String>,
) -> Result<(), Error> {
    let mut nodes = nodes;
    match imagined.read_any(|view| nodes.find(|name| view.nodes.find(name).is_none())) {
        Some(name) => Err(Error::NoNode(name.clone())),
        None => Ok(()),
    }
}

/// Checks the names of nodes.
fn check_nodes(nodes: &[String], path: Path<'_>, limits: &Limits, faults: &mut Violations) {
    if !faults.within(path, limits, Limit::Nodes, nodes.len()) {
        return;
    }
    let mut seen = HashSet::with_capacity(nodes.len());
    for (path, name) in path.each(nodes) {
        if name.is_empty() {
            faults.add(path, "is required");
        } else if !seen.insert(name.as_str()) {
            faults.add(path, "is in the list more than once");
        }
        request::check_length(name, path, limits, faults);
    }
}

/// The rules about the pods of nodes that go.
fn rules(
    wire: Option<v1::EvictionRules>,
    path: Path<'_>,
    (limits, max_domains): (&Limits, usize),
    faults: &mut Violations,
) -> RebalanceOptions {
    let wire = wire.unwrap_or_default();
    let path = path.field("rules");
    let max_unavailable = wire.max_unavailable.unwrap_or(1);
    request::check_not_negative(max_unavailable.into(), path.field("maxUnavailable"), faults);
    let keeps = wire.stay_selector.as_ref();
    let at = path.field("staySelector");
    RebalanceOptions {
        namespace: None,
        workload: None,
        selector: None,
        soft: false,
        by: None,
        most_moves: usize::MAX,
        most_of_workload: usize::MAX,
        most_of_node: usize::MAX,
        max_unavailable,
        moves_bare: wire.bare,
        keeps: keeps.map(|wire| Selector::compile(Some(wire), at, faults)),
        stay: staying(wire.stay, path.field("stay"), limits, faults),
        max_domains,
        limits: limits.clone(),
    }
}

/// Checks a question about new nodes.
fn need(wire: v1::NodeNeed, limits: &Limits, faults: &mut Violations) -> NeedOptions {
    let path = Path::root("need");
    let list = path.field("pods");
    faults.within(list, limits, Limit::PlacedWorkloads, wire.pods.len());
    if wire.pods.is_empty() && !wire.pending {
        faults.add(list, "is required, unless pending is set");
    }
    names::check_namespace(&wire.namespace, path.field("namespace"), faults);
    let mut pods = Vec::new();
    let mut replicas: usize = 0;
    for (index, it) in wire.pods.into_iter().enumerate() {
        let path = list.index(index);
        let question = Question::compile(it.pod.as_ref(), limits, path.field("pod"));
        let number = usize::try_from(it.replicas).unwrap_or(0);
        if number == 0 {
            faults.add(path.field("replicas"), "must be at least 1");
        }
        replicas = replicas.saturating_add(number);
        let metadata = it.pod.and_then(|pod| pod.metadata);
        let name = metadata.map_or_else(String::new, |metadata| metadata.name);
        if let Some(question) = faults.collect(question) {
            pods.push(NeededPods {
                name: match name.is_empty() {
                    true => question.owner_name.to_string(),
                    false => name,
                },
                question,
                replicas: number,
                index: Some(index),
            });
        }
    }
    faults.at_most(list, limits, Limit::Replicas, replicas);
    let templates = templates(wire.templates, path.field("templates"), limits, faults);
    NeedOptions {
        pods,
        pending: wire.pending.then_some(wire.namespace),
        templates,
        limits: limits.clone(),
    }
}

/// Checks node templates.
fn templates(
    wire: Vec<v1::NodeTemplate>,
    list: Path<'_>,
    limits: &Limits,
    faults: &mut Violations,
) -> Vec<NodeTemplate> {
    if wire.is_empty() {
        faults.add(list, "is required");
    }
    let mut combinations: usize = 0;
    let mut seen = HashSet::new();
    let mut templates = Vec::new();
    for (index, it) in wire.into_iter().enumerate() {
        let path = list.index(index);
        for (field, text) in [("name", &it.name), ("node", &it.node)] {
            request::check_length(text, path.field(field), limits, faults);
        }
        let own = it.object.as_ref().and_then(|node| node.metadata.as_ref());
        let own = own.map_or_else(|| it.node.clone(), |metadata| metadata.name.clone());
        let name = if it.name.is_empty() { own } else { it.name };
        let like = match (it.node.is_empty(), it.object) {
            (false, None) => Ok(it.node),
            (true, Some(mut node)) => {
                name.clone_into(&mut node.metadata.get_or_insert_default().name);
                let change = v1::Change {
                    object: Some(v1::change::Object::Node(node.clone())),
                };
                let checked = Batch::check(vec![change], limits, path.field("object"));
                faults.collect(checked);
                Err(node)
            }
            _ => {
                faults.add(path, "must have either node or object");
                continue;
            }
        };
        if name.is_empty() {
            faults.add(path.field("name"), "is required");
        } else if !seen.insert(name.clone()) {
            faults.add(path.field("name"), "is that of another template");
        }
        let mut domains = BTreeMap::new();
        let mut own: usize = 1;
        let keys = path.field("domains");
        for (index, it) in it.domains.into_iter().enumerate() {
            let path = keys.index(index);
            names::check_label_key(&it.topology_key, path.field("topologyKey"), faults);
            if it.values.is_empty() {
                faults.add(path.field("values"), "is required");
            }
            for (at, value) in it.values.iter().enumerate() {
                let labels = BTreeMap::from([(it.topology_key.clone(), value.clone())]);
                names::check_labels(&labels, path.field("values").index(at), faults);
            }
            own = own.saturating_mul(it.values.len());
            if domains.insert(it.topology_key, it.values).is_some() {
                faults.add(path.field("topologyKey"), "is in the list more than once");
            }
        }
        combinations = combinations.saturating_add(own);
        if !(0..=MOST_PRICE).contains(&it.price) {
            faults.add(path.field("price"), format!("must be 0 to {MOST_PRICE}"));
        }
        request::check_not_negative(it.max_nodes.into(), path.field("maxNodes"), faults);
        templates.push(NodeTemplate {
            name,
            like,
            domains,
            price: usize::try_from(it.price).unwrap_or(0).max(1),
            most: match usize::try_from(it.max_nodes) {
                Ok(0) | Err(_) => MOST_NODES,
                Ok(most) => most.min(MOST_NODES),
            },
        });
    }
    if combinations > MOST_COMBINATIONS {
        let rule = format!("must have at most {MOST_COMBINATIONS} combinations of domains");
        faults.add(list, rule);
    }
    templates
}

fn drained(plan: DrainPlan) -> v1::PlanNodesResponse {
    let bound = plan.bound.unwrap_or_default();
    let node = |node: LeavingNode| v1::LeavingNode {
        name: node.name,
        emptied: node.is_emptied,
    };
    let pod = |pod: PodOfNode| v1::PodOfNode {
        namespace: pod.namespace.to_string(),
        pod: pod.pod,
        node: pod.node,
        workload: Some(v1::WorkloadName {
            kind: pod.workload.kind.clone(),
            name: pod.workload.name.clone(),
            selector: None,
        }),
        kind: pod.kind.map(blocker_kind).unwrap_or_default().into(),
        text: pod.text,
    };
    let workloads = plan.workloads.into_iter();
    v1::PlanNodesResponse {
        revision: plan.revision,
        nodes: plan.nodes.into_iter().map(node).collect(),
        moves: plan.moves.into_iter().map(pod_move).collect(),
        blocked: plan.blocked.into_iter().map(pod).collect(),
        with_node: plan.along.into_iter().map(pod).collect(),
        workloads: workloads
            .map(|((namespace, id), it)| rebalanced(namespace, id, it))
            .collect(),
        optimal: plan.is_proven,
        bound: count(bound.0),
        bound_reason: bound.1,
        defaults: defaults_kind(&plan.defaults),
        ..Default::default()
    }
}

fn needed_nodes(plan: NeedPlan) -> v1::PlanNodesResponse {
    let index = |pods: &NeededPods| match pods.index {
        Some(index) => i32::try_from(index).unwrap_or(i32::MAX),
        None => -1,
    };
    let nodes = plan.nodes.into_iter().map(|it| v1::NewNodes {
        template: it.template,
        domains: it.domains,
        names: it.names,
        price: count(it.price),
    });
    let placed = plan.placed.into_iter().map(|(at, node, pods)| {
        let of = &plan.pods[at];
        v1::PlacedPods {
            namespace: of.question.namespace.clone(),
            name: of.name.clone(),
            index: index(of),
            node: node.into(),
            count: count(pods),
        }
    });
    let unplaced = plan.unplaced.into_iter().map(|(at, pods, reasons)| {
        let of = &plan.pods[at];
        v1::UnplacedPods {
            namespace: of.question.namespace.clone(),
            name: of.name.clone(),
            index: index(of),
            count: count(pods),
            reasons,
        }
    });
    v1::PlanNodesResponse {
        revision: plan.revision,
        new_nodes: nodes.collect(),
        placed: placed.collect(),
        unplaced: unplaced.collect(),
        price: count(plan.price),
        optimal: plan.is_proven,
        bound: count(plan.bound.0),
        bound_reason: plan.bound.1,
        defaults: defaults_kind(&plan.defaults),
        ..Default::default()
    }
}
