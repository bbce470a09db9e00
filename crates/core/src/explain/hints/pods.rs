//! Hints about pods that are counted or not counted unexpectedly, and about terms of affinity between pods
//! that keep the pod off nodes.

use std::collections::{BTreeMap, BTreeSet};

use super::constraints::differences;
use crate::explain::case::{Case, JudgedNode, value_list, values};
use crate::explain::words::{
    Diagnosis, among, general_hint, hint, joined, plural, suggest, title, verb,
};
use crate::matching::revisions::{is_revision_label, template_hash};
use crate::matching::{Constraint, PodTerm, Selector, selector_text};
use crate::proto::v1::hint::Kind;
use crate::snapshot::pod_terms::HeldTerm;
use crate::snapshot::{PodGroup, Stopped};
use crate::spread::describe::WorkloadId;
use crate::spread::{Active, Reason};

/// A revision of a workload: the label that tells it apart, with its value.
type PodRevision = Option<(&'static str, String)>;

/// The number of pods of each workload, by revision.
type ByWorkload = BTreeMap<WorkloadId, BTreeMap<PodRevision, usize>>;

/// Finds a constraint that counts several revisions of this workload together.
pub fn mixed_revisions(case: &Case<'_>, active: &Active) -> Result<Option<Diagnosis>, Stopped> {
    // Default constraints cannot have matchLabelKeys.
    if active.from_defaults {
        return Ok(None);
    }
    let own = template_hash(case.labels());
    let counted = counted_workloads(case, active)?;
    let Some(own_id) = own_workload(case, &counted) else {
        return Ok(None);
    };
    let revisions = &counted[&own_id];
    let revisions: Vec<(&(&str, String), usize)> = revisions
        .iter()
        .filter_map(|(revision, pods)| Some((revision.as_ref()?, *pods)))
        .collect();
    let Some(((label, _), _)) = revisions.first() else {
        return Ok(None);
    };
    let names = revisions.iter().map(|((_, hash), _)| hash.as_str());
    let names: BTreeSet<&str> = names.chain(own.map(|(_, hash)| hash)).collect();
    if names.len() < 2 {
        return Ok(None);
    }
    let listed = revisions
        .iter()
        .map(|((_, hash), pods)| format!("{} of {hash}", plural(*pods, "pod")));
    let message = format!(
        "{} counts several revisions of the workload together: {}. matchLabelKeys: [{label}] \
         would spread each by itself",
        title(active),
        joined(&listed.collect::<Vec<_>>()),
    );
    let mut found = Diagnosis::from(hint(Kind::MixedRevisions, active, message));
    if let Some(own) = own {
        suggest_hash(case, active, own, &mut found)?;
    }
    Ok(Some(found))
}

/// Finds a constraint that counts pods of other workloads together with those of the pod's own.
pub fn other_workloads(case: &Case<'_>, active: &Active) -> Result<Option<Diagnosis>, Stopped> {
    let counted = counted_workloads(case, active)?;
    let own = own_workload(case, &counted);
    // A pod that no controller owns, and that is like no other, may be of any of them.
    if own.is_none() && case.owner().is_none() {
        return Ok(None);
    }
    let others = counted.iter().filter(|(id, _)| Some(*id) != own.as_ref());
    let mut others: Vec<(usize, String)> = others
        .map(|(id, revisions)| (revisions.values().sum(), id.to_string()))
        .filter(|(pods, _)| *pods > 0)
        .collect();
    if others.is_empty() {
        return Ok(None);
    }
    others.sort_by(|one, other| (other.0, &one.1).cmp(&(one.0, &other.1)));
    let listed = others
        .iter()
        .map(|(pods, name)| format!("{} of {name}", plural(*pods, "pod")));
    let message = format!(
        "{} counts pods of other workloads too: {}",
        title(active),
        among(&listed.collect::<Vec<_>>()),
    );
    Ok(Some(hint(Kind::OtherWorkloads, active, message).into()))
}

/// The number of pods that a constraint counts of each workload, by revision.
fn counted_workloads(case: &Case<'_>, active: &Active) -> Result<ByWorkload, Stopped> {
    let mut counted = ByWorkload::new();
    for found in workloads(case, active, true) {
        let (group, id, revision) = found?;
        *counted.entry(id).or_default().entry(revision).or_default() += group.nodes.len();
    }
    Ok(counted)
}

/// The groups of pods that a constraint counts, or does not count, each with its workload and revision.
fn workloads<'c>(
    case: &'c Case<'_>,
    active: &'c Active,
    are_counted: bool,
) -> impl Iterator<Item = Result<(&'c PodGroup, WorkloadId, PodRevision), Stopped>> {
    let pods = case.pods.iter();
    let groups = pods.flat_map(|pods| pods.groups().iter().map(move |group| (pods, group)));
    let groups = groups.filter_map(move |(pods, group)| {
        let is_counted = pods.selects(active.counted(), group);
        let is_meant = is_counted.map(|is_counted| is_counted == are_counted);
        is_meant
            .map(|is_meant| is_meant.then_some((pods, group)))
            .transpose()
    });
    let owners = case.read_view.owners();
    groups.map(move |found| {
        let (pods, group) = found?;
        case.read_view.deadline.step(1 + owners.len())?;
        let pod = pods.pod(group);
        let none = BTreeMap::new();
        let labels = pod.metadata.as_ref().map_or(&none, |it| &it.labels);
        let mut id = WorkloadId::of(&pod, owners.adopter(labels));
        // The revisions of pods without a controller differ in this label alone.
        id.labels.retain(|key, _| !is_revision_label(key));
        let revision = template_hash(labels);
        let revision = revision.map(|(label, hash)| (label, hash.to_owned()));
        Ok((group, id, revision))
    })
}

/// Finds running pods of the pod's own workload that a constraint does not count, and says why.
pub fn uncounted(case: &Case<'_>, active: &Active) -> Result<Option<Diagnosis>, Stopped> {
    let Some(all) = case.pods.as_ref() else {
        return Ok(None);
    };
    let mut by_reason: BTreeMap<String, (usize, BTreeSet<&str>)> = BTreeMap::new();
    for found in workloads(case, active, false) {
        let (group, id, _) = found?;
        if group.nodes.is_empty() || !is_own(case, &id) {
            continue;
        }
        let labels = all.labels(group).map(|(k, v)| (k.to_owned(), v.to_owned()));
        let why = match active.selector.to_wire() {
            None => "it has no labelSelector".to_owned(),
            Some(_) if active.selector.is_empty() => "its labelSelector is empty".to_owned(),
            Some(wire) => format!("each {}", differences(&wire, &labels.collect())),
        };
        let (pods, nodes) = by_reason.entry(why).or_default();
        *pods += group.nodes.len();
        let names = group.nodes.iter();
        nodes.extend(names.map(|slot| case.read_view.nodes.name(*slot)));
    }
    let said = by_reason.into_iter().map(|(why, (pods, nodes))| {
        let nodes: Vec<&str> = nodes.into_iter().collect();
        format!(
            "{} on {}, because {why}",
            plural(pods, "pod"),
            among(&nodes)
        )
    });
    let said: Vec<String> = said.collect();
    let message = format!(
        "{} does not count all pods of the workload: not {}",
        title(active),
        joined(&said)
    );
    Ok((!said.is_empty()).then(|| hint(Kind::UncountedPods, active, message).into()))
}

/// The workload of the pod among those that are counted: that of its controller. Without one, the only
/// one whose pods have the same labels except the revision.
fn own_workload(case: &Case<'_>, counted: &ByWorkload) -> Option<WorkloadId> {
    counted.keys().find(|id| is_own(case, id)).cloned()
}

fn is_own(case: &Case<'_>, id: &WorkloadId) -> bool {
    match case.owner() {
        Some(own) => (&*id.kind, &*id.name) == own,
        None => {
            let labels = case.labels().iter();
            let labels = labels.filter(|(key, _)| !is_revision_label(key));
            id.kind.is_empty() && id.labels.iter().eq(labels)
        }
    }
}

/// Adds the effect of counting only the pod's own revision.
fn suggest_hash(
    case: &Case<'_>,
    active: &Active,
    own: (&str, &str),
    found: &mut Diagnosis,
) -> Result<(), Stopped> {
    let revise = |_: &mut Constraint, selector: &mut Selector| {
        *selector = selector.clone().and_labels([own]);
    };
    let revised = case.revised(active, revise);
    let (before, after) = (case.feasible_count(), case.admitted_with(&revised)?);
    if active.constraint.is_hard() {
        let key = &active.constraint.topology_key;
        let values = values(after.iter().copied(), key);
        found.hint.message.push_str(&match after.len() {
            0 => ", though no node would be feasible then either".to_owned(),
            nodes => format!(
                ", and the pod could go to {} ({values})",
                plural(nodes, "node"),
            ),
        });
    }
    suggest(&mut found.hint, &revised.all[active.index], after.len());
    if before == 0 && !after.is_empty() {
        found.remedy = Some(format!(
            "set matchLabelKeys: [{}] on {}, which lets it onto {}",
            own.0,
            title(active),
            plural(after.len(), "node")
        ));
    }
    Ok(())
}

/// Finds matching pods that are being deleted, which are not counted.
pub fn terminating(case: &Case<'_>, active: &Active) -> Result<Option<Diagnosis>, Stopped> {
    let key = &*active.constraint.topology_key;
    let mut by_value: BTreeMap<&str, usize> = BTreeMap::new();
    for terminating in case.read_view.terminating(active.counted()) {
        let (slot, pods) = terminating?;
        let node = case.read_view.nodes.get(slot);
        if let Some(value) = node.and_then(|node| node.label_text(key)) {
            *by_value.entry(value).or_default() += pods as usize;
        }
    }
    if by_value.is_empty() {
        return Ok(None);
    }
    let total: usize = by_value.values().sum();
    let listed: Vec<String> = by_value
        .iter()
        .map(|(value, pods)| format!("{value}: {pods}"))
        .collect();
    let message = format!(
        "{} that {} matches {} terminating and not counted any more ({})",
        plural(total, "pod"),
        title(active),
        verb(total, "is", "are"),
        among(&listed),
    );
    Ok(Some(hint(Kind::TerminatingPods, active, message).into()))
}

/// Returns a hint for each term that keeps the pod off a node which passes all checks before it.
pub fn pod_affinity(case: &Case<'_>) -> Result<Vec<Diagnosis>, Stopped> {
    let Some(terms) = &case.filter.pod_terms else {
        return Ok(Vec::new());
    };
    let refused = |by: Reason| -> Vec<&JudgedNode<'_>> {
        let by_it = |node: &&JudgedNode<'_>| {
            let refusal = node.refusal.as_ref();
            refusal.is_some_and(|refusal| refusal.reason == by && refusal.nominated_pods == 0)
        };
        case.nodes.iter().filter(by_it).collect()
    };
    let mut found = Vec::new();
    let nodes = refused(Reason::PodAffinity);
    for (term, there) in terms.near_domains() {
        case.read_view.deadline.step(nodes.len())?;
        let outside = |node: &&&JudgedNode<'_>| {
            let value = node.node.label_text(&term.topology_key);
            value.is_none_or(|value| !there.contains(value))
        };
        let outside = nodes.iter().filter(outside).count();
        if outside > 0 {
            found.push(unmet(term, &there, outside));
        }
    }
    let nodes = refused(Reason::PodAntiAffinity);
    for (term, there) in terms.apart_domains() {
        case.read_view.deadline.step(nodes.len())?;
        found.extend(met(term, &there, &nodes));
    }
    let nodes = refused(Reason::ExistingAntiAffinity);
    for held in case.keeping_away()? {
        case.read_view
            .deadline
            .step(nodes.len() + held.node_count())?;
        found.extend(kept_away(case, held, &nodes));
    }
    let hints = found.into_iter();
    let hints = hints.map(|message| general_hint(Kind::PodAffinity, message));
    Ok(hints.map(Diagnosis::from).collect())
}

/// Describes a term of the pod's affinity that only these domains meet.
fn unmet(term: &PodTerm, there: &BTreeSet<&str>, nodes: usize) -> String {
    let key = &term.topology_key;
    let place = match there.is_empty() {
        true => format!("no node with the label {key} has one in its domain"),
        false => format!("such pods are in {}", among(&list(there))),
    };
    format!(
        "its podAffinity wants {} in the same {key}, and {place}: that refuses {}",
        pods_of(term),
        plural(nodes, "node"),
    )
}

/// Describes a term of the pod's anti-affinity that matches pods in these domains.
fn met(term: &PodTerm, there: &BTreeSet<&str>, nodes: &[&JudgedNode<'_>]) -> Option<String> {
    let key = &term.topology_key;
    let inside = |node: &&&JudgedNode<'_>| {
        let value = node.node.label_text(key);
        value.is_some_and(|value| there.contains(value))
    };
    let inside: Vec<&JudgedNode<'_>> = nodes.iter().filter(inside).copied().collect();
    (!inside.is_empty()).then(|| {
        format!(
            "its podAntiAffinity keeps it from {} in the same {key}, which are in {}: that refuses \
             {}",
            pods_of(term),
            value_list(inside.iter().copied(), key),
            plural(inside.len(), "node"),
        )
    })
}

/// Describes a term of running pods that keeps the pod away.
fn kept_away(case: &Case<'_>, held: &HeldTerm, nodes: &[&JudgedNode<'_>]) -> Option<String> {
    let key = &held.term().topology_key;
    let on: Vec<(&str, u32)> = held
        .counts()
        .filter_map(|(slot, pods)| {
            let node = case.read_view.nodes.get(slot)?;
            Some((node.label_text(key)?, pods))
        })
        .collect();
    let there: BTreeSet<&str> = on.iter().map(|(value, _)| *value).collect();
    let inside = |node: &&&JudgedNode<'_>| {
        let value = node.node.label_text(key);
        value.is_some_and(|value| there.contains(value))
    };
    let inside = nodes.iter().filter(inside).count();
    let pods: u32 = on.iter().map(|(_, pods)| pods).sum();
    (inside > 0).then(|| {
        let whose = match held.own() {
            "" => String::new(),
            namespace => format!(" of namespace {namespace}"),
        };
        format!(
            "{}{whose} in {} (by {key}) {} anti-affinity to {}, which it is one of: that refuses {}",
            plural(pods, "pod"),
            among(&list(&there)),
            if pods == 1 { "has" } else { "have" },
            pods_of(held.term()),
            plural(inside, "node"),
        )
    })
}

/// Describes the pods that a term covers.
fn pods_of(term: &PodTerm) -> String {
    let pods = match term.selector.to_wire() {
        None => "no pods (it has no labelSelector)".to_owned(),
        Some(selector) => match &*selector_text(&selector) {
            "" => "all pods".to_owned(),
            text => format!("pods with {text}"),
        },
    };
    let namespaces: Vec<&str> = term.namespaces.iter().map(|name| &**name).collect();
    let selected = match &term.namespace_selector {
        Selector::Nothing => None,
        selector if selector.is_empty() => Some("all namespaces".to_owned()),
        selector => {
            let text = selector.to_wire().map(|wire| selector_text(&wire));
            Some(format!("namespaces with {}", text.unwrap_or_default()))
        }
    };
    let named = (!namespaces.is_empty()).then(|| among(&namespaces));
    match (named, selected) {
        (None, None) => pods,
        (Some(one), None) | (None, Some(one)) => format!("{pods} in {one}"),
        (Some(named), Some(selected)) => format!("{pods} in {named} or {selected}"),
    }
}

fn list<'v>(values: &BTreeSet<&'v str>) -> Vec<&'v str> {
    values.iter().copied().collect()
}
