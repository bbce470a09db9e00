//! `Rebalance`: the pods to move.

use std::sync::Arc;

use super::answer::{count, plan_head};
use super::describe::topology_spread;
use super::error::Error;
use super::request;
use crate::limits::Limit;
use crate::matching::{Path, Selector, Violations, names};
use crate::plan::{
    Blocker, BlockerKind, EvictionRules, PlannedMove, RebalanceOptions, RebalancePlan,
    RebalancedWorkload, StayingPods,
};
use crate::proto::v1;
use crate::snapshot::{Batch, Imagined, Limits, Snapshot};
use crate::spread::describe::{JudgedWorkload, WorkloadId, check_key};

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
        let head = plan_head(imagined);
        Ok::<_, Error>((head, RebalancePlan::of(imagined, &options)?))
    };
    let ((revision, defaults), plan) = snapshot.imagine(&Batch::default(), is_given_up, plan)?;
    let workloads = plan.workloads.into_iter();
    Ok(v1::RebalanceResponse {
        revision,
        moves: plan.moves.into_iter().map(pod_move).collect(),
        workloads: workloads
            .map(|((namespace, id), it)| rebalanced(namespace, id, it))
            .collect(),
        optimal: plan.is_least,
        capped: plan.is_capped,
        defaults,
        ..Default::default()
    })
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
    match options.survey(&pods, namespace)?.has(named) {
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

pub(super) fn pod_move(planned: PlannedMove) -> v1::PodMove {
    let effect = |effect: crate::plan::MoveEffect| v1::MoveEffect {
        topology_key: effect.topology_key,
        from_value: effect.from.0,
        from_pods: effect.from.1,
        to_value: effect.to.0,
        to_pods: effect.to.1,
    };
    let made_by = planned.made_by.map_or(0, |at| at.saturating_add(1));
    v1::PodMove {
        namespace: planned.namespace,
        pod: planned.pod,
        uid: planned.uid,
        from: planned.from,
        to: planned.to,
        workload: Some(v1::WorkloadName {
            kind: planned.workload.kind,
            name: planned.workload.name,
            selector: None,
        }),
        why: planned.effects.into_iter().map(effect).collect(),
        successor_of: i32::try_from(made_by).unwrap_or(i32::MAX),
        waits_for_node: planned.waits_for_node,
    }
}

pub(super) fn rebalanced(
    namespace: String,
    id: WorkloadId,
    it: RebalancedWorkload,
) -> v1::RebalancedWorkload {
    let spread =
        |judged: JudgedWorkload| judged.balances.into_iter().map(topology_spread).collect();
    v1::RebalancedWorkload {
        namespace,
        kind: id.kind,
        name: id.name,
        labels: id.labels,
        move_count: count(it.moves),
        fault: it.before.fault.clone().unwrap_or_default(),
        selected_count: count(it.before.selected),
        before: spread(it.before),
        after: it.after.map(spread).unwrap_or_default(),
        blockers: it.blockers.into_iter().map(blocker).collect(),
    }
}

/// The kind of a blocker, for the wire.
pub(super) fn blocker_kind(kind: BlockerKind) -> v1::move_blocker::Kind {
    use v1::move_blocker::Kind;
    match kind {
        BlockerKind::Constraint => Kind::Constraint,
        BlockerKind::Node => Kind::Node,
        BlockerKind::Room => Kind::Room,
        BlockerKind::Budget => Kind::Budget,
        BlockerKind::Pod => Kind::Pod,
        BlockerKind::Cap => Kind::Cap,
    }
}

fn blocker(it: Blocker) -> v1::MoveBlocker {
    v1::MoveBlocker {
        kind: blocker_kind(it.kind).into(),
        topology_key: it.topology_key,
        domain: it.domain,
        text: it.text,
        count: count(it.count),
    }
}
