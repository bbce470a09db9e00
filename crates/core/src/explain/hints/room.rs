//! Hints about nodes without enough room, about the amounts that would be enough, and about nodes that
//! refuse the pod because of nominated pods.

use std::collections::BTreeMap;

use crate::explain::case::{Case, JudgedNode};
use crate::explain::words::{Diagnosis, among, general_hint, number, plural, so_many, verb};
use crate::matching::{Resource, Shortage};
use crate::proto::v1::hint::Kind;
use crate::proto::{count, v1};
use crate::snapshot::Stopped;
use crate::spread::NominatedOn;

/// The most node names in the data of a hint.
const LISTED: usize = 10;

/// The nodes that have too little of a resource.
struct Lacking<'a> {
    nodes: usize,
    /// The number of nodes that would have too little even without pods.
    too_small: usize,
    /// The node that is nearest to having enough.
    nearest: LackingNode<'a>,
    /// The nodes as near as that one, if they lack nothing else.
    near: Vec<&'a str>,
}

/// A node that has too little of a resource.
struct LackingNode<'a> {
    name: &'a str,
    shortage: Shortage,
    /// True if the node refuses the pod for no other reason, so that more of the resource would
    /// help.
    is_alone: bool,
}

impl<'a> Lacking<'a> {
    fn of(nearest: LackingNode<'a>) -> Self {
        Self {
            nodes: 0,
            too_small: 0,
            near: Vec::new(),
            nearest,
        }
    }

    fn note(&mut self, node: LackingNode<'a>) {
        self.nodes += 1;
        self.too_small += usize::from(node.shortage.is_final);
        let distance = |node: &LackingNode<'_>| (!node.is_alone, node.shortage.missing);
        let farther = distance(&node).cmp(&distance(&self.nearest));
        if farther.is_lt() {
            self.near.clear();
        }
        if farther.is_le() && node.is_alone {
            self.near.push(node.name);
        }
        if farther.is_lt() {
            self.nearest = node;
        }
    }

    /// Returns the finding about the nodes, beside which this many are feasible.
    fn diagnosis(&self, feasible: usize) -> Diagnosis {
        let least = &self.nearest.shortage;
        let (would, admitted) = match self.near.len() {
            0 => (useless(least), 0),
            more => (useful(least, &self.near), feasible + more),
        };
        let message = scarcity(least, self.nodes, self.too_small) + &would;
        let near = self.near.iter().take(LISTED);
        let hint = v1::Hint {
            admitted_node_count: count(admitted),
            shortage: Some(v1::Shortage {
                resource: least.of.as_str().to_owned(),
                requested: least.of.quantity(least.asked),
                node_count: count(self.nodes),
                too_small_node_count: count(self.too_small),
                missing: least.of.quantity(least.missing),
                nodes: near.map(|name| (*name).to_owned()).collect(),
            }),
            ..general_hint(Kind::Room, message)
        };
        let helps = feasible == 0 && self.nearest.is_alone;
        let remedy = helps.then(|| remedy(&self.nearest));
        Diagnosis { hint, remedy }
    }
}

/// Returns a hint for each resource that some nodes have too little of. It says which amount would
/// let the pod onto a node that refuses the pod for no other reason.
pub fn room(case: &Case<'_>) -> Result<Vec<Diagnosis>, Stopped> {
    let mut all: BTreeMap<Resource, Lacking<'_>> = BTreeMap::new();
    for short in case.shortages() {
        let (node, shortages) = short?;
        let is_alone = shortages.len() == 1 && case.admits_beside_checks(node);
        // If a node takes no pods at all, no pod can leave it.
        let is_closed = |shortage: &Shortage| shortage.of == Resource::Pods && shortage.is_final;
        for shortage in shortages {
            let lacking = || LackingNode {
                name: node.name,
                is_alone: is_alone && !is_closed(&shortage),
                shortage: shortage.clone(),
            };
            let of = all.entry(shortage.of.clone());
            of.or_insert_with(|| Lacking::of(lacking())).note(lacking());
        }
    }
    let feasible = case.feasible_count();
    let found = all.values().map(|lacking| lacking.diagnosis(feasible));
    let mut found: Vec<Diagnosis> = found.collect();
    // Shortages with a remedy come first.
    found.sort_by_key(|found| found.hint.admitted_node_count == 0);
    Ok(found)
}

/// Says on how many nodes there is too little of the resource.
fn scarcity(least: &Shortage, nodes: usize, too_small: usize) -> String {
    let have = so_many(nodes, "node", "has", "have");
    let even = |what: &str| match too_small {
        0 => String::new(),
        all if all == nodes => format!(", {what}"),
        some => format!(", {some} of them {what}"),
    };
    match &least.of {
        Resource::Pods => format!(
            "{have} as many pods as {}{}",
            verb(nodes, "it takes", "they take"),
            even("which is none"),
        ),
        resource => format!(
            "{have} too little {} for the {} that it requests{}",
            resource.as_str(),
            least.of.quantity(least.asked),
            even("even without pods"),
        ),
    }
}

/// Says which amount would let the pod onto these nodes.
fn useful(least: &Shortage, names: &[&str]) -> String {
    let onto = match names.len() {
        1 => names[0].to_owned(),
        nodes => format!("{nodes} of them ({})", among(names)),
    };
    let missing = least.of.quantity(least.missing);
    let change = match (&least.of, smaller_request(least)) {
        (Resource::Pods, _) => format!("{} fewer", plural(least.missing, "pod")),
        (_, Some(request)) => {
            format!("{missing} more, or a request of {request},")
        }
        (_, None) => format!("{missing} more"),
    };
    format!(": {change} would let it onto {onto}")
}

/// Says that no node lacks only this resource.
fn useless(least: &Shortage) -> String {
    let missing = least.of.quantity(least.missing);
    match &least.of {
        Resource::Pods => ", and fewer pods alone would let it onto none of them".to_owned(),
        resource => format!(
            ": {missing} or more is missing, and more {} alone would let it onto none of them",
            resource.as_str()
        ),
    }
}

/// The request reduced by the missing amount, if anything remains.
fn smaller_request(least: &Shortage) -> Option<String> {
    let less = least.asked - least.missing;
    (less > 0).then(|| least.of.quantity(less))
}

/// Returns the remedy for a node that lacks nothing else.
fn remedy(node: &LackingNode<'_>) -> String {
    let (name, least) = (node.name, &node.shortage);
    let missing = least.of.quantity(least.missing);
    match &least.of {
        Resource::Pods => format!("make room for {} on {name}", plural(least.missing, "pod")),
        resource if least.is_final => {
            let asked = least.of.quantity(least.asked);
            format!("add a node with {asked} of {} for it", resource.as_str())
        }
        resource => {
            format!(
                "free {missing} of {} on {name}, or add a node",
                resource.as_str()
            )
        }
    }
}

/// Finds nodes where pods of a lower priority hold the room. kube-scheduler evicts such pods.
pub fn preemption(case: &Case<'_>) -> Result<Vec<Diagnosis>, Stopped> {
    if !case.is_stuck() {
        return Ok(Vec::new());
    }
    let freed = case.freed_by_preemption()?;
    let names: Vec<&str> = freed.iter().map(|node| node.name).collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let on = among(&names);
    let hint = v1::Hint {
        admitted_node_count: count(names.len()),
        ..general_hint(
            Kind::Preemption,
            format!(
                "pods of a lower priority hold the room on {on}: kube-scheduler would evict some of them \
                 (preemption), and the pod would go there"
            ),
        )
    };
    let remedy = format!(
        "kube-scheduler would make room by preemption, which evicts pods of a lower priority on {on}"
    );
    Ok(vec![Diagnosis {
        hint,
        remedy: Some(remedy),
    }])
}

/// The highest priority that Kubernetes lets users give.
const HIGHEST_OF_USERS: i32 = 1_000_000_000;

/// Finds nodes that refuse the pod only because of pods nominated to them, and the priority with
/// which the pod would go first.
pub fn nominated(case: &Case<'_>) -> Vec<Diagnosis> {
    let is_kept_off = |node: &&JudgedNode<'_>| {
        let refusal = node.refusal.as_ref();
        refusal.is_some_and(|refusal| refusal.nominated_pods > 0)
    };
    let nodes: Vec<&JudgedNode<'_>> = case.nodes.iter().filter(is_kept_off).collect();
    let on = nodes.iter().filter_map(|node| case.nominated_on(node));
    let pods = on.flat_map(NominatedOn::pods);
    let priorities: Vec<i32> = pods.map(|pod| pod.priority).collect();
    let Some(highest) = priorities.iter().copied().max() else {
        return Vec::new();
    };
    let names: Vec<&str> = nodes.iter().map(|node| node.name).collect();
    let mut message = format!(
        "{} ({}) would take it but for {} nominated there, which {} of at least its priority and \
         {} as if {} there",
        plural(nodes.len(), "node"),
        among(&names),
        match priorities.len() {
            1 => "a pod".to_owned(),
            pods => plural(pods, "pod"),
        },
        verb(priorities.len(), "is", "are"),
        verb(priorities.len(), "counts", "count"),
        verb(priorities.len(), "it were", "they were"),
    );
    let (mut admitted, mut remedy) = (0, None);
    if highest < HIGHEST_OF_USERS {
        let above = format!("a priority above {}", number(highest));
        let onto = plural(nodes.len(), "node");
        message.push_str(&format!(". With {above} it could go to {onto} more"));
        admitted = count(case.feasible_count() + nodes.len());
        remedy = case
            .is_stuck()
            .then(|| format!("give it {above}, which lets it onto {onto}"));
    }
    let hint = v1::Hint {
        admitted_node_count: admitted,
        ..general_hint(Kind::NominatedPods, message)
    };
    vec![Diagnosis { hint, remedy }]
}
