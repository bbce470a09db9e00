//! Hints about pods that are counted or not counted unexpectedly.

use std::collections::{BTreeMap, BTreeSet};

use crate::explain::case::{Case, values};
use crate::explain::diagnosis::{Diagnosis, hint, suggest, title};
use crate::explain::words::{among, joined, plural, verb};
use crate::matching::{Constraint, Selector};
use crate::proto::v1::hint::Kind;
use crate::snapshot::CountedSet;
use crate::spread::Active;

/// The label that distinguishes the revisions of a Deployment.
const HASH: &str = "pod-template-hash";

/// Finds a constraint that counts several revisions of this workload together. These are pods with
/// the same labels except the hash.
pub fn mixed_revisions(case: &Case<'_>, active: &Active) -> Option<Diagnosis> {
    // Default constraints cannot have matchLabelKeys.
    if active.from_defaults {
        return None;
    }
    let own = case.labels().get(HASH).map(String::as_str);
    let revisions = revisions(case, active);
    let names: BTreeSet<&str> = revisions.keys().copied().chain(own).collect();
    if names.len() < 2 || revisions.is_empty() {
        return None;
    }
    let listed = revisions
        .iter()
        .map(|(hash, pods)| format!("{} of {hash}", plural(i64::from(*pods), "pod")));
    let message = format!(
        "{} counts several revisions of the workload together: {}. matchLabelKeys: [{HASH}] \
         would spread each by itself",
        title(active),
        joined(&listed.collect::<Vec<_>>()),
    );
    let mut found = Diagnosis::from(hint(Kind::MixedRevisions, active, message));
    if let Some(own) = own {
        suggest_hash(case, active, own, &mut found);
    }
    Some(found)
}

/// Returns, for each revision of the pod's workload, the number of pods that a constraint counts.
/// The pods of a workload have the same labels except the hash.
fn revisions<'a>(case: &Case<'a>, active: &Active) -> BTreeMap<&'a str, u32> {
    let without_hash = case.labels().iter().filter(|(key, _)| *key != HASH);
    let expected: Vec<(&str, &str)> = without_hash.map(|(k, v)| (&**k, &**v)).collect();
    let is_of_workload = |set: &CountedSet<'_>| {
        let rest = set.labels().filter(|(key, _)| *key != HASH);
        rest.eq(expected.iter().copied())
    };
    let mut revisions: BTreeMap<&str, u32> = BTreeMap::new();
    let sets = case.read_view.matching_sets(active.counted());
    for set in sets.filter(is_of_workload) {
        let hash = set.labels().find(|(key, _)| *key == HASH);
        let pods: u32 = set.counts().map(|(_, pods)| pods).sum();
        if let Some((_, hash)) = hash.filter(|_| pods > 0) {
            *revisions.entry(hash).or_default() += pods;
        }
    }
    revisions
}

/// Adds the effect of counting only the pod's own revision.
fn suggest_hash(case: &Case<'_>, active: &Active, own: &str, found: &mut Diagnosis) {
    let revise = |_: &mut Constraint, selector: &mut Selector| {
        *selector = selector.clone().and_labels([(HASH, own)]);
    };
    let revised = case.revised(active, revise);
    let (before, after) = (case.feasible_count(), case.admitted_with(&revised));
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
            "set matchLabelKeys: [{HASH}] on {}, which lets it onto {}",
            title(active),
            plural(after.len(), "node")
        ));
    }
}

/// Finds matching pods that are being deleted, which are not counted.
pub fn terminating(case: &Case<'_>, active: &Active) -> Option<Diagnosis> {
    let key = &*active.constraint.topology_key;
    let mut by_value: BTreeMap<&str, usize> = BTreeMap::new();
    for (slot, pods) in case.read_view.terminating(active.counted()) {
        let node = case.read_view.nodes.get(slot);
        if let Some(value) = node.and_then(|node| node.label_text(key)) {
            *by_value.entry(value).or_default() += pods as usize;
        }
    }
    if by_value.is_empty() {
        return None;
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
    Some(hint(Kind::TerminatingPods, active, message).into())
}
