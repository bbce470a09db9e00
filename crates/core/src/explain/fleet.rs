//! Explanations in the Fleet dialect: clusters that hold a placement, and the dead ends of
//! KubeFleet's rules (`docs/semantics.md`, "Fleet dialect").

use std::collections::BTreeSet;

use super::Explanation;
use super::case::all_nodes;
use super::hints::empty_values;
use super::insight::{domains, first};
use super::words::{
    Diagnosis, among, hint, joined, plural, quoted, sentence, so_many, title, verb,
};
use crate::proto::v1::constraint_insight::Minimum;
use crate::proto::v1::hint::Kind;
use crate::proto::v1::left_out::Cause;
use crate::proto::{count, v1};
use crate::snapshot::{NodeRef, ReadView, Slot, Stopped};
use crate::spread::fleet::{HolderSpread, Judge, PlacementSpec, holders, score, to_wire};
use crate::spread::{Active, NodeRefusal};

/// Explains a case. Insights name the first `max_domains` domains.
pub fn explain(case: &PlacementCase<'_>, max_domains: usize) -> Result<Explanation, Stopped> {
    let findings = all_hints(case)?;
    Ok(Explanation {
        summary: summary(case, &findings),
        insights: case.insights(max_domains),
        hints: findings.into_iter().map(|finding| finding.hint).collect(),
    })
}

/// The sentence: the result, the causes, and the remedy.
fn summary(case: &PlacementCase<'_>, findings: &[Diagnosis]) -> String {
    let (open, all) = (case.open_count(), case.clusters.len());
    let verdict = match (open, all) {
        (_, 0) => return "There is no cluster to decide about.".to_owned(),
        (0, _) => format!("None of {} can be picked", plural(all, "cluster")),
        _ if open == all => format!("All {} can be picked", plural(all, "cluster")),
        _ => format!("{open} of {} can be picked", plural(all, "cluster")),
    };
    let remedy = findings.iter().find_map(|finding| finding.remedy.as_ref());
    sentence(&verdict, &causes(case), remedy.filter(|_| open == 0))
}

/// Returns the causes that keep the placement off clusters, each with its number of clusters.
fn causes(case: &PlacementCase<'_>) -> Vec<String> {
    let hold = case.clusters.iter().filter(|cluster| cluster.holds).count();
    let others = case.clusters.iter().filter(|cluster| !cluster.holds);
    let refused = others.filter_map(|cluster| cluster.verdict.as_ref().err());
    let refused_by = |index: Option<usize>| {
        let by_index = refused
            .clone()
            .filter(|refusal| refusal.constraint_index == index);
        by_index.count()
    };
    let unfit = refused_by(None);
    let over_skew = case
        .hard()
        .map(|spread| (refused_by(Some(spread.active.index)), spread));
    let mut causes: Vec<String> = over_skew
        .filter(|(clusters, _)| *clusters > 0)
        .map(|(clusters, spread)| {
            let (clusters, constraint) = (plural(clusters, "cluster"), &spread.active.constraint);
            let (key, max_skew) = (&constraint.topology_key, constraint.max_skew);
            format!("{clusters} would leave {key} with a skew above {max_skew}")
        })
        .collect();
    if unfit > 0 {
        causes.push(format!(
            "{} cordoned, tainted or excluded by affinity",
            so_many(unfit, "cluster", "is", "are")
        ));
    }
    if hold > 0 {
        causes.push(so_many(hold, "cluster", "holds", "hold") + " it already");
    }
    causes
}

/// A decision and the facts that it was made from.
pub struct PlacementCase<'a> {
    /// The constraints, hard ones first.
    pub spreads: &'a [HolderSpread<'a>],
    /// The state that the placement was decided on.
    pub read_view: ReadView<'a>,
    /// The clusters that were judged.
    pub clusters: Vec<JudgedCluster<'a>>,
}

/// A cluster and the verdict on it.
pub struct JudgedCluster<'a> {
    /// The cluster.
    pub slot: Slot,
    /// The cluster's labels and taints.
    pub node: NodeRef<'a>,
    /// The cluster's score, or the reason why it has none.
    pub verdict: Result<i64, NodeRefusal>,
    /// True if the cluster passes the checks other than spread.
    pub passes: bool,
    /// True if the cluster holds the placement already, so it cannot be picked again.
    pub holds: bool,
}

impl<'a> PlacementCase<'a> {
    /// The case of a question, for the clusters `slots`.
    pub fn of(
        question: &'a PlacementSpec,
        judge: &'a Judge<'a>,
        slots: &[Slot],
        read_view: &ReadView<'a>,
    ) -> Result<Self, Stopped> {
        let holds = holders(&question.holders, read_view)?;
        let mut clusters = Vec::new();
        for slot in slots {
            let Some(node) = read_view.nodes.get(*slot) else {
                continue;
            };
            let verdict = judge.judge(*slot)?;
            let refusal = verdict.as_ref().err();
            clusters.push(JudgedCluster {
                slot: *slot,
                node,
                passes: refusal.is_none_or(|refusal| refusal.constraint_index.is_some()),
                holds: holds(*slot),
                verdict,
            });
        }
        Ok(Self {
            spreads: &judge.spreads,
            read_view: *read_view,
            clusters,
        })
    }

    /// The hard constraints, in order.
    pub fn hard(&self) -> impl Iterator<Item = &'a HolderSpread<'a>> {
        let spreads = self.spreads.iter();
        spreads.filter(|spread| spread.active.constraint.is_hard())
    }

    /// The clusters that may be picked if the constraints admit them.
    pub fn pickable(&self) -> impl Iterator<Item = &JudgedCluster<'a>> {
        let clusters = self.clusters.iter();
        clusters.filter(|cluster| cluster.passes && !cluster.holds)
    }

    /// Returns how many clusters may be picked.
    pub fn open_count(&self) -> usize {
        self.pickable()
            .filter(|cluster| cluster.verdict.is_ok())
            .count()
    }

    /// Decides again with another max skew of a constraint. Returns how many clusters may then be
    /// picked.
    pub fn open_with(&self, changed: &HolderSpread<'_>, max_skew: i32) -> usize {
        let mut spreads = self.spreads.to_vec();
        for spread in &mut spreads {
            if spread.active.index == changed.active.index {
                spread.active.constraint.max_skew = max_skew;
            }
        }
        let admitted = |cluster: &&JudgedCluster<'_>| score(&spreads, cluster.slot).is_ok();
        self.pickable().filter(admitted).count()
    }

    /// Returns the numbers of each constraint, by index.
    pub fn insights(&self, max_domains: usize) -> Vec<v1::ConstraintInsight> {
        let spreads = self.spreads.iter();
        let insights = spreads.map(|spread| self.insight(spread, max_domains));
        let mut insights: Vec<_> = insights.collect();
        insights.sort_by_key(|insight| insight.constraint_index);
        insights
    }

    fn insight(&self, spread: &HolderSpread<'_>, max_domains: usize) -> v1::ConstraintInsight {
        let report = spread.report(usize::MAX);
        let constraint = &spread.active.constraint;
        let key = &*constraint.topology_key;
        let lowest = report.lowest();
        let usable = self.pickable().map(|cluster| cluster.node);
        let clusters = self.clusters.iter();
        let admitted = clusters.filter(|cluster| spread.admits(cluster.slot));
        v1::ConstraintInsight {
            constraint_index: spread.active.wire_index(),
            minimum: match (constraint.is_hard(), report.domain_count) {
                (false, _) => Minimum::Unspecified,
                (true, 0) => Minimum::WithoutDomains,
                (true, _) => Minimum::ByDomains,
            }
            .into(),
            minimum_domain_count: count(lowest.len()),
            minimum_domains: first(&lowest),
            limit: match constraint.is_hard() {
                true => report.global_minimum + i64::from(constraint.max_skew) - 1,
                false => 0,
            },
            admitted_node_count: count(admitted.count()),
            left_out: self.keyless(key),
            domains: domains(&report, max_domains, 1, usable),
        }
    }

    /// The clusters that a constraint does not count, which are only those without the key.
    fn keyless(&self, key: &str) -> Vec<v1::LeftOut> {
        let nodes = all_nodes(&self.read_view).map(|(_, node)| node);
        let keyless = nodes.filter(|node| node.label_text(key).is_none());
        let names: Vec<&str> = keyless.map(NodeRef::name).collect();
        if names.is_empty() {
            return Vec::new();
        }
        vec![v1::LeftOut {
            cause: Cause::MissingKey.into(),
            node_count: count(names.len()),
            nodes: first(&names),
            matching_pods: 0,
        }]
    }
}

/// All hints of a case, the most useful first.
fn all_hints(case: &PlacementCase<'_>) -> Result<Vec<Diagnosis>, Stopped> {
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
    hint.other_constraint_index = second.active.wire_index();
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
