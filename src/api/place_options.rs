//! The options of a `Place` request besides the pod: the number, the owner, and the caller's facts
//! about nodes.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::request;
use crate::limits::Limit;
use crate::matching::{Path, Violations};
use crate::proto::v1;
use crate::snapshot::Limits;
use crate::spread::{Holding, PlaceOptions};

/// The largest distance of a bonus from 0, so that no sum overflows.
const MAX_BONUS: i64 = 1_000_000_000;

/// Reads the owner of a reservation and the time for which it holds picks.
pub fn hold(
    wire: Option<&v1::Reservation>,
    limits: &Limits,
    faults: &mut Violations,
) -> Option<(String, Duration)> {
    let wire = wire?;
    let path = Path::root("reserve");
    if wire.owner.is_empty() {
        faults.add(path.field("owner"), "is required");
    }
    request::check_length(&wire.owner, path.field("owner"), limits, faults);
    if wire.ttl.is_none() {
        faults.add(path.field("ttl"), "is required, and must be positive");
    }
    let ttl = request::ttl(wire.ttl, path.field("ttl"), limits, faults)?;
    Some((wire.owner.clone(), ttl))
}

/// Returns the options that all dialects read from a request. The request has to ask for `least`
/// replicas or more.
pub fn common(
    request: &v1::PlaceRequest,
    least: i32,
    limits: &Limits,
    faults: &mut Violations,
) -> PlaceOptions {
    let replicas = replicas(request, least, limits, faults);
    let bonuses = bonuses(&request.bonuses, limits, faults);
    let planning: v1::Planning = request::known(request.planning, Path::root("planning"), faults);
    PlaceOptions {
        replicas,
        candidates: request.candidates.as_ref().map(|c| c.names.clone()),
        bonuses,
        jointly: planning == v1::Planning::Joint,
        ..PlaceOptions::default()
    }
}

/// Returns whether no replica is to be placed if some replicas find no node.
pub fn is_all_or_nothing(request: &v1::PlaceRequest, faults: &mut Violations) -> bool {
    let path = Path::root("completeness");
    let asked: v1::Completeness = request::known(request.completeness, path, faults);
    asked == v1::Completeness::AllOrNothing
}

/// Returns the number of replicas of all workloads together; 0 for a request without a number.
fn replicas(
    request: &v1::PlaceRequest,
    least: i32,
    limits: &Limits,
    faults: &mut Violations,
) -> usize {
    let path = Path::root("replicas");
    if request.workloads.is_empty() {
        let replicas = replicas_at(request.replicas, least, path, faults);
        faults.at_most(path, limits, Limit::Replicas, replicas);
        return replicas;
    }
    for (name, is_set) in [
        ("pod", request.pod.is_some()),
        ("replicas", request.replicas != 0),
    ] {
        if is_set {
            faults.add(Path::root(name), "must not be set with workloads");
        }
    }
    let list = Path::root("workloads");
    let replicas = request.workloads.iter().enumerate().map(|(index, it)| {
        let path = list.index(index);
        replicas_at(it.replicas, 1, path.field("replicas"), faults)
    });
    let replicas = replicas.fold(0, usize::saturating_add);
    faults.at_most(list, limits, Limit::Replicas, replicas);
    replicas
}

fn replicas_at(wire: i32, least: i32, path: Path<'_>, faults: &mut Violations) -> usize {
    if wire < least {
        let required = if wire == 0 { "is required, and " } else { "" };
        faults.add(path, format!("{required}must be at least {least}"));
    }
    usize::try_from(wire).unwrap_or(0)
}

/// Returns the nodes that a request has facts about.
pub fn named(request: &v1::PlaceRequest) -> Vec<String> {
    let bonuses = request.bonuses.iter().map(|bonus| &bonus.node);
    let capacities = request.capacities.iter().map(|capacity| &capacity.node);
    let holders = request.holders.iter().map(|holder| &holder.node);
    let named = bonuses.chain(capacities).chain(holders);
    named.chain(&request.sticky).cloned().collect()
}

/// A list with at most one entry per node, as a map.
fn by_node<W, T>(
    list: &[W],
    field: &str,
    limits: &Limits,
    faults: &mut Violations,
    node: impl Fn(&W) -> &str,
    mut value: impl FnMut(&W, Path<'_>, &mut Violations) -> T,
) -> HashMap<String, T> {
    let path = Path::root(field);
    if !faults.within(path, limits, Limit::Nodes, list.len()) {
        return HashMap::new();
    }
    let mut map = HashMap::with_capacity(list.len());
    for (i, entry) in list.iter().enumerate() {
        let path = path.index(i);
        let name = node(entry);
        let value = value(entry, path, faults);
        if name.is_empty() {
            faults.add(path.field("node"), "is required");
        } else if name.len() > limits.max_string_bytes {
            request::check_length(name, path.field("node"), limits, faults);
        } else if map.insert(name.to_owned(), value).is_some() {
            faults.add(path.field("node"), "is in the list more than once");
        }
    }
    map
}

/// The caller's preferences, by node.
fn bonuses(
    list: &[v1::NodeBonus],
    limits: &Limits,
    faults: &mut Violations,
) -> HashMap<String, i64> {
    let value = |bonus: &v1::NodeBonus, path: Path<'_>, faults: &mut Violations| {
        if bonus.score.abs_diff(0) > MAX_BONUS.unsigned_abs() {
            let rule = format!("must be from -{MAX_BONUS} to {MAX_BONUS}");
            faults.add(path.field("score"), rule);
        }
        bonus.score
    };
    by_node(list, "bonuses", limits, faults, |b| &b.node, value)
}

/// Returns the number of further pods that fit, by node.
pub fn capacities(
    list: &[v1::NodeCapacity],
    limits: &Limits,
    faults: &mut Violations,
) -> HashMap<String, u32> {
    let value = |capacity: &v1::NodeCapacity, path: Path<'_>, faults: &mut Violations| {
        request::check_not_negative(capacity.replicas.into(), path.field("replicas"), faults);
        u32::try_from(capacity.replicas).unwrap_or(0)
    };
    by_node(list, "capacities", limits, faults, |c| &c.node, value)
}

/// Returns the known facts about holders, by cluster.
pub fn holders(
    list: &[v1::Holder],
    limits: &Limits,
    faults: &mut Violations,
) -> HashMap<String, Holding> {
    let value = |holder: &v1::Holder, path: Path<'_>, faults: &mut Violations| {
        let state: v1::HolderState = request::known(holder.state, path.field("state"), faults);
        Holding {
            bound: state != v1::HolderState::Scheduled,
            spread_score: holder.spread_score,
            bonus: holder.bonus,
        }
    };
    by_node(list, "holders", limits, faults, |h| &h.node, value)
}

/// The clusters that held the placement before.
pub fn sticky(list: &[String], limits: &Limits, faults: &mut Violations) -> HashSet<String> {
    let names = by_node(list, "sticky", limits, faults, |name| name, |_, _, _| ());
    names.into_keys().collect()
}
