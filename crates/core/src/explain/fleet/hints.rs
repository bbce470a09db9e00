//! The hints of the Fleet dialect.

use std::collections::BTreeSet;

use super::case::{JudgedCluster, PlacementCase};
use crate::explain::case::all_nodes;
use crate::explain::diagnosis::{Diagnosis, count, hint, title, wire_index};
use crate::explain::hints::empty_values;
use crate::explain::words::{among, joined, plural, quoted, verb};
use crate::proto::v1;
use crate::proto::v1::hint::Kind;
use crate::snapshot::{NodeRef, Stopped};
use crate::spread::Active;
use crate::spread::fleet::{HolderSpread, to_wire};

/// All hints of a case, the most useful first.
pub fn all(case: &PlacementCase<'_>) -> Result<Vec<Diagnosis>, Stopped> {
    type Find = fn(&PlacementCase<'_>, &HolderSpread<'_>) -> Option<Diagnosis>;
    let found = |find: Find, is_of_hard: bool| -> Result<Vec<Diagnosis>, Stopped> {
        let spreads = case.spreads.iter();
        let spreads = spreads.filter(|it| !is_of_hard || it.active.constraint.is_hard());
        let find = |spread| {
            let deadline = case.read_view.deadline;
            deadline.step(case.read_view.nodes.len())?;
            Ok(find(case, spread))
        };
        spreads.map(find).filter_map(Result::transpose).collect()
    };
    let mut hints = found(skew_too_large, true)?;
    hints.extend(found(unusable_domain, true)?);
    hints.extend(greedy(case));
    hints.extend(found(max_skew, true)?);
    hints.extend(found(
        |_, spread| Some(mismatch(&spread.active)?.into()),
        false,
    )?);
    hints.extend(found(missing_key, false)?);
    let empty: Find = |case, spread| empty_values(&case.read_view, &spread.active, "cluster", "");
    hints.extend(found(empty, false)?);
    for spread in case.spreads {
        hints.extend(terminating(case, spread)?);
    }
    hints.extend(found(soft, false)?);
    Ok(hints)
}

/// Finds a constraint whose skew stays above `maxSkew` after any pick. KubeFleet refuses even
/// clusters that reduce the skew, because it checks the resulting skew, not the change. A new,
/// empty domain beside full ones causes this.
fn skew_too_large(case: &PlacementCase<'_>, spread: &HolderSpread<'_>) -> Option<Diagnosis> {
    if !admits_nothing(spread) {
        return None;
    }
    let report = spread.report(usize::MAX);
    let first = report.domains.first()?.tally;
    let largest = report.domains.last()?.tally;
    let least = report.domains.iter().map(|domain| domain.skew).min()?;
    let max_skew = i32::try_from(least).ok()?;
    let open = case.open_with(spread, max_skew);
    let message = format!(
        "{} has {} in {} and {} in {}, a skew of {}, and any pick would leave it at {least} \
         or more: KubeFleet refuses all clusters, those too that would shrink it. maxSkew: \
         {least} would admit {}",
        title(&spread.active),
        first.matching_pods,
        quoted(first.value),
        largest.matching_pods,
        quoted(largest.value),
        largest.matching_pods - first.matching_pods,
        plural(open, "cluster"),
    );
    let remedy = (open > 0).then(|| format!("set maxSkew to {least} until it has evened out"));
    Some(suggesting(
        spread,
        Kind::FleetSkewTooLarge,
        message,
        (max_skew, open),
        remedy,
    ))
}

/// Returns whether a constraint refuses all domains.
fn admits_nothing(spread: &HolderSpread<'_>) -> bool {
    let domains = spread.report(usize::MAX).domains;
    !domains.is_empty() && domains.iter().all(|domain| !domain.feasible)
}

/// A hint that suggests another max skew, which would admit `open` clusters.
fn suggesting(
    spread: &HolderSpread<'_>,
    kind: Kind,
    message: String,
    (max_skew, open): (i32, usize),
    remedy: Option<String>,
) -> Diagnosis {
    let mut hint = hint(kind, &spread.active, message);
    if open > 0 {
        hint.suggested_constraint = Some(v1::TopologySpreadConstraint {
            max_skew,
            ..to_wire(&spread.active)
        });
        hint.admitted_node_count = count(open);
    }
    Diagnosis { hint, remedy }
}

/// Finds a constraint whose domains with the fewest holders have no cluster that can be picked.
/// Their counts stay, which limits all other domains.
fn unusable_domain(case: &PlacementCase<'_>, spread: &HolderSpread<'_>) -> Option<Diagnosis> {
    let report = spread.report(usize::MAX);
    let key = &*spread.active.constraint.topology_key;
    let lowest = report.lowest();
    let values = case
        .pickable()
        .filter_map(|cluster| cluster.node.label_text(key));
    let pickable: BTreeSet<&str> = values.collect();
    let refused = |cluster: &JudgedCluster<'_>| !spread.admits(cluster.slot);
    if lowest.is_empty()
        || lowest.iter().any(|value| pickable.contains(value))
        || !case.pickable().any(refused)
    {
        return None;
    }
    let max_skew = i64::from(spread.active.constraint.max_skew);
    let message = format!(
        "{} of {} {} at {} and cannot grow: {}. No other domain gets past {}",
        among(&lowest),
        title(&spread.active),
        verb(lowest.len(), "stays", "stay"),
        report.global_minimum,
        unusable_clusters(case, key, &lowest),
        report.global_minimum + max_skew,
    );
    let mut hint = hint(Kind::FleetUnusableDomain, &spread.active, message);
    hint.domain = lowest[0].to_owned();
    Some(hint.into())
}

/// The reasons why the clusters of some domains cannot be picked.
fn unusable_clusters(case: &PlacementCase<'_>, key: &str, values: &[&str]) -> String {
    let inside = |node: NodeRef<'_>| {
        let value = node.label_text(key);
        value.is_some_and(|value| values.contains(&value))
    };
    let all = all_nodes(&case.read_view).filter(|(_, node)| inside(*node));
    let judged = || case.clusters.iter().filter(|cluster| inside(cluster.node));
    let hold = judged().filter(|cluster| cluster.holds).count();
    let unfit = judged().filter(|cluster| !cluster.holds && !cluster.passes);
    let unfit = unfit.count();
    let said = [
        (
            hold,
            "holds the placement already",
            "hold the placement already",
        ),
        (
            unfit,
            "is cordoned, tainted or excluded by affinity",
            "are cordoned, tainted or excluded by affinity",
        ),
        (
            all.count().saturating_sub(judged().count()),
            "is no candidate",
            "are no candidates",
        ),
    ];
    let said = said.into_iter().filter(|(clusters, ..)| *clusters > 0);
    let said = said.map(|(clusters, one, many)| {
        format!("{clusters} of its clusters {}", verb(clusters, one, many))
    });
    joined(&said.collect::<Vec<_>>())
}

/// Finds the dead end in which no cluster can be picked, although each of several hard constraints
/// admits some. Another order of picks might have reached more.
fn greedy(case: &PlacementCase<'_>) -> Option<Diagnosis> {
    let hard: Vec<&HolderSpread<'_>> = case.hard().collect();
    if hard.len() < 2 || case.open_count() > 0 || case.pickable().next().is_none() {
        return None;
    }
    let admitted = |spread: &HolderSpread<'_>| {
        let admits = |cluster: &&JudgedCluster<'_>| spread.admits(cluster.slot);
        case.pickable().filter(admits).count()
    };
    let counts: Vec<(&HolderSpread<'_>, usize)> = hard.iter().map(|s| (*s, admitted(s))).collect();
    if counts.iter().any(|(_, clusters)| *clusters == 0) {
        return None;
    }
    let said: Vec<String> = counts
        .iter()
        .map(|(spread, clusters)| {
            let clusters = plural(*clusters, "cluster");
            format!("{} admits {clusters}", title(&spread.active))
        })
        .collect();
    let message = format!(
        "{}, but no cluster satisfies all {}: KubeFleet picks one cluster after the other and \
         never moves a pick, so another order of picks might have reached more",
        joined(&said),
        hard.len(),
    );
    let (first, second) = (hard[0], hard[1]);
    let mut hint = hint(Kind::FleetGreedy, &first.active, message);
    hint.other_constraint_index = wire_index(&second.active);
    Some(hint.into())
}

/// If no cluster can be picked, suggests the smallest `maxSkew` that admits one.
fn max_skew(case: &PlacementCase<'_>, spread: &HolderSpread<'_>) -> Option<Diagnosis> {
    if case.open_count() > 0 {
        return None;
    }
    let others = |cluster: &&JudgedCluster<'_>| {
        let mut others = case
            .hard()
            .filter(|o| o.active.index != spread.active.index);
        others.all(|other| other.admits(cluster.slot))
    };
    let after = |cluster: &JudgedCluster<'_>| spread.skew_with(cluster.slot);
    let least = case.pickable().filter(others).map(after).min()?;
    let max_skew = i32::try_from(least).ok()?;
    if admits_nothing(spread) {
        // `skew_too_large` gives that hint.
        return None;
    }
    let open = case.open_with(spread, max_skew);
    let clusters = plural(open, "cluster");
    let message = format!(
        "maxSkew {least} is the smallest with which {} admits a cluster: {clusters}; it is \
         {} now",
        title(&spread.active),
        spread.active.constraint.max_skew,
    );
    let remedy = (open > 0).then(|| {
        format!(
            "set maxSkew to {least} on {}, which admits {clusters}",
            title(&spread.active)
        )
    });
    Some(suggesting(
        spread,
        Kind::MaxSkew,
        message,
        (max_skew, open),
        remedy,
    ))
}

/// Finds a selector that does not match the placement, so picks are not counted.
pub fn mismatch(active: &Active) -> Option<v1::Hint> {
    let message = format!(
        "the selector of {} does not match the placement's own labels: clusters that it picks are \
         not counted",
        title(active)
    );
    (active.self_match == 0).then(|| hint(Kind::SelfMismatch, active, message))
}

/// Finds clusters without the key. They are in no domain and are never refused.
fn missing_key(case: &PlacementCase<'_>, spread: &HolderSpread<'_>) -> Option<Diagnosis> {
    let key = &*spread.active.constraint.topology_key;
    let lacks = |cluster: &&JudgedCluster<'_>| cluster.node.label_text(key).is_none();
    let names = case.clusters.iter().filter(lacks);
    let names: Vec<&str> = names.map(|cluster| cluster.node.name()).collect();
    if names.is_empty() {
        return None;
    }
    let message = format!(
        "{} of {} {} the label {key}: {} never refuses them and counts them nowhere ({})",
        names.len(),
        plural(case.clusters.len(), "cluster"),
        verb(names.len(), "lacks", "lack"),
        title(&spread.active),
        among(&names),
    );
    Some(hint(Kind::MissingKey, &spread.active, message).into())
}

/// Finds matching placements that are being deleted, which are not counted.
fn terminating(
    case: &PlacementCase<'_>,
    spread: &HolderSpread<'_>,
) -> Result<Option<Diagnosis>, Stopped> {
    let mut ending = 0;
    for terminating in case.read_view.terminating(spread.active.counted()) {
        let (_, pods) = terminating?;
        ending += pods as usize;
    }
    if ending == 0 {
        return Ok(None);
    }
    let message = format!(
        "{} that {} matches {} terminating and not counted any more",
        plural(ending, "placement"),
        title(&spread.active),
        verb(ending, "is", "are"),
    );
    Ok(Some(
        hint(Kind::TerminatingPods, &spread.active, message).into(),
    ))
}

/// Says of a soft constraint that it reduces scores and never refuses.
fn soft(_: &PlacementCase<'_>, spread: &HolderSpread<'_>) -> Option<Diagnosis> {
    let active = &spread.active;
    let message = format!(
        "{} is ScheduleAnyway: a cluster that exceeds its maxSkew {} loses 1000 points and can \
         still be picked",
        title(active),
        active.constraint.max_skew,
    );
    (!active.constraint.is_hard()).then(|| hint(Kind::Soft, active, message).into())
}
