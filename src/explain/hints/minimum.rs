//! Hints about causes of a low global minimum.

use std::collections::BTreeMap;

use crate::explain::case::{Case, Hard, JudgedNode, all_nodes};
use crate::explain::diagnosis::{Diagnosis, count, hint, suggest};
use crate::explain::words::{among, joined, plural, quoted, so_many, verb};
use crate::matching::{Constraint, Policy};
use crate::proto::v1::hint::Kind;
use crate::spread::Reason;

/// Finds a constraint whose domains with the fewest pods cannot take the pod, so the minimum stays
/// and the other domains fill up. A node inclusion policy may exclude such domains from counting.
pub fn unusable_domain(case: &Case<'_>, hard: &Hard<'_>) -> Option<Diagnosis> {
    let lowest = hard.report.lowest();
    let usable = case.usable_values(hard.key());
    let holds = !lowest.is_empty()
        && !hard.report.min_domains_unmet
        && lowest.iter().all(|value| !usable.contains(value));
    let refused = |value: &&str| !hard.takes(value);
    let harms = usable.iter().any(refused);
    (holds && harms).then(|| unusable(case, hard, &lowest))
}

fn unusable(case: &Case<'_>, hard: &Hard<'_>, lowest: &[&str]) -> Diagnosis {
    type Honor = fn(&mut Constraint);
    let held = format!(
        "{} of {} {} the minimum at {}, and the pod can go to none of the nodes there: {}",
        among(lowest),
        hard.title(),
        verb(lowest.len(), "holds", "hold"),
        hard.report.global_minimum,
        unusable_nodes(case, hard, lowest),
    );
    let mut found = Diagnosis::from(hint(Kind::UnusableDomain, hard.active(), String::new()));
    found.hint.domain = lowest[0].to_owned();
    let before = case.feasible_count();
    let is_there = |node: &&JudgedNode<'_>| {
        let value = node.node.label_text(hard.key());
        value.is_some_and(|value| lowest.contains(&value))
    };
    let freed: Vec<&str> = case
        .freed_by_uncordoning()
        .filter(is_there)
        .map(|node| node.name)
        .collect();
    if !freed.is_empty() {
        let after = plural(before + freed.len(), "node");
        let uncordon = format!("uncordon {}", among(&freed));
        found.hint.message = format!("{held}. If you {uncordon}, the pod can go to {after}");
        found.hint.admitted_node_count = count(before + freed.len());
        found.remedy = Some(format!("{uncordon}, which lets it onto {after}"));
        return found;
    }
    let honor_taints = |c: &mut Constraint| c.node_taints_policy = Policy::Honor;
    let honor_affinity = |c: &mut Constraint| c.node_affinity_policy = Policy::Honor;
    let policies: [(&str, Honor); 2] = [
        ("nodeTaintsPolicy", honor_taints),
        ("nodeAffinityPolicy", honor_affinity),
    ];
    for (policy, honor) in policies {
        let revised = case.revised(hard.active(), |constraint, _| honor(constraint));
        let suggested = &revised.all[hard.active().index];
        if suggested.constraint == hard.active().constraint {
            // The policy is Honor already.
            continue;
        }
        let after = case.admitted_with(&revised).len();
        if after <= before {
            continue;
        }
        found.hint.message = format!(
            "{held}. With {policy}: Honor {} would be no {} and the pod could go to {}",
            verb(lowest.len(), "it", "they"),
            verb(lowest.len(), "domain", "domains"),
            nodes_not(after, before),
        );
        suggest(&mut found.hint, suggested, after);
        found.remedy = Some(format!(
            "set {policy}: Honor on {}, which lets it onto {}",
            hard.title(),
            plural(after, "node")
        ));
        return found;
    }
    found.hint.message = format!(
        "{held}. No node inclusion policy changes that: make a node there usable, or take the \
         label away"
    );
    found
}

fn nodes_not(after: usize, before: usize) -> String {
    match before {
        0 => plural(after, "node"),
        _ => format!("{}, not {before}", plural(after, "node")),
    }
}

/// The reasons why the nodes of some domains cannot be used: `1 is tainted, 2 are cordoned`.
fn unusable_nodes(case: &Case<'_>, hard: &Hard<'_>, values: &[&str]) -> String {
    let mut reasons: BTreeMap<Option<Reason>, usize> = BTreeMap::new();
    let judged: BTreeMap<&str, Option<&Reason>> = case
        .nodes
        .iter()
        .map(|node| (node.name, node.check.as_ref()))
        .collect();
    for (_, node) in all_nodes(&case.read_view) {
        let value = node.label_text(hard.key());
        if value.is_some_and(|value| values.contains(&value)) {
            let reason = judged.get(node.name()).copied().flatten();
            let reason = reason.map(Reason::check);
            *reasons.entry(reason).or_default() += 1;
        }
    }
    let said = reasons.into_iter().map(|(reason, nodes)| {
        let why = match reason {
            None => "not among the candidates",
            Some(Reason::Unschedulable) => "cordoned",
            Some(Reason::UntoleratedTaint) => "tainted",
            Some(Reason::NodeAffinity) => "excluded by the pod's node affinity",
            Some(Reason::NodeName) => "not the one that the pod names",
            Some(Reason::HostPorts) => "without a free port for it",
            Some(Reason::PodAffinity) => "not near a pod that it wants",
            Some(Reason::PodAntiAffinity | Reason::ExistingAntiAffinity) => {
                "kept from it by anti-affinity"
            }
            Some(Reason::TooManyPods | Reason::Insufficient(_)) => "without room for it",
            Some(
                Reason::DiskConflict
                | Reason::ClaimInUse
                | Reason::VolumeNodeAffinity
                | Reason::VolumeBinding
                | Reason::VolumeZone,
            ) => "kept from it by its volumes",
            Some(_) => "refused",
        };
        format!("{} {why}", so_many(nodes, "node", "is", "are"))
    });
    joined(&said.collect::<Vec<_>>())
}

/// Finds a constraint with fewer domains than `minDomains`, so the minimum counts as 0.
pub fn min_domains(case: &Case<'_>, hard: &Hard<'_>) -> Option<Diagnosis> {
    let wanted = i64::from(hard.active().constraint.min_domains.unwrap_or(1));
    let there = i64::try_from(hard.report.domain_count).unwrap_or(i64::MAX);
    if wanted <= 1 || there >= wanted {
        return None;
    }
    let missing = wanted - there;
    let names: Vec<&str> = hard.report.domains.iter().map(|d| d.tally.value).collect();
    let domains = match there {
        0 => "no domain".to_owned(),
        _ => format!("{} ({})", plural(there, "domain"), among(&names)),
    };
    let mut message = format!(
        "{} wants {wanted} domains and there {} {domains}: {missing} {} missing, so the \
         minimum counts as 0",
        hard.title(),
        verb(hard.report.domain_count.max(1), "is", "are"),
        if missing == 1 { "is" } else { "are" },
    );
    let fewer = i32::try_from(there.max(1)).unwrap_or(i32::MAX);
    let revise = |constraint: &mut Constraint, _: &mut _| constraint.min_domains = Some(fewer);
    let revised = case.revised(hard.active(), revise);
    let (before, after) = (case.feasible_count(), case.admitted_with(&revised).len());
    let mut remedy = None;
    let mut hint = hint(Kind::MinDomains, hard.active(), String::new());
    if after > before {
        message.push_str(&format!(
            ". With minDomains: {fewer} the pod could go to {}",
            nodes_not(after, before)
        ));
        suggest(&mut hint, &revised.all[hard.active().index], after);
        remedy = Some(format!(
            "add {} of {}, or set minDomains to {fewer}, which lets it onto {}",
            plural(missing, "domain"),
            quoted(hard.key()),
            plural(after, "node")
        ));
    }
    hint.message = message;
    Some(Diagnosis { hint, remedy })
}
