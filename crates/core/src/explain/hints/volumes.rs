//! Hints about storage that keeps the pod off nodes: the claim, volume or disk, and the remedy.

use std::collections::BTreeSet;

use crate::explain::case::{Case, JudgedNode};
use crate::explain::words::{Diagnosis, among, general_hint, plural};
use crate::matching::PodDisk;
use crate::proto::v1::hint::Kind;
use crate::snapshot::Stopped;
use crate::spread::{BoundClaim, Reason};

/// Returns the hints about claims and disks that keep the pod off nodes which pass all earlier
/// checks.
pub fn volumes(case: &Case<'_>) -> Result<Vec<Diagnosis>, Stopped> {
    let Some(volumes) = &case.filter.volumes else {
        return Ok(Vec::new());
    };
    let refused = |by: &Reason| -> Vec<&JudgedNode<'_>> {
        let by_it = |node: &&JudgedNode<'_>| {
            let refusal = node.refusal.as_ref();
            refusal.is_some_and(|refusal| refusal.reasons().any(|reason| reason == by))
        };
        case.nodes.iter().filter(by_it).collect()
    };
    let mut found = Vec::new();
    let not_ready = volumes.not_ready.as_ref();
    if let Some(reason) = not_ready.filter(|reason| !refused(reason).is_empty()) {
        let words = reason.text();
        found.push(format!("{words}: no node takes it. {}", remedy(&words)));
    }
    let nodes = refused(&Reason::DiskConflict);
    if !nodes.is_empty() {
        let disks: Vec<&str> = volumes.disks.iter().map(disk_name).collect();
        found.push(format!(
            "pods on {} ({}) use its disk {}, and not all of them only read it: it fits there once these pods are gone",
            plural(nodes.len(), "node"),
            among(&names(&nodes)),
            among(&disks),
        ));
    }
    if !refused(&Reason::ClaimInUse).is_empty() {
        found.push(format!(
            "its claim {} is ReadWriteOncePod and another pod uses it: it fits once that pod is gone",
            among(&volumes.once),
        ));
    }
    let (away, elsewhere) = (
        refused(&Reason::VolumeNodeAffinity),
        refused(&Reason::VolumeZone),
    );
    for bound in &volumes.bound {
        let nodes = away.len() + elsewhere.len();
        let deadline = case.read_view.deadline;
        deadline.step(bound.per_node().saturating_mul(nodes))?;
        let not_reached = away
            .iter()
            .filter(|node| !bound.is_reached(node.node))
            .count();
        let words = "its node affinity lets other nodes alone reach it";
        found.extend(bound_to(bound, words, not_reached));
        let outside = elsewhere
            .iter()
            .filter(|node| !bound.is_in_zones(node.node))
            .count();
        let zones = bound.volume.iter().flat_map(|volume| &*volume.zones);
        let zones: BTreeSet<&str> = zones
            .flat_map(|(.., values)| values)
            .map(|it| &**it)
            .collect();
        let zones: Vec<&str> = zones.into_iter().collect();
        found.extend(bound_to(
            bound,
            &format!("it is in {}", among(&zones)),
            outside,
        ));
    }
    let nodes = refused(&Reason::VolumeBinding);
    if !nodes.is_empty() {
        let waiting: Vec<&str> = volumes.waiting().collect();
        let held = match volumes.held {
            0 => String::new(),
            held => format!(" (reservations hold {})", plural(held, "volume")),
        };
        found.push(format!(
            "its claim {} waits for a node, and {} ({}) neither reach an available volume that it could be bound to{held}, \
             nor may one be made there: a volume that they reach, or allowedTopologies of its class with their \
             labels, would help",
            among(&waiting),
            plural(nodes.len(), "node"),
            among(&names(&nodes)),
        ));
    }
    let hints = found.into_iter();
    let hints = hints.map(|message| general_hint(Kind::Volumes, message));
    Ok(hints.map(Diagnosis::from).collect())
}

fn names<'n>(nodes: &[&JudgedNode<'n>]) -> Vec<&'n str> {
    nodes.iter().map(|node| node.name).collect()
}

fn disk_name(disk: &PodDisk) -> &str {
    // The id of a Ceph disk has two lines: the pool and the image. The last is the name.
    disk.id.rsplit('\n').next().unwrap_or_default()
}

fn bound_to(bound: &BoundClaim<'_>, words: &str, away: usize) -> Option<String> {
    (away > 0).then(|| {
        format!(
            "its claim {} is bound to the volume {}, and {words}: that refuses {}",
            bound.claim,
            bound.name,
            plural(away, "node"),
        )
    })
}

/// Returns the remedy for a reason in these words, by which no node takes the pod.
fn remedy(words: &str) -> &'static str {
    if words.starts_with("pod has unbound immediate") {
        "Bind its claim to a volume, or give the claim a class that makes volumes"
    } else if words.starts_with("persistentvolumeclaim") && words.ends_with("not found") {
        "Create the claim"
    } else if words.starts_with("persistentvolume ") {
        "Create the volume, or bind the claim to another one"
    } else if words.starts_with("waiting for ephemeral") {
        "The claim is made soon after the pod"
    } else if words.contains("VolumeBindingMode") {
        "Give the class a volumeBindingMode"
    } else {
        "Give it another claim"
    }
}
