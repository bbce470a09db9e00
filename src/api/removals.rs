//! `RankRemovals`: the pods of a workload that should go.

use std::collections::BTreeMap;

use super::answer::defaults_kind;
use super::error::Error;
use super::request;
use crate::limits::Limit;
use crate::matching::revisions::{CLONE_SET, is_scaled_by_revisions};
use crate::matching::{Path, Violations, names};
use crate::plan::{RemovalOptions, rank_removals};
use crate::proto::v1;
use crate::snapshot::{Limits, PodGroups, Snapshot};

/// Checks a request.
pub fn check(
    wire: v1::RankRemovalsRequest,
    limits: &Limits,
    faults: &mut Violations,
) -> Option<RemovalOptions> {
    names::check_namespace(&wire.namespace, Path::root("namespace"), faults);
    let workload = request::workload(wire.workload.unwrap_or_default(), faults);
    if let Some(why) = unscalable(&workload.kind) {
        faults.add(Path::root("workload").field("kind"), why);
    }
    let path = Path::root("count");
    let count = usize::try_from(wire.count).unwrap_or(0);
    if count == 0 {
        faults.add(path, "must be at least 1");
    }
    faults.at_most(path, limits, Limit::Replicas, count);
    let facts = facts(wire.pods, limits, faults);
    let sizes = sizes(wire.revisions, &workload.kind, limits, faults);
    let max_domains = request::max_domains(wire.max_domains, faults);
    Some(RemovalOptions {
        namespace: names::namespace_or_default(&wire.namespace).to_owned(),
        limits: limits.clone(),
        facts,
        sizes,
        max_domains,
        workload,
        count,
    })
}

/// Plans, and answers without the epoch and age of the snapshot.
///
/// # Errors
/// [`Error::NoWorkload`] when the workload has no pods, and [`Error::Deadline`] when
/// `is_given_up` returned true.
pub fn answer(
    options: RemovalOptions,
    snapshot: &Snapshot,
    is_given_up: &dyn Fn() -> bool,
) -> Result<v1::RankRemovalsResponse, Error> {
    let plan = |pods: PodGroups<'_>| {
        let (read_view, planned) = (pods.read_view(), rank_removals(&pods, &options)?);
        Ok::<_, Error>(planned.map(|planned| v1::RankRemovalsResponse {
            revision: read_view.revision,
            defaults: defaults_kind(read_view.defaults),
            ..planned
        }))
    };
    let namespace = &options.namespace;
    let planned = snapshot.state().survey(namespace, is_given_up, plan)?;
    planned.ok_or_else(|| Error::no_workload(namespace, &options.workload))
}

/// The reason why the pods of a kind of controller cannot be scaled down by a number.
fn unscalable(kind: &str) -> Option<String> {
    let why = match kind {
        "DaemonSet" => "runs a pod on each node that its template admits",
        "Node" => "runs the static pods of its files",
        "Job" | "CronJob" => "runs its pods until so many have finished",
        _ => return None,
    };
    Some(format!(
        "must not be {kind}: it {why}, and creates one that is removed again"
    ))
}

/// Returns the facts about pods in a request, by their names.
fn facts(
    pods: Vec<v1::PodFacts>,
    limits: &Limits,
    faults: &mut Violations,
) -> BTreeMap<String, v1::PodFacts> {
    let path = Path::root("pods");
    let mut facts = BTreeMap::new();
    for (index, pod) in pods.into_iter().enumerate() {
        let path = path.index(index);
        let name = path.field("name");
        if pod.name.is_empty() {
            faults.add(name, "is required");
        }
        for (field, text) in [("name", &pod.name), ("uid", &pod.uid)] {
            request::check_length(text, path.field(field), limits, faults);
        }
        for (field, time) in [
            ("readyTime", &pod.ready_time),
            ("creationTime", &pod.creation_time),
        ] {
            names::check_time(time.as_ref(), path.field(field), faults);
        }
        if facts.insert(pod.name.clone(), pod).is_some() {
            faults.add(name, "is in the list more than once");
        }
    }
    facts
}

/// Returns the pods that the revisions of a workload of this kind keep, by their hashes.
fn sizes(
    revisions: Vec<v1::RevisionSize>,
    kind: &str,
    limits: &Limits,
    faults: &mut Violations,
) -> BTreeMap<String, i32> {
    let path = Path::root("revisions");
    if !revisions.is_empty() && !is_scaled_by_revisions(kind) {
        faults.add(
            path,
            "must be empty: only a Deployment, Rollout or CloneSet has them",
        );
    }
    let mut sizes = BTreeMap::new();
    for (index, revision) in revisions.into_iter().enumerate() {
        let path = path.index(index);
        let hash = path.field("hash");
        if revision.hash.is_empty() && kind != CLONE_SET {
            faults.add(hash, "is required");
        }
        request::check_length(&revision.hash, hash, limits, faults);
        if revision.replicas < 0 {
            faults.add(path.field("replicas"), "must be at least 0");
        }
        if sizes.insert(revision.hash, revision.replicas).is_some() {
            faults.add(hash, "is in the list more than once");
        }
    }
    sizes
}
