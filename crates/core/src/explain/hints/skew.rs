//! Hints for the case that no node is feasible: the smallest changes with which a constraint would
//! admit a node that passes all other constraints.

use std::collections::HashSet;

use crate::explain::case::{Case, Hard, JudgedNode, all_nodes, values};
use crate::explain::words::{Diagnosis, among, hint, joined, plural, quoted, suggest};
use crate::matching::{Action, Constraint, Path};
use crate::proto::v1;
use crate::proto::v1::hint::Kind;
use crate::snapshot::{Limits, NodeRef, Slot, Stopped};
use crate::spread::{Question, SkewRule};

/// Finds the smallest `maxSkew` that would admit a node.
pub fn max_skew(case: &Case<'_>, hard: &Hard<'_>) -> Result<Option<Diagnosis>, Stopped> {
    // The skew of the node includes the pods nominated to it.
    let skews = nearly(case, hard)?.filter_map(|(_, node)| Some(node.refusal.as_ref()?.skew));
    let Some(Ok(max_skew)) = skews.min().map(i32::try_from) else {
        return Ok(None);
    };
    let revise = |constraint: &mut Constraint, _: &mut _| constraint.max_skew = max_skew;
    let revised = case.revised(hard.active(), revise);
    let after = case.admitted_with(&revised)?;
    let values = values(after.iter().copied(), hard.key());
    let nodes = plural(after.len(), "node");
    let message = format!(
        "maxSkew {max_skew} is the smallest with which {} admits a node: {nodes} ({values}); \
         it is {} now",
        hard.title(),
        hard.rule.max_skew,
    );
    let mut hint = hint(Kind::MaxSkew, hard.active(), message);
    suggest(&mut hint, &revised.all[hard.active().index], after.len());
    let mut remedy = format!(
        "set maxSkew to {max_skew} on {}, which lets it onto {nodes}",
        hard.title()
    );
    if case.waiting > 1 {
        let all = for_all(case, hard, max_skew)?;
        hint.message.push_str(&format!(". {all}"));
        remedy = format!("change {}: {all}", hard.title());
    }
    Ok(Some(Diagnosis {
        hint,
        remedy: (!after.is_empty()).then_some(remedy),
    }))
}

/// Says how many of the waiting pods find a node with this maxSkew, with the smallest one that brings as
/// much as `ScheduleAnyway`, and with that.
fn for_all(case: &Case<'_>, hard: &Hard<'_>, max_skew: i32) -> Result<String, Stopped> {
    let placed = |revise: &dyn Fn(&mut Constraint)| {
        let revised = case.revised(hard.active(), |constraint, _| revise(constraint));
        case.placed(&revised, None)
    };
    let anyway = placed(&|constraint| {
        constraint.action = Action::ScheduleAnyway;
        constraint.min_domains = None;
    })?;
    let with = |max_skew: i32| placed(&|constraint| constraint.max_skew = max_skew);
    let next = with(max_skew)?;
    // With `high` all are placed that can be.
    let waiting = i32::try_from(case.waiting).unwrap_or(i32::MAX);
    let (mut low, mut high) = (max_skew, max_skew.saturating_add(waiting));
    let is_enough = next >= anyway || with(high)? >= anyway;
    if next >= anyway {
        high = low;
    }
    while is_enough && high - low > 1 {
        let middle = low + (high - low) / 2;
        match with(middle)? >= anyway {
            true => high = middle,
            false => low = middle,
        }
    }
    let last = match is_enough {
        true => format!("maxSkew {high} or ScheduleAnyway"),
        false => "ScheduleAnyway".to_owned(),
    };
    let mut settings = vec![(last, anyway)];
    if next < anyway {
        settings.insert(0, (format!("maxSkew {max_skew}"), next));
    }
    let all = case.waiting;
    let said = settings.into_iter().enumerate();
    let said = said.map(|(index, (setting, placed))| match (index, placed == all) {
        (0, true) => format!("{setting} lets all {all} pods that wait be placed"),
        (0, false) => format!("{setting} lets {placed} of the {all} pods that wait be placed"),
        (_, true) => format!("{setting} all of them"),
        (_, false) => format!("{setting} {placed}"),
    });
    Ok(joined(&said.collect::<Vec<_>>()))
}

/// Finds how many pods would have to leave a domain, and which domain. The other constraints have
/// to admit the node no matter which of the matching pods leave.
pub fn fewer_pods(case: &Case<'_>, hard: &Hard<'_>) -> Result<Option<Diagnosis>, Stopped> {
    let fits = |(value, node): &(&str, &JudgedNode<'_>)| {
        let leaving = hard.count(value) - hard.rule.limit();
        hard.rule.limit() >= 0 && others_outlast(case, hard, node, leaving)
    };
    let found = nearly(case, hard)?.filter(|near| is_by_domain(case, near));
    let found = found.filter(fits);
    let Some((value, node)) = found.min_by_key(|(value, _)| hard.count(value)) else {
        return Ok(None);
    };
    let leaving = hard.count(value) - hard.rule.limit();
    if movable_out_of(case, hard, value)? < leaving {
        return Ok(None);
    }
    let pods = plural(leaving, "matching pod");
    let value_text = quoted(value);
    let message = format!(
        "{pods} fewer in {value_text} would let it onto {}: {} counts {} there and {}",
        node.name,
        hard.title(),
        hard.count(value),
        match hard.rule.limit() {
            0 => "allows none".to_owned(),
            limit => format!("allows {limit}"),
        },
    );
    let mut hint = hint(Kind::FewerPods, hard.active(), message);
    hint.domain = value.to_owned();
    hint.domain_changes = vec![change(value, -leaving)];
    Ok(Some(Diagnosis {
        hint,
        remedy: Some(format!("move {pods} out of {value_text}")),
    }))
}

/// Returns how many matching pods in a domain could run outside of it: they are tied neither to their
/// node, nor to storage, nor to the domain.
fn movable_out_of(case: &Case<'_>, hard: &Hard<'_>, value: &str) -> Result<i64, Stopped> {
    let Some(pods) = &case.pods else {
        return Ok(0);
    };
    let counted = hard.active().counted();
    let is_there = |slot: &Slot| {
        let node = case.read_view.nodes.get(*slot);
        node.and_then(|node| node.label_text(hard.key())) == Some(value)
    };
    let groups = pods.groups().iter();
    let groups = groups.filter(|group| !pods.is_pinned(group) && !pods.use_storage(group));
    let mut movable = 0;
    for group in groups {
        if !pods.selects(counted, group)? {
            continue;
        }
        case.read_view.deadline.step(1 + group.nodes.len())?;
        let there = group.nodes.iter().filter(|slot| is_there(slot)).count();
        let path = Path::root("pod");
        let question = Question::compile(Some(&pods.pod(group)), &Limits::none(), path);
        let Some(question) = question.ok().filter(|_| there > 0) else {
            continue;
        };
        case.step()?;
        let (affinity, tolerations) = (&question.subject.affinity, &question.subject.tolerations);
        let takes = |node: NodeRef<'_>| {
            node.label_text(hard.key()).is_some_and(|it| it != value)
                && !node.unschedulable()
                && tolerations.tolerate_all(node.taints())
                && affinity.matches(node.name(), |key| node.label_text(key))
        };
        for (_, node) in all_nodes(&case.read_view) {
            case.read_view.deadline.step(affinity.per_node())?;
            if takes(node) {
                movable += there;
                break;
            }
        }
    }
    Ok(i64::try_from(movable).unwrap_or(i64::MAX))
}

/// Finds how many pods would have to arrive in which domains to raise the minimum. `None` if such a
/// domain can take no pod, if `minDomains` keeps the minimum at 0, or if these pods might violate
/// another constraint.
pub fn more_pods(case: &Case<'_>, hard: &Hard<'_>) -> Result<Option<Diagnosis>, Stopped> {
    if hard.report.min_domains_unmet {
        return Ok(None);
    }
    let usable = case.usable_values(hard.key());
    let found = nearly(case, hard)?.filter(|near| is_by_domain(case, near));
    let Some((value, node)) = found.min_by_key(|(value, _)| hard.count(value)) else {
        return Ok(None);
    };
    let minimum = hard.rule.minimum_to_admit(hard.count(value));
    let below = |count: i64| (count < minimum).then_some(minimum - count);
    let domains = hard.report.domains.iter().map(|domain| domain.tally);
    let arriving: Vec<(&str, i64)> = domains
        .filter_map(|tally| Some((tally.value, below(tally.matching_pods)?)))
        .collect();
    let can_arrive = |(to, _): &(&str, i64)| *to != value && usable.contains(to);
    if !arriving.iter().all(can_arrive) || in_the_way(case, hard, node, &arriving)? {
        return Ok(None);
    }
    let Some((first, _)) = arriving.first() else {
        return Ok(None);
    };
    let listed: Vec<String> = arriving
        .iter()
        .map(|(value, pods)| format!("{pods} more in {}", quoted(value)))
        .collect();
    let needed = among(&listed);
    let total: i64 = arriving.iter().map(|(_, pods)| pods).sum();
    let message = format!(
        "{} ({needed}) would lift the minimum of {} to {minimum} and let it onto {}",
        plural(total, "matching pod"),
        hard.title(),
        node.name,
    );
    let mut hint = hint(Kind::MorePods, hard.active(), message);
    hint.domain = (*first).to_owned();
    hint.domain_changes = arriving.iter().map(|(v, pods)| change(v, *pods)).collect();
    Ok(Some(Diagnosis {
        hint,
        remedy: Some(format!(
            "start {} ({needed})",
            plural(total, "matching pod")
        )),
    }))
}

fn change(value: &str, pods: i64) -> v1::DomainChange {
    v1::DomainChange {
        value: value.to_owned(),
        pods,
    }
}

/// The nodes that only this constraint may refuse, with their values of its topology key.
fn nearly<'c, 'a>(
    case: &'c Case<'a>,
    hard: &'c Hard<'a>,
) -> Result<impl Iterator<Item = (&'a str, &'c JudgedNode<'a>)>, Stopped> {
    let others = case.admitted_but_for(hard)?;
    Ok(others.filter_map(|node| Some((node.node.label_text(hard.key())?, node))))
}

/// Returns whether a node is judged only by the numbers of its domain. Nominated pods on the node
/// would add to these.
fn is_by_domain(case: &Case<'_>, (_, node): &(&str, &JudgedNode<'_>)) -> bool {
    case.nominated_on(node).is_none()
}

/// Returns whether the other constraints admit a node even if all leaving pods lower their minimum.
fn others_outlast(case: &Case<'_>, hard: &Hard<'_>, node: &JudgedNode<'_>, leaving: i64) -> bool {
    let mut others = case.other_hard(hard);
    others.all(|other| {
        let Some(value) = node.node.label_text(other.key()) else {
            return false;
        };
        let lowered = SkewRule {
            minimum: (other.rule.minimum - leaving).max(0),
            ..other.rule
        };
        lowered.admits(other.count(value))
    })
}

/// Returns whether pods that arrive in these domains may arrive in the node's domain of another
/// constraint.
fn in_the_way(
    case: &Case<'_>,
    hard: &Hard<'_>,
    node: &JudgedNode<'_>,
    arriving: &[(&str, i64)],
) -> Result<bool, Stopped> {
    let arriving: HashSet<&str> = arriving.iter().map(|(value, _)| *value).collect();
    let is_near = |near: &NodeRef<'_>| {
        let value = near.label_text(hard.key());
        value.is_some_and(|value| arriving.contains(value))
    };
    let near = all_nodes(&case.read_view)
        .map(|(_, near)| near)
        .filter(is_near);
    let near: Vec<NodeRef<'_>> = near.collect();
    for other in case.other_hard(hard) {
        case.read_view.deadline.step(near.len())?;
        let here = node.node.label_text(other.key());
        if near.iter().any(|near| near.label_text(other.key()) == here) {
            return Ok(true);
        }
    }
    Ok(false)
}
