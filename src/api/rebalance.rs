//! `Rebalance`: the pods to move.

use std::sync::Arc;

use super::answer::plan_head;
use super::error::Error;
use super::request;
use crate::limits::Limit;
use crate::matching::{Path, Selector, Violations, names};
use crate::plan::{EvictionRules, RebalanceOptions, StayingPods, rebalance};
use crate::proto::v1;
use crate::snapshot::{Batch, Imagined, Limits, Snapshot};
use crate::spread::describe::check_key;

/// Checks a request.
pub fn check(
    wire: v1::RebalanceRequest,
    limits: &Limits,
    faults: &mut Violations,
) -> Option<RebalanceOptions> {
    names::check_namespace(&wire.namespace, Path::root("namespace"), faults);
    let workload = wire.workload;
    let workload = workload.map(|workload| request::workload(workload, faults));
    if !wire.topology_key.is_empty() {
        names::check_label_key(&wire.topology_key, Path::root("topologyKey"), faults);
    }
    let at = Path::root("selector");
    let selector = wire.selector.as_ref();
    let selector = selector.map(|it| Selector::compile(Some(it), at, faults));
    let mut most = |number: i32, field| {
        let most = usize::try_from(number);
        if most.is_err() {
            faults.add(Path::root(field), "must not be negative");
        }
        most.ok().filter(|most| *most > 0)
    };
    let most_moves = most(wire.max_moves, "maxMoves");
    let most_of_workload = most(wire.max_moves_per_workload, "maxMovesPerWorkload");
    let most_of_node = most(wire.max_moves_per_node, "maxMovesPerNode");
    let all = limits.max_replicas;
    faults.at_most(
        Path::root("maxMoves"),
        limits,
        Limit::Replicas,
        most_moves.unwrap_or(0),
    );
    let max_domains = request::max_domains(wire.max_domains, faults);
    let rules = v1::EvictionRules {
        max_unavailable: wire.max_unavailable,
        bare: wire.bare,
        stay: wire.stay,
        stay_selector: wire.stay_selector,
    };
    let rules = eviction_rules(rules, Path::root, (limits, max_domains), faults);
    let is_default = workload.is_some() && wire.namespace.is_empty();
    let namespace = names::namespace_or_default(&wire.namespace).to_owned();
    Some(RebalanceOptions {
        namespace: (is_default || !wire.namespace.is_empty()).then_some(namespace),
        workload,
        selector,
        soft: wire.soft,
        by: (!wire.topology_key.is_empty()).then(|| Arc::from(wire.topology_key)),
        most_moves: most_moves.unwrap_or(all),
        most_of_workload: most_of_workload.unwrap_or(usize::MAX),
        most_of_node: most_of_node.unwrap_or(usize::MAX),
        rules,
    })
}

/// Plans, and answers without the epoch and age of the snapshot.
///
/// # Errors
/// [`Error::NoTopologyKey`] when no node has the key, [`Error::NoWorkload`] when the workload
/// has no pods, and [`Error::Deadline`] when `is_given_up` returned true.
pub fn answer(
    options: RebalanceOptions,
    snapshot: &Snapshot,
    is_given_up: &dyn Fn() -> bool,
) -> Result<v1::RebalanceResponse, Error> {
    let plan = |imagined: &mut Imagined<'_>| {
        check_exists(&options, imagined)?;
        let (revision, defaults) = plan_head(imagined);
        Ok(v1::RebalanceResponse {
            revision,
            defaults,
            ..rebalance(imagined, &options)?
        })
    };
    snapshot.imagine(&Batch::default(), is_given_up, plan)
}

/// Checks that the topology key and the workload exist.
fn check_exists(options: &RebalanceOptions, imagined: &mut Imagined<'_>) -> Result<(), Error> {
    if let Some(key) = &options.by {
        check_key(key, &imagined.read_any())?.map_err(Error::NoTopologyKey)?;
    }
    let (Some(named), Some(namespace)) = (&options.workload, &options.namespace) else {
        return Ok(());
    };
    let pods = imagined.read(namespace).pod_groups()?;
    match options
        .rules
        .survey(&pods, namespace, Some(named))?
        .has(named)
    {
        true => Ok(()),
        false => Err(Error::no_workload(namespace, named)),
    }
}

/// The rules about the pods that a plan may evict. `at` is the path of each field.
pub(super) fn eviction_rules<'p>(
    wire: v1::EvictionRules,
    at: impl Fn(&'static str) -> Path<'p>,
    (limits, max_domains): (&Limits, usize),
    faults: &mut Violations,
) -> EvictionRules {
    let max_unavailable = wire.max_unavailable.unwrap_or(1);
    request::check_not_negative(max_unavailable.into(), at("maxUnavailable"), faults);
    let mut stay = StayingPods::new();
    for (index, pod) in wire.stay.into_iter().enumerate() {
        let list = at("stay");
        let path = list.index(index);
        names::check_namespace(&pod.namespace, path.field("namespace"), faults);
        if pod.name.is_empty() {
            faults.add(path.field("name"), "is required");
        }
        for (field, text) in [("name", &pod.name), ("reason", &pod.reason)] {
            request::check_length(text, path.field(field), limits, faults);
        }
        let namespace = names::namespace_or_default(&pod.namespace).to_owned();
        let names = stay.entry(namespace).or_default();
        names.insert(pod.name, pod.reason);
    }
    let keeps = wire.stay_selector.as_ref();
    EvictionRules {
        max_unavailable,
        moves_bare: wire.bare,
        keeps: keeps.map(|it| Selector::compile(Some(it), at("staySelector"), faults)),
        stay,
        max_domains,
        limits: limits.clone(),
    }
}
