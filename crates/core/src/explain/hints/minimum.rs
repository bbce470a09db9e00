//! Hints about causes of a low global minimum.

use std::collections::BTreeMap;

use crate::explain::case::{Case, Hard, JudgedNode, all_nodes};
use crate::explain::summary::Causes;
use crate::explain::words::{
    Diagnosis, among, hint, joined, plural, quoted, so_many, suggest, verb,
};
use crate::matching::{Constraint, Policy, Resource, Shortage};
use crate::proto::v1::hint::Kind;
use crate::proto::{count, v1};
use crate::snapshot::Stopped;
use crate::spread::Active;

/// Finds a constraint whose domains with the fewest pods cannot take the pod, so the minimum stays
/// and the other domains fill up. A node inclusion policy may exclude such domains from counting.
pub fn unusable_domain(case: &Case<'_>, hard: &Hard<'_>) -> Result<Option<Diagnosis>, Stopped> {
    let lowest = hard.report.lowest();
    let usable = case.usable_values(hard.key());
    let holds = !lowest.is_empty()
        && !hard.report.min_domains_unmet
        && lowest.iter().all(|value| !usable.contains(value));
    let refused = |value: &&str| !hard.takes(value);
    let harms = usable.iter().any(refused);
    match holds && harms {
        true => unusable(case, hard, &lowest).map(Some),
        false => Ok(None),
    }
}

fn unusable(case: &Case<'_>, hard: &Hard<'_>, lowest: &[&str]) -> Result<Diagnosis, Stopped> {
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
    let freed: Vec<&str> = case
        .freed_by_uncordoning()?
        .into_iter()
        .filter(|node| is_there(hard, lowest, node))
        .map(|node| node.name)
        .collect();
    let mut advice = Vec::new();
    let mut remedies = Vec::new();
    if !freed.is_empty() {
        let after = plural(before + freed.len(), "node");
        let uncordon = format!("uncordon {}", among(&freed));
        advice.push(format!("If you {uncordon}, the pod can go to {after}"));
        remedies.push(format!("{uncordon}, which lets it onto {after}"));
        found.hint.admitted_node_count = count(before + freed.len());
    }
    if let Some(honored) = honored(case, hard)? {
        let (policy, after) = (honored.policy, honored.nodes);
        advice.push(format!(
            "With {policy}: Honor {} would be no {} and the pod could go to {}",
            verb(lowest.len(), "it", "they"),
            verb(lowest.len(), "domain", "domains"),
            nodes_not(after, before),
        ));
        suggest(&mut found.hint, &honored.suggested, after);
        remedies.push(format!(
            "set {policy}: Honor on {}, which lets it onto {}",
            hard.title(),
            plural(after, "node")
        ));
    }
    if advice.is_empty()
        && let Some(lack) = LackingDomain::in_domains(case, hard, lowest)?
    {
        advice.push(lack.said(case));
        remedies.push(lack.remedy(case));
        found.hint.shortage = Some(lack.to_wire());
    }
    if advice.is_empty() {
        advice.push(
            "No node inclusion policy changes that: make a node there usable, or take the label \
             away"
                .to_owned(),
        );
    }
    found.hint.message = format!("{held}. {}", advice.join(". "));
    found.remedy = (!remedies.is_empty()).then(|| remedies.join(", or "));
    Ok(found)
}

/// Returns whether a node is in one of these domains.
fn is_there(hard: &Hard<'_>, values: &[&str], node: &JudgedNode<'_>) -> bool {
    let value = node.node.label_text(hard.key());
    value.is_some_and(|value| values.contains(&value))
}

/// A node inclusion policy that would admit more nodes if it were `Honor`.
struct Honored {
    policy: &'static str,
    suggested: Active,
    /// The number of nodes that would be feasible.
    nodes: usize,
}

/// Finds the first policy that is not `Honor` and would admit more nodes if it were.
fn honored(case: &Case<'_>, hard: &Hard<'_>) -> Result<Option<Honored>, Stopped> {
    type Honor = fn(&mut Constraint);
    let honor_taints = |c: &mut Constraint| c.node_taints_policy = Policy::Honor;
    let honor_affinity = |c: &mut Constraint| c.node_affinity_policy = Policy::Honor;
    let policies: [(&str, Honor); 2] = [
        ("nodeTaintsPolicy", honor_taints),
        ("nodeAffinityPolicy", honor_affinity),
    ];
    for (policy, honor) in policies {
        let revised = case.revised(hard.active(), |constraint, _| honor(constraint));
        let suggested = revised.all[hard.active().index].clone();
        if suggested.constraint == hard.active().constraint {
            // The policy is Honor already.
            continue;
        }
        let nodes = case.admitted_with(&revised)?.len();
        if nodes > case.feasible_count() {
            return Ok(Some(Honored {
                policy,
                suggested,
                nodes,
            }));
        }
    }
    Ok(None)
}

/// What the node lacks that is nearest to taking the pod, of all nodes in domains that hold the
/// minimum.
struct LackingDomain<'c> {
    domain: &'c str,
    node: &'c str,
    shortages: Vec<Shortage>,
    /// The number of waiting pods that find a node once the node has room.
    placed: usize,
}

impl<'c> LackingDomain<'c> {
    /// `None` if no node in these domains lacks only room.
    fn in_domains(
        case: &'c Case<'_>,
        hard: &Hard<'_>,
        values: &[&str],
    ) -> Result<Option<Self>, Stopped> {
        let distance = |shortages: &[Shortage]| {
            let missing: i128 = shortages.iter().map(|it| it.missing).sum();
            let is_final = shortages.iter().any(|it| it.is_final);
            (is_final, shortages.len(), missing)
        };
        let mut nearest: Option<(&'c JudgedNode<'_>, Vec<Shortage>)> = None;
        for short in case.shortages() {
            let (node, shortages) = short?;
            let is_nearer = nearest
                .as_ref()
                .is_none_or(|(_, least)| distance(&shortages) < distance(least));
            if is_nearer
                && is_there(hard, values, node)
                && !shortages.is_empty()
                && case.admits_beside_checks(node)
            {
                nearest = Some((node, shortages));
            }
        }
        let Some((node, shortages)) = nearest else {
            return Ok(None);
        };
        Ok(Some(Self {
            domain: node.node.label_text(hard.key()).unwrap_or_default(),
            node: node.name,
            shortages,
            placed: case.placed(case.constraints, Some(node.name))?,
        }))
    }

    fn missing(&self) -> String {
        let each = self.shortages.iter().map(|it| match &it.of {
            Resource::Pods => format!("room for {}", plural(it.missing, "pod")),
            of => format!("{} of {}", of.quantity(it.missing), of.as_str()),
        });
        joined(&each.collect::<Vec<_>>())
    }

    /// The effect of a node with room there.
    fn effect(&self, case: &Case<'_>) -> String {
        match (self.placed, case.waiting) {
            (_, 1) => "would take it".to_owned(),
            (placed, all) if placed == all => format!("would let all {all} that wait be placed"),
            (placed, all) => format!("would let {placed} of the {all} that wait be placed"),
        }
    }

    fn said(&self, case: &Case<'_>) -> String {
        let Self { domain, node, .. } = self;
        let (missing, effect) = (self.missing(), self.effect(case));
        let domain = quoted(domain);
        format!(
            "{domain} lacks {missing} on its best node, {node}; a node there with room {effect}"
        )
    }

    fn remedy(&self, case: &Case<'_>) -> String {
        let Self { domain, node, .. } = self;
        let (missing, effect) = (self.missing(), self.effect(case));
        let domain = quoted(domain);
        format!(
            "make room in {domain}, which lacks {missing} on its best node ({node}): a node there with \
             room {effect}"
        )
    }

    fn to_wire(&self) -> v1::Shortage {
        let least = &self.shortages[0];
        v1::Shortage {
            resource: least.of.as_str().to_owned(),
            requested: least.of.quantity(least.asked),
            missing: least.of.quantity(least.missing),
            ..v1::Shortage::default()
        }
    }
}

fn nodes_not(after: usize, before: usize) -> String {
    match before {
        0 => plural(after, "node"),
        _ => format!("{}, not {before}", plural(after, "node")),
    }
}

/// The reasons why the nodes of some domains cannot be used: `1 node is unreachable, 2 nodes are
/// cordoned`.
fn unusable_nodes(case: &Case<'_>, hard: &Hard<'_>, values: &[&str]) -> String {
    let (mut causes, mut others) = (Causes::default(), 0);
    let judged: BTreeMap<&str, &JudgedNode<'_>> =
        case.nodes.iter().map(|node| (node.name, node)).collect();
    for (_, node) in all_nodes(&case.read_view) {
        let value = node.label_text(hard.key());
        if value.is_some_and(|value| values.contains(&value)) {
            let judged = judged.get(node.name());
            match judged.and_then(|judged| Some((judged, judged.check.as_ref()?))) {
                Some((judged, check)) => causes.note_check(case, judged, check),
                None => others += 1,
            }
        }
    }
    let mut said = causes.said(case);
    if others > 0 {
        said.push(so_many(others, "node", "is", "are") + " not among the candidates");
    }
    joined(&said)
}

/// Finds a constraint with fewer domains than `minDomains`, so the minimum counts as 0.
pub fn min_domains(case: &Case<'_>, hard: &Hard<'_>) -> Result<Option<Diagnosis>, Stopped> {
    let wanted = i64::from(hard.active().constraint.min_domains.unwrap_or(1));
    let there = i64::try_from(hard.report.domain_count).unwrap_or(i64::MAX);
    if wanted <= 1 || there >= wanted {
        return Ok(None);
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
    let (before, after) = (case.feasible_count(), case.admitted_with(&revised)?.len());
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
    Ok(Some(Diagnosis { hint, remedy }))
}
