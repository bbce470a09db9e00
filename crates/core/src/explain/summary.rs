//! The summary of a decision in one sentence.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::case::{Case, Hard, JudgedNode, values};
use super::words::{Diagnosis, among, but_for, joined, number, plural, sentence, so_many, verb};
use crate::matching::TaintedNode;
use crate::proto::v1::hint::Kind;
use crate::snapshot::Stopped;
use crate::spread::Reason;

/// The numbers of nodes that are refused for the same cause.
#[derive(Clone, Copy, Default)]
struct RefusedNodes {
    nodes: usize,
    /// The number of nodes that are refused only because of the pods nominated to them.
    by_nominated: usize,
    /// The first time since when one of them is what the cause says, if known.
    since: Option<i64>,
}

/// The most reasons of a node that a cause has.
const MOST_REASONS: usize = 8;

/// The cause that nodes are refused for.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Cause {
    /// The first reasons, of which there is one except for lack of room.
    reasons: Vec<Reason>,
    constraint_index: Option<usize>,
    /// What tainted nodes are.
    tainted: Option<String>,
}

/// The sentence: the verdict, the causes, and the change that would help.
pub fn of(case: &Case<'_>, findings: &[Diagnosis]) -> Result<String, Stopped> {
    let (feasible, all) = (case.feasible_count(), case.nodes.len());
    let unchecked = case.unchecked()?;
    let passes = |verdict: String| verdict + &but_for(&unchecked);
    let verdict = match (feasible, all) {
        (_, 0) => return Ok("There is no node to decide about.".to_owned()),
        (0, 1) => "The one node cannot take the pod".to_owned(),
        (0, _) => format!("None of {} nodes can take the pod", number(all)),
        (1, 1) => passes("The one node satisfies what was checked".to_owned()),
        _ if feasible == all => passes(format!(
            "All {} nodes satisfy what was checked",
            number(all)
        )),
        _ => passes(format!(
            "{} of {} {} what was checked{}",
            number(feasible),
            plural(all, "node"),
            verb(feasible, "satisfies", "satisfy"),
            places(case)
        )),
    };
    let remedy = match remedy(findings) {
        None if feasible == 0 => uncordon(case)?,
        remedy => remedy.filter(|_| feasible == 0),
    };
    Ok(sentence(&verdict, &causes(case)?, remedy.as_ref()) + &best(case)?)
}

/// The first remedy; if that is to make room, the smallest maxSkew is told beside it.
fn remedy(findings: &[Diagnosis]) -> Option<String> {
    let mut with_remedy = findings.iter().filter(|finding| finding.remedy.is_some());
    let first = with_remedy.next()?;
    let is_other = |finding: &&Diagnosis| finding.hint.kind() == Kind::MaxSkew;
    let other = with_remedy.find(is_other).filter(|_| first.is_of_room());
    let remedies = [Some(first), other].into_iter().flatten();
    let remedies = remedies.filter_map(|finding| finding.remedy.clone());
    Some(remedies.collect::<Vec<_>>().join("; or "))
}

/// Names the cordoned nodes that would take the pod.
fn uncordon(case: &Case<'_>) -> Result<Option<String>, Stopped> {
    let freed = case.freed_by_uncordoning()?;
    let names: Vec<&str> = freed.iter().map(|node| node.name).collect();
    Ok((!names.is_empty()).then(|| {
        let onto = verb(names.len(), "it", "them");
        format!("uncordon {}, which lets it onto {onto}", among(&names))
    }))
}

/// Names the feasible node that Score ranks first, if there are several and Score ranks them.
fn best(case: &Case<'_>) -> Result<String, Stopped> {
    let feasible: Vec<&str> = case.feasible().map(|node| node.name).collect();
    let scores = case.scores()?;
    if scores.skipped || feasible.len() < 2 {
        return Ok(String::new());
    }
    let score = |at: usize| scores.node(at).score;
    let highest = (0..feasible.len()).map(score).max().unwrap_or(0);
    let best = (0..feasible.len()).filter(|at| score(*at) == highest);
    let best: Vec<&str> = best.map(|at| feasible[at]).collect();
    Ok(match best.len() == feasible.len() {
        true => " They score alike.".to_owned(),
        false => format!(
            " Best by score: {} ({} of 100).",
            among(&best),
            number(highest)
        ),
    })
}

/// Names the domains of the first hard constraint that have feasible nodes.
fn places(case: &Case<'_>) -> String {
    let places = |hard: &Hard<'_>| format!(" ({})", values(case.feasible(), hard.key()));
    case.hard.first().map_or_else(String::new, places)
}

/// Returns the causes that keep the pod off nodes, each with its number of nodes. A node is in one
/// cause.
fn causes(case: &Case<'_>) -> Result<Vec<String>, Stopped> {
    let mut causes = Causes::default();
    for node in &case.nodes {
        if let Some(refusal) = case.whole_refusal(node)? {
            let reasons = refusal.reasons().take(MOST_REASONS).cloned().collect();
            let refused = causes.note(case, node, reasons, refusal.constraint_index);
            refused.by_nominated += usize::from(refusal.nominated_pods > 0);
        }
    }
    Ok(causes.said(case))
}

/// Causes that keep the pod off nodes, each with its nodes.
#[derive(Default)]
pub(super) struct Causes(BTreeMap<Cause, RefusedNodes>);

impl Causes {
    /// Notes a check that a node fails.
    pub(super) fn note_check(&mut self, case: &Case<'_>, node: &JudgedNode<'_>, check: &Reason) {
        self.note(case, node, vec![check.check()], None);
    }

    fn note(
        &mut self,
        case: &Case<'_>,
        node: &JudgedNode<'_>,
        reasons: Vec<Reason>,
        constraint_index: Option<usize>,
    ) -> &mut RefusedNodes {
        let is_tainted = reasons.first() == Some(&Reason::UntoleratedTaint);
        let tainted = is_tainted.then(|| case.tainted(node)).flatten();
        let since = tainted.as_ref().and_then(|it| it.since);
        let cause = Cause {
            reasons,
            constraint_index,
            tainted: tainted.map(|it| it.what),
        };
        let refused = self.0.entry(cause).or_default();
        refused.nodes += 1;
        refused.since = refused.since.into_iter().chain(since).min();
        refused
    }

    /// The causes in words: too large a skew first, and then those of most nodes.
    pub(super) fn said(self, case: &Case<'_>) -> Vec<String> {
        let mut causes: Vec<_> = self.0.into_iter().collect();
        causes.sort_by_key(|(cause, refused)| {
            (
                Reverse(cause.reasons.first() == Some(&Reason::Skew)),
                Reverse(refused.nodes),
                cause.constraint_index,
            )
        });
        let said = |(cause, refused): &(Cause, RefusedNodes)| {
            cause.text(case, *refused) + &because_of_nominated(*refused)
        };
        causes.iter().map(said).collect()
    }
}

/// Says how many of the nodes are refused only because of the pods nominated to them.
fn because_of_nominated(refused: RefusedNodes) -> String {
    match refused.by_nominated {
        0 => String::new(),
        all if all == refused.nodes => " with the pods nominated there".to_owned(),
        some => format!(" ({} only with the pods nominated there)", number(some)),
    }
}

impl Cause {
    fn text(&self, case: &Case<'_>, refused: RefusedNodes) -> String {
        let (nodes, reasons) = (refused.nodes, &*self.reasons);
        if let Some(what) = &self.tainted {
            let what = format!("{what}{}", TaintedNode::since(refused.since));
            return format!("{} {what}", so_many(nodes, "node", "is", "are"));
        }
        let hard = self.constraint_index.and_then(|index| case.hard_at(index));
        let [first, ..] = reasons else {
            return String::new();
        };
        let lacks = reasons.iter().filter_map(|reason| reason.resource());
        let lacks: Vec<String> = lacks.map(str::to_owned).collect();
        match (first, reasons.len()) {
            (_, 1) => cause(case, first, hard, nodes),
            (Reason::TooManyPods, _) => {
                let full = cause(case, first, hard, nodes);
                format!("{full} and too little {}", joined(&lacks))
            }
            _ => {
                let have = so_many(nodes, "node", "has", "have");
                format!("{have} too little {}", joined(&lacks))
            }
        }
    }
}

fn cause(case: &Case<'_>, reason: &Reason, hard: Option<&Hard<'_>>, nodes: usize) -> String {
    let they = |one, many| so_many(nodes, "node", one, many);
    match (&reason.check(), hard) {
        (Reason::Unschedulable, _) => they("is", "are") + " cordoned",
        (Reason::UntoleratedTaint, _) => they("is", "are") + " tainted",
        (Reason::NodeAffinity, _) => they("does not", "do not") + " match its node affinity",
        (Reason::Gated(gates), _) => format!("it waits for scheduling gates ({gates})"),
        (Reason::NodeName, _) => they("is not", "are not") + " the one that it names",
        (Reason::HostPorts, _) => they("has", "have") + " no free port for it",
        (Reason::TooManyPods, _) => they(
            "has as many pods as it takes",
            "have as many pods as they take",
        ),
        (Reason::Insufficient(resource), _) => {
            they("has", "have") + " too little " + resource.as_str()
        }
        (Reason::MissingTopologyKey, Some(hard)) => {
            they("lacks", "lack") + " the label " + hard.key()
        }
        (Reason::PodAffinity, _) => {
            they("is not", "are not") + " near a pod that its affinity wants"
        }
        (Reason::PodAntiAffinity, _) => {
            they("is", "are") + " where a pod is that its anti-affinity avoids"
        }
        (Reason::ExistingAntiAffinity, _) => {
            they("is", "are") + " where a pod is whose anti-affinity keeps it away"
        }
        (Reason::DeclaredFeatures, _) => {
            they("does not", "do not") + " declare " + &case.needed_features()
        }
        (Reason::VolumeNotReady(words), _) => words.to_string(),
        (Reason::VolumeMissing, _) => "a volume that it uses is not there".to_owned(),
        (Reason::DiskConflict, _) => they("has", "have") + " a pod that uses one of its disks",
        (Reason::ClaimInUse, _) => {
            "another pod uses a claim of it that is ReadWriteOncePod".to_owned()
        }
        (Reason::VolumeNodeAffinity, _) => {
            they("does not", "do not") + " reach a volume that it uses"
        }
        (Reason::VolumeBinding, _) => {
            they("has", "have") + " no volume for a claim of it, and none can be made there"
        }
        (Reason::VolumeZone, _) => {
            they("is", "are") + " in another zone than a volume that it uses"
        }
        (Reason::Skew, Some(hard)) => format!(
            "{} would exceed maxSkew {} of {} ({})",
            plural(nodes, "node"),
            hard.rule.max_skew,
            hard.key(),
            minimum(hard),
        ),
        _ => they("is", "are") + " refused",
    }
}

/// Names the minimum that the skew is measured from.
fn minimum(hard: &Hard<'_>) -> String {
    let minimum = hard.report.global_minimum;
    let wanted = hard.active().constraint.min_domains.unwrap_or(1);
    match &*hard.report.lowest() {
        [] => "there is no domain".to_owned(),
        _ if hard.report.min_domains_unmet => format!(
            "only {} of {wanted} domains exist",
            hard.report.domain_count
        ),
        lowest => format!(
            "{} {} {}",
            among(lowest),
            verb(lowest.len(), "has", "have"),
            match minimum {
                0 => "no pod".to_owned(),
                pods => plural(pods, "pod"),
            }
        ),
    }
}
