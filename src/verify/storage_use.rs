//! The storage that pods use, looked up again among the pods of all namespaces.

use std::collections::BTreeMap;

use super::finding::Findings;
use super::pods::each_stored;
use crate::matching::{Path, PodDisk, PodStorage, Violations};
use crate::recount::room;
use crate::snapshot::{Frozen, is_reservation};

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
        (name_of(key, used.disk.as_ref(), node), used.pods)
    });
    let reserved = frozen.storage_use().reserved().map(|(slot, used)| {
        let node = frozen.nodes().name(slot);
        (name_of(&used.name, None, node), 1)
    });
    let kept: BTreeMap<String, u32> = kept.chain(reserved).collect();
    let mut storage = findings.about("", || "storage of pods".to_owned());
    storage.compare_counts(|name| format!("pods with {name}"), &kept, &found);
    Some(())
}

fn name_of(key: &str, disk: Option<&PodDisk>, node: &str) -> String {
    let how = disk.map(|disk| (disk.read_only, &disk.monitors));
    format!("{key} ({how:?}) on {node:?}")
}
