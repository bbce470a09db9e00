//! Hints about pods that are counted or not counted unexpectedly.

use std::collections::{BTreeMap, BTreeSet};

use crate::explain::case::{Case, values};
use crate::explain::diagnosis::{Diagnosis, hint, suggest, title};
use crate::explain::words::{among, joined, plural, verb};
use crate::matching::{Constraint, Selector};
use crate::proto::v1::hint::Kind;
use crate::snapshot::Stopped;
use crate::spread::Active;
use crate::spread::describe::WorkloadId;

/// The label that distinguishes the revisions of a Deployment.
const HASH: &str = "pod-template-hash";

/// Finds a constraint that counts several revisions of this workload together.
pub fn mixed_revisions(case: &Case<'_>, active: &Active) -> Result<Option<Diagnosis>, Stopped> {
    // Default constraints cannot have matchLabelKeys.
    if active.from_defaults {
        return Ok(None);
    }
    let own = case.labels().get(HASH).map(String::as_str);
    let counted = counted_workloads(case, active)?;
    let Some(own_id) = own_workload(case, &counted) else {
        return Ok(None);
    };
    let revisions = &counted[&own_id];
    let revisions: Vec<(&str, usize)> = revisions
        .iter()
        .filter_map(|(hash, pods)| Some((hash.as_deref()?, *pods)))
        .collect();
    let names: BTreeSet<&str> = revisions.iter().map(|(hash, _)| *hash).chain(own).collect();
    if names.len() < 2 || revisions.is_empty() {
        return Ok(None);
    }
    let listed = revisions
        .iter()
        .map(|(hash, pods)| format!("{} of {hash}", plural(*pods, "pod")));
    let message = format!(
        "{} counts several revisions of the workload together: {}. matchLabelKeys: [{HASH}] \
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
fn counted_workloads(
    case: &Case<'_>,
    active: &Active,
) -> Result<BTreeMap<WorkloadId, BTreeMap<Option<String>, usize>>, Stopped> {
    let mut counted: BTreeMap<WorkloadId, BTreeMap<Option<String>, usize>> = BTreeMap::new();
    let Some(pods) = &case.pods else {
        return Ok(counted);
    };
    let groups = pods.groups().iter();
    let groups = groups.filter(|group| pods.selects(active.counted(), group));
    let owners = case.read_view.owners();
    for group in groups {
        case.read_view.deadline.step(1 + owners.len())?;
        let pod = pods.pod(group);
        let metadata = pod.metadata.as_ref();
        let adopter = metadata.and_then(|metadata| owners.adopter(&metadata.labels));
        let mut id = WorkloadId::of(&pod, adopter);
        // The revisions of pods without a controller differ in this label alone.
        id.labels.remove(HASH);
        let hash = pod.metadata.and_then(|mut it| it.labels.remove(HASH));
        *counted.entry(id).or_default().entry(hash).or_default() += group.nodes.len();
    }
    Ok(counted)
}

/// The workload of the pod among those that are counted: that of its controller. Without one, the only
/// one whose pods have the same labels except the revision.
fn own_workload(
    case: &Case<'_>,
    counted: &BTreeMap<WorkloadId, BTreeMap<Option<String>, usize>>,
) -> Option<WorkloadId> {
    let own = case.owner();
    let is_own = |id: &&WorkloadId| match own {
        Some(own) => (&*id.kind, &*id.name) == own,
        None => {
            let without_hash = case.labels().iter().filter(|(key, _)| *key != HASH);
            id.kind.is_empty() && id.labels.iter().eq(without_hash)
        }
    };
    counted.keys().find(is_own).cloned()
}

/// Adds the effect of counting only the pod's own revision.
fn suggest_hash(
    case: &Case<'_>,
    active: &Active,
    own: &str,
    found: &mut Diagnosis,
) -> Result<(), Stopped> {
    let revise = |_: &mut Constraint, selector: &mut Selector| {
        *selector = selector.clone().and_labels([(HASH, own)]);
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
            "set matchLabelKeys: [{HASH}] on {}, which lets it onto {}",
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
