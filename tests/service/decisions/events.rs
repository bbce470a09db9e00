//! Random histories of events after which counts must still be right: nodes, pods and views come
//! and go in any order, and some questions are asked again and again.

use evenkeel::proto::v1::{Change, Node, Pod};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::subsequence;
use support::build::{HOSTNAME, on, pod};
use support::generate;
use support::model::{Stored, delete};

/// More than the 64 domains from which on a view orders its counts.
const NODES: usize = 72;
const PODS: usize = 90;
pub(crate) const NAMESPACES: [&str; 3] = ["default", "other", "third"];

/// One event, after which some of the questions are asked.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) event: Event,
    pub(crate) asked: Vec<usize>,
}

#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// Pods come, change and go, on nodes that may not exist.
    Pods(Vec<Change>),
    /// A few nodes come, change and go: views follow them.
    Nodes(Vec<Change>),
    /// So many nodes change that views are counted anew.
    Upheaval(Vec<Change>),
    /// Many pods, each with a label set of its own, come or go at once.
    Burst { namespace: usize, add: bool },
    /// A namespace loses all of its pods and owners.
    Emptied(usize),
    /// A new state that holds every nth object of the old one.
    Replaced(usize),
    /// Views go that were not used for this many sweeps.
    Swept(u64),
    /// The questions after the event have these changes as their overlay.
    Imagined(Vec<Change>),
}

/// The number of a node. Half of the draws are among eight nodes, so that pods and changes of nodes
/// often meet.
fn node_number() -> impl Strategy<Value = usize> {
    prop_oneof![0..8_usize, 0..NODES + 4]
}

fn node_change() -> impl Strategy<Value = (usize, Option<Node>)> {
    let number = node_number().prop_map(|number| number % NODES);
    (number, prop::option::weighted(0.8, generate::node()))
}

/// Changes of nodes, at most one each.
fn nodes(count: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<Change>> {
    vec(node_change(), count).prop_map(|mut all| {
        all.sort_by_key(|(index, _)| *index);
        all.dedup_by_key(|(index, _)| *index);
        all.into_iter()
            .map(|(index, node)| node_at(index, node))
            .collect()
    })
}

fn node_at(index: usize, node: Option<Node>) -> Change {
    let name = format!("n{index}");
    let Some(mut node) = node else {
        return delete("Node", "", &name);
    };
    let metadata = node.metadata.get_or_insert_default();
    if let Some(hostname) = metadata.labels.get_mut(HOSTNAME)
        && hostname != "shared"
    {
        hostname.clone_from(&name);
    }
    metadata.name = name;
    node.change()
}

/// Adds or replaces most nodes, and deletes the others.
fn upheaval() -> impl Strategy<Value = Vec<Change>> {
    let each = vec(prop::option::weighted(0.85, generate::node()), NODES);
    each.prop_map(|all| {
        all.into_iter()
            .enumerate()
            .map(|(i, n)| node_at(i, n))
            .collect()
    })
}

fn pod_change() -> impl Strategy<Value = (usize, usize, usize, Option<Pod>)> {
    let pod = prop::option::weighted(0.75, generate::pod());
    (0..NAMESPACES.len(), 0..PODS, node_number(), pod)
}

fn pods(count: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<Change>> {
    vec(pod_change(), count).prop_map(|mut all| {
        all.sort_by_key(|(namespace, index, ..)| (*namespace, *index));
        all.dedup_by_key(|(namespace, index, ..)| (*namespace, *index));
        let change = |(namespace, index, node, pod)| pod_at(namespace, index, node, pod);
        all.into_iter().map(change).collect()
    })
}

fn pod_at(namespace: usize, index: usize, node: usize, pod: Option<Pod>) -> Change {
    let (namespace, name) = (NAMESPACES[namespace], format!("p{index}"));
    let Some(mut pod) = pod else {
        return delete("Pod", namespace, &name);
    };
    let metadata = pod.metadata.get_or_insert_default();
    metadata.name = name;
    metadata.namespace = namespace.to_owned();
    if index.is_multiple_of(3) {
        // The pod has a label set of its own, as the pods of a stateful set do.
        metadata.labels.insert("hash".into(), format!("h{index}"));
    }
    let spec = pod.spec.get_or_insert_default();
    if !spec.node_name.is_empty() {
        spec.node_name = format!("n{node}");
    }
    pod.change()
}

fn event() -> impl Strategy<Value = Event> {
    let imagined = (pods(0..6), nodes(0..8)).prop_map(|(mut pods, nodes)| {
        pods.extend(nodes);
        pods
    });
    let namespace = 0..NAMESPACES.len();
    prop_oneof![
        6 => pods(1..20).prop_map(Event::Pods),
        5 => nodes(1..12).prop_map(Event::Nodes),
        2 => upheaval().prop_map(Event::Upheaval),
        2 => (namespace.clone(), any::<bool>())
            .prop_map(|(namespace, add)| Event::Burst { namespace, add }),
        2 => namespace.prop_map(Event::Emptied),
        1 => (1..4_usize).prop_map(Event::Replaced),
        2 => (0..3_u64).prop_map(Event::Swept),
        4 => imagined.prop_map(Event::Imagined),
    ]
}

/// A history, with the few questions that are asked again and again in it.
pub(crate) fn history() -> impl Strategy<Value = (Vec<Pod>, Vec<Step>)> {
    const QUESTIONS: usize = 7;
    let asked = subsequence((0..QUESTIONS).collect::<Vec<_>>(), 1..=4);
    let step = (event(), asked).prop_map(|(event, asked)| Step { event, asked });
    let all = || (0..QUESTIONS).collect::<Vec<_>>();
    let first = (upheaval(), pods(60..PODS)).prop_map(move |(mut nodes, pods)| {
        nodes.extend(pods);
        Step {
            event: Event::Upheaval(nodes),
            asked: all(),
        }
    });
    let questions = vec(generate::incoming::pod(), QUESTIONS);
    (questions, first, vec(step, 4..12)).prop_map(|(questions, first, rest)| {
        let mut steps = vec![first];
        steps.extend(rest);
        (questions, steps)
    })
}

/// Adds or deletes the pods of a job: they share one label, and each has another of its own.
pub(crate) fn burst(namespace: &str, add: bool) -> Vec<Change> {
    let of_job = |index: usize| {
        let name = format!("job-{index}");
        if !add {
            return delete("Pod", namespace, &name);
        }
        let labels = [("app", "a"), ("hash", &*name)];
        let mut pod = on(pod(&name, &labels), &format!("n{}", index % NODES));
        pod.metadata.get_or_insert_default().namespace = namespace.to_owned();
        pod.change()
    };
    (0..40).map(of_job).collect()
}
