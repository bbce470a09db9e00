//! The storage that pods use, looked up again among the pods of all namespaces, and the volumes that
//! claims can be bound to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::finding::Findings;
use super::pods::each_stored;
use crate::matching::{Path, PodDisk, PodStorage, Violations};
use crate::proto::v1::change::Object;
use crate::recount::room;
use crate::snapshot::{FreeVolume, Frozen, ListOf, is_reservation};

/// Compares the kept users of storage. `None` as soon as `is_cancelled` returns true.
pub fn compare(
    frozen: &Frozen,
    findings: &mut Findings,
    is_cancelled: &dyn Fn() -> bool,
) -> Option<()> {
    let mut found: BTreeMap<String, u32> = BTreeMap::new();
    each_stored(frozen, is_cancelled, |namespace, name, pod| {
        let (Some(node), Some(spec)) = (room::node_taken(pod), &pod.spec) else {
            return;
        };
        let metadata = pod.metadata.clone().unwrap_or_default();
        let no_faults = &mut Violations::default();
        let used = PodStorage::compile(&metadata, spec, Path::root("spec"), no_faults);
        if is_reservation(name) && !used.is_empty() {
            *found.entry(name_of(name, None, node)).or_default() += 1;
        }
        let claims = used.claims.iter().filter(|claim| !claim.is_ephemeral);
        let claims = claims.map(|claim| (format!("{namespace}/{}", claim.name), None));
        let disks = used.disks.iter();
        let disks = disks.map(|disk| (format!("/{:?}/{}", disk.kind, disk.id), Some(disk)));
        for (key, disk) in claims.chain(disks) {
            *found.entry(name_of(&key, disk, node)).or_default() += 1;
        }
    })?;
    let kept = frozen.storage_use().iter().map(|(key, used)| {
        let node = frozen.nodes().name(used.slot);
        (name_of(key, used.disk, node), used.pods)
    });
    let reserved = frozen.storage_use().reserved().map(|(slot, used)| {
        let node = frozen.nodes().name(slot);
        (name_of(&used.name, None, node), 1)
    });
    let kept: BTreeMap<String, u32> = kept.chain(reserved).collect();
    compare_lists(frozen, findings, is_cancelled)?;
    let mut storage = findings.about("", || "storage of pods".to_owned());
    storage.compare_counts(|name| format!("pods with {name}"), &kept, &found);
    Some(())
}

/// Compares the lists of volumes that claims can be bound to with the volumes.
fn compare_lists(
    frozen: &Frozen,
    findings: &mut Findings,
    is_cancelled: &dyn Fn() -> bool,
) -> Option<()> {
    let storage = &frozen.cluster_objects().storage;
    let mut found: BTreeSet<String> = BTreeSet::new();
    let volumes = storage.to_wire().filter_map(|object| match object {
        Object::PersistentVolume(volume) => Some(volume),
        _ => None,
    });
    for volume in volumes {
        if is_cancelled() {
            return None;
        }
        let name = volume.metadata.map_or_else(String::new, |it| it.name);
        let Some(kept) = storage.volume(&name) else {
            continue;
        };
        let claimed = volume.spec.and_then(|spec| spec.claim_ref);
        if let Some(claim) = claimed {
            found.insert(format!("{name} for {}/{}", claim.namespace, claim.name));
        } else if volume.status.is_some_and(|it| it.phase == "Available") {
            let class = kept.class();
            let Some(needed) = kept.needed_labels() else {
                found.insert(format!("{name} of {class} anywhere"));
                continue;
            };
            let pairs = needed.pairs.into_iter();
            found.extend(pairs.map(|(key, value)| format!("{name} of {class} by {key}={value}")));
        }
    }
    let mut kept: BTreeSet<String> = BTreeSet::new();
    for (of, list) in storage.lists() {
        let of = match of {
            ListOf::Claim(key) => format!("for {key}"),
            ListOf::Class(class, None) => format!("of {class} anywhere"),
            ListOf::Class(class, Some((key, value))) => format!("of {class} by {key}={value}"),
        };
        let is_same = |name: &str, free: &FreeVolume| {
            let volume = storage.volume(name);
            volume.is_some_and(|volume| Arc::ptr_eq(volume, &free.volume))
        };
        let free = list.iter().filter(|free| is_same(&free.rank.name, free));
        kept.extend(free.map(|free| format!("{} {of}", free.rank.name)));
    }
    let mut lists = findings.about("", || "free volumes".to_owned());
    for name in kept.symmetric_difference(&found) {
        let counts = [kept.contains(name), found.contains(name)].map(usize::from);
        lists.compare(format_args!("entries of {name}"), counts[0], counts[1]);
    }
    Some(())
}

fn name_of(key: &str, disk: Option<&PodDisk>, node: &str) -> String {
    let how = disk.map(|disk| (disk.read_only, &disk.monitors));
    format!("{key} ({how:?}) on {node:?}")
}
