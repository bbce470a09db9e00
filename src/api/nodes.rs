//! `PlanNodes`: the nodes that may go, and those that must come.

use std::collections::{BTreeMap, HashSet};

use super::answer::plan_head;
use super::error::Error;
use super::rebalance::eviction_rules;
use super::request;
use crate::limits::Limit;
use crate::matching::{Path, Selector, Violations, names};
use crate::plan::{
    DrainOptions, NeedOptions, NeededPods, SpareOptions, drain_nodes, need_nodes, spare_nodes,
};
use crate::proto::v1;
use crate::proto::v1::plan_nodes_request::Question as NodeQuestion;
use crate::snapshot::{Batch, Imagined, Limits, Snapshot};
use crate::spread::Question;

/// The most combinations of a template and domains, and the most keys of a template.
const MOST_COMBINATIONS: usize = 64;

/// The highest price of a node.
const MOST_PRICE: i32 = 1_000_000;

/// A valid question about nodes.
#[derive(Debug)]
pub enum ValidNodeQuestion {
    Need(Box<NeedOptions>),
    Drain(DrainOptions),
    Spare(SpareOptions),
}

impl ValidNodeQuestion {
    /// Checks a request.
    pub fn check(
        wire: v1::PlanNodesRequest,
        limits: &Limits,
        faults: &mut Violations,
    ) -> Option<Self> {
        let max_domains = request::max_domains(wire.max_domains, faults);
        let rules = |wire: Option<v1::EvictionRules>, path: Path<'_>, faults: &mut Violations| {
            let path = path.field("rules");
            let at = |field| path.field(field);
            eviction_rules(wire.unwrap_or_default(), at, (limits, max_domains), faults)
        };
        match wire.question {
            Some(NodeQuestion::Need(wire)) => {
                let need = need(wire, limits, faults);
                Some(Self::Need(Box::new(need)))
            }
            Some(NodeQuestion::Drain(wire)) => {
                let path = Path::root("drain");
                let nodes = path.field("nodes");
                if wire.nodes.is_empty() {
                    faults.add(nodes, "is required");
                }
                request::check_nodes(&wire.nodes, nodes, limits, faults);
                Some(Self::Drain(DrainOptions {
                    nodes: wire.nodes,
                    one_at_a_time: wire.one_at_a_time,
                    whole_only: false,
                    rules: rules(wire.rules, path, faults),
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
                request::check_nodes(&wire.stay, path.field("stay"), limits, faults);
                Some(Self::Spare(SpareOptions {
                    most: most.unwrap_or(1),
                    selector: selector.map(|it| Selector::compile(Some(it), at, faults)),
                    stay: wire.stay.into_iter().collect(),
                    rules: rules(wire.rules, path, faults),
                }))
            }
            None => {
                faults.add(Path::root("question"), "is required: need, drain or spare");
                None
            }
        }
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
        let plan = |imagined: &mut Imagined<'_>| {
            let (revision, defaults) = plan_head(imagined);
            let answer = match self {
                Self::Need(options) => {
                    let like = options.templates.iter().map(|it| &it.node);
                    exist(imagined, like.filter(|name| !name.is_empty()))?;
                    need_nodes(imagined, *options)?
                }
                Self::Drain(options) => {
                    exist(imagined, options.nodes.iter())?;
                    drain_nodes(imagined, &options)?
                }
                Self::Spare(options) => spare_nodes(imagined, &options)?,
            };
            Ok::<_, Error>(v1::PlanNodesResponse {
                revision,
                defaults,
                ..answer
            })
        };
        snapshot.imagine(&Batch::default(), is_given_up, plan)
    }
}

/// Checks that nodes exist.
fn exist<'n>(
    imagined: &Imagined<'_>,
    nodes: impl Iterator<Item = &'n String>,
) -> Result<(), Error> {
    let (mut nodes, known) = (nodes, imagined.read_any().nodes);
    match nodes.find(|name| known.find(name).is_none()) {
        Some(name) => Err(Error::NoNode(name.clone())),
        None => Ok(()),
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
                index: i32::try_from(index).unwrap_or(i32::MAX),
            });
        }
    }
    faults.at_most(list, limits, Limit::Replicas, replicas);
    let (mut templates, list) = (wire.templates, path.field("templates"));
    check_templates(&mut templates, list, limits, faults);
    NeedOptions {
        pods,
        pending: wire.pending.then_some(wire.namespace),
        templates,
        limits: limits.clone(),
    }
}

/// Checks node templates, and names them.
fn check_templates(
    templates: &mut [v1::NodeTemplate],
    list: Path<'_>,
    limits: &Limits,
    faults: &mut Violations,
) {
    if templates.is_empty() {
        faults.add(list, "is required");
    }
    let mut combinations: usize = 0;
    let mut seen = HashSet::new();
    for (index, it) in templates.iter_mut().enumerate() {
        let path = list.index(index);
        for (field, text) in [("name", &it.name), ("node", &it.node)] {
            request::check_length(text, path.field(field), limits, faults);
        }
        if it.node.is_empty() == it.object.is_none() {
            faults.add(path, "must have either node or object");
        }
        if it.name.is_empty() {
            let own = it.object.as_ref().and_then(|node| node.metadata.as_ref());
            it.name = own.map_or_else(|| it.node.clone(), |own| own.name.clone());
        }
        if let Some(node) = &mut it.object {
            it.name
                .clone_into(&mut node.metadata.get_or_insert_default().name);
            let object = Some(v1::change::Object::Node(node.clone()));
            let changes = vec![v1::Change { object }];
            faults.collect(Batch::check(changes, limits, path.field("object")));
        }
        if it.name.is_empty() {
            faults.add(path.field("name"), "is required");
        } else if !seen.insert(it.name.clone()) {
            faults.add(path.field("name"), "is that of another template");
        }
        let mut keys = HashSet::new();
        let mut own: usize = 1;
        let list = path.field("domains");
        if it.domains.len() > MOST_COMBINATIONS {
            faults.add(list, format!("must have at most {MOST_COMBINATIONS} keys"));
        }
        for (index, of) in it.domains.iter().enumerate() {
            let path = list.index(index);
            if of.values.is_empty() {
                faults.add(path.field("values"), "is required");
            }
            for (at, value) in of.values.iter().enumerate() {
                let labels = BTreeMap::from([(of.topology_key.clone(), value.clone())]);
                names::check_labels(&labels, path.field("values").index(at), faults);
            }
            own = own.saturating_mul(of.values.len());
            if !keys.insert(&of.topology_key) {
                faults.add(path.field("topologyKey"), "is in the list more than once");
            }
        }
        combinations = combinations.saturating_add(own);
        if !(0..=MOST_PRICE).contains(&it.price) {
            faults.add(path.field("price"), format!("must be 0 to {MOST_PRICE}"));
        }
    }
    if combinations > MOST_COMBINATIONS {
        let rule = format!("must have at most {MOST_COMBINATIONS} combinations of domains");
        faults.add(list, rule);
    }
}
