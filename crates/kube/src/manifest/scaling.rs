//! The pods that revisions keep when a workload is scaled down, as controllers decide it:
//! kube-controller-manager 1.37 of a Deployment, Argo Rollouts 1.9 of a Rollout, OpenKruise 1.9 of
//! a CloneSet.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::Value;

use super::item::{MAX_REPLICAS, ROLLOUT_REVISION, SCALE_DOWN_DEADLINE, text};
use super::pod_facts::time;
use evenkeel_core::matching::revisions::{CLONE_SET, template_hash_label};
use evenkeel_core::plan::{ReplicaSetShare, sizes_after};
use evenkeel_core::proto::v1::RevisionSize;

/// `maxSurge` of a Deployment or Rollout that does not say it.
const MAX_SURGE: &str = "25%";

/// The weight of all traffic of a Rollout that does not say it.
const ALL_TRAFFIC: i64 = 100;

/// The pods that each revision keeps, by its hash.
type Sizes = BTreeMap<String, i32>;

/// The pods that each revision of a workload keeps that is scaled down by `count`; none if that is
/// not decided by revisions, or not known.
pub(super) fn sizes<'v>(
    workload: &Value,
    replica_sets: impl Iterator<Item = &'v Value>,
    count: i32,
) -> Vec<RevisionSize> {
    let kind = text(workload, "kind");
    let wanted = number(workload, "/spec/replicas").unwrap_or(1) - i64::from(count);
    let wanted = wanted.max(0);
    let sets = replica_sets.filter_map(|set| ReplicaSet::of(set, template_hash_label(kind)?));
    let sets: Vec<ReplicaSet> = sets.collect();
    let sizes = match kind {
        CLONE_SET => of_clone_set(workload, wanted),
        _ if sets.is_empty() => Sizes::new(),
        "Deployment" => of_deployment(workload, sets, wanted),
        "Rollout" => of_rollout(workload, sets, wanted),
        _ => Sizes::new(),
    };
    let sizes = sizes.into_iter();
    let sizes = sizes.map(|(hash, replicas)| RevisionSize { hash, replicas });
    sizes.collect()
}

/// A ReplicaSet of a Deployment or Rollout.
struct ReplicaSet {
    share: ReplicaSetShare,
    /// True if a Rollout that has left it keeps its pods for a while.
    has_deadline: bool,
    /// The number of its Rollout's revision.
    revision: i64,
}

impl ReplicaSet {
    /// A ReplicaSet whose pods have their hash in this label.
    fn of(value: &Value, label: &str) -> Option<Self> {
        let metadata = &value["metadata"];
        let hash = text(&metadata["labels"], label).to_owned();
        let most = text(&metadata["annotations"], MAX_REPLICAS).parse();
        let created = time(&metadata["creationTimestamp"]);
        let share = ReplicaSetShare {
            replicas: number(value, "/spec/replicas").unwrap_or(1),
            max_replicas: most.unwrap_or(0).max(0),
            created: created.map(|time| (time.seconds, time.nanos)),
            hash,
        };
        let deadline = text(&metadata["annotations"], SCALE_DOWN_DEADLINE);
        let revision = text(&metadata["annotations"], ROLLOUT_REVISION).parse();
        (!share.hash.is_empty()).then_some(Self {
            share,
            has_deadline: !deadline.is_empty(),
            revision: revision.unwrap_or(0),
        })
    }
}

/// A Deployment of the strategy Recreate scales nothing while several ReplicaSets have pods.
fn of_deployment(deployment: &Value, sets: Vec<ReplicaSet>, wanted: i64) -> Sizes {
    let strategy = &deployment["spec"]["strategy"];
    let is_recreated = text(strategy, "type") == "Recreate";
    let active = sets.iter().filter(|it| it.share.replicas > 0).count();
    if is_recreated && active > 1 {
        return each(&sets, |it| it.share.replicas);
    }
    let surge = scaled(&strategy["rollingUpdate"]["maxSurge"], MAX_SURGE, wanted);
    sizes_after(sets.into_iter().map(|it| it.share).collect(), wanted, surge)
}

/// The sizes after the canary or the preview has reached what its step says, which needs no more than
/// that its pods become available.
fn of_rollout(rollout: &Value, mut sets: Vec<ReplicaSet>, wanted: i64) -> Sizes {
    sets.sort_by_key(|it| Reverse(it.revision));
    let sets = &*sets;
    let (spec, status) = (&rollout["spec"], &rollout["status"]);
    let (new, stable) = (text(status, "currentPodHash"), text(status, "stableRS"));
    let is_updating = new != stable && sets.iter().any(|it| it.share.hash == stable);
    let (canary, blue_green) = (&spec["strategy"]["canary"], &spec["strategy"]["blueGreen"]);
    let is_blue_green = blue_green.is_object();
    let is_routed = canary["trafficRouting"].is_object();
    let is_dynamic = is_routed && canary["dynamicStableScale"] == true;
    let mut pauses = status["pauseConditions"].as_array().into_iter().flatten();
    let is_inconclusive = pauses.any(|it| text(it, "reason") == "InconclusiveAnalysisRun");
    if !is_blue_green && (spec["paused"] == true || is_inconclusive) {
        return each(sets, |it| it.share.replicas);
    }
    let delay = match is_blue_green {
        true => &blue_green["abortScaleDownDelaySeconds"],
        false => &canary["abortScaleDownDelaySeconds"],
    };
    let stays = status["abort"] == true
        && is_updating
        && (is_blue_green || is_routed)
        && *delay != 0
        && !(is_dynamic && delay.is_null());
    let (new_size, stable_size) = match is_updating {
        false => (wanted, wanted),
        true if is_blue_green => (preview(rollout, sets, wanted), wanted),
        true if is_routed => routed(canary, status, wanted),
        true => {
            let weight = weight(canary, status, ALL_TRAFFIC);
            let surge = scaled(&canary["maxSurge"], MAX_SURGE, wanted);
            approximated(wanted, weight, surge)
        }
    };
    let strategy = if is_blue_green { blue_green } else { canary };
    let limit = number(strategy, "/scaleDownDelayRevisionLimit");
    let mut delayed = 0;
    // The newest of those that wait for their deadline stay.
    let mut until_deadline = |size: i64| {
        delayed += 1;
        if limit.is_none_or(|limit| delayed <= limit) {
            size
        } else {
            0
        }
    };
    each(sets, |it| match &*it.share.hash {
        hash if hash == new && stays => it.share.replicas,
        hash if hash == new => new_size,
        hash if hash == stable => stable_size,
        _ if it.share.replicas == 0 => 0,
        hash if is_blue_green && is_served(&status["blueGreen"], hash) => it.share.replicas,
        _ if is_blue_green && it.has_deadline => until_deadline(wanted),
        _ if is_blue_green => until_deadline(it.share.replicas),
        _ if is_routed && !is_dynamic && (it.has_deadline || !is_updating) => {
            until_deadline(it.share.replicas)
        }
        _ => 0,
    })
}

/// Returns whether a Service of a Rollout that is blue and green selects the pods with this hash.
fn is_served(status: &Value, hash: &str) -> bool {
    let selectors = ["activeSelector", "previewSelector"];
    selectors.iter().any(|it| text(status, it) == hash)
}

/// The size of the preview of a Rollout that is blue and green.
fn preview(rollout: &Value, sets: &[ReplicaSet], wanted: i64) -> i64 {
    let (spec, status) = (&rollout["spec"], &rollout["status"]);
    let preview = number(spec, "/strategy/blueGreen/previewReplicaCount");
    let active = text(&status["blueGreen"], "activeSelector");
    let is_there = sets.iter().any(|it| it.share.hash == active);
    let pauses = status["pauseConditions"].as_array();
    let is_paused = spec["paused"] == true || pauses.is_some_and(|it| !it.is_empty());
    let is_passed = !is_paused && status["blueGreen"]["scaleUpPreviewCheckPoint"] == true;
    let is_promoted = status["promoteFull"] == true || is_passed;
    let is_active = !is_there || active == text(status, "currentPodHash");
    preview
        .filter(|_| !is_active && !is_promoted)
        .unwrap_or(wanted)
}

/// The sizes of the canary and the stable ReplicaSet where traffic is routed.
fn routed(canary: &Value, status: &Value, wanted: i64) -> (i64, i64) {
    let all = number(canary, "/trafficRouting/maxTrafficWeight").unwrap_or(ALL_TRAFFIC);
    let is_aborted = status["abort"] == true;
    let scale = said(canary, status, "setCanaryScale").filter(|scale| {
        let is_left = !is_aborted || canary["abortScaleDownDelaySeconds"] == 0;
        is_left && status["promoteFull"] != true && scale["matchTrafficWeight"] != true
    });
    let scale = scale.unwrap_or(&Value::Null);
    let (fixed, scaled) = (number(scale, "/replicas"), number(scale, "/weight"));
    let weight = match fixed {
        Some(_) => 0,
        None => scaled.unwrap_or_else(|| weight(canary, status, all)),
    };
    let part = |weight: i64| (weight * wanted + all - 1) / all.max(1);
    let least = number(canary, "/minPodsPerReplicaSet").unwrap_or(0);
    let at_least = |size: i64| match size {
        0 => 0,
        size => size.max(least.min(wanted)),
    };
    if canary["dynamicStableScale"] != true {
        return (fixed.unwrap_or_else(|| at_least(part(weight))), wanted);
    }
    let now = |of: &str| number(status, &format!("/canary/weights/{of}/weight")).unwrap_or(0);
    let stable = part((all - weight).max(now("stable")));
    let new = fixed.unwrap_or_else(|| part(weight));
    let new = new.max(if is_aborted { part(now("canary")) } else { 0 });
    (at_least(new), at_least(stable))
}

/// The weight of the canary at the current step, of `all`.
fn weight(canary: &Value, status: &Value, all: i64) -> i64 {
    match status["promoteFull"] == true {
        true => all,
        false if status["abort"] == true => 0,
        false if step(canary, status).is_none() => all,
        false => said(canary, status, "setWeight").map_or(0, |it| it.as_i64().unwrap_or(0)),
    }
}

/// The steps up to the current one; `None` after the last.
fn step<'v>(canary: &'v Value, status: &Value) -> Option<&'v [Value]> {
    let current = number(status, "/currentStepIndex").unwrap_or(0);
    let current = usize::try_from(current).ok()?;
    canary["steps"].as_array()?.get(..=current)
}

/// What the last step that says it says.
fn said<'v>(canary: &'v Value, status: &Value, what: &str) -> Option<&'v Value> {
    let mut steps = step(canary, status)?.iter().rev();
    steps.find_map(|step| step.get(what))
}

/// The sizes of the canary and the stable ReplicaSet that come nearest to a weight without routed
/// traffic.
fn approximated(wanted: i64, weight: i64, surge: i64) -> (i64, i64) {
    let tied = |total: i64| {
        let exact = float(total) * (float(weight) / float(ALL_TRAFFIC));
        (exact.fract() - 0.5).abs() < f64::EPSILON
    };
    let floor = wanted * weight / ALL_TRAFFIC;
    let ceil = (wanted * weight + ALL_TRAFFIC - 1) / ALL_TRAFFIC;
    let may_be_none = weight == ALL_TRAFFIC || weight == 0 || (wanted == 1 && surge == 0);
    let may_round_down = floor != 0 || may_be_none;
    let options = [
        (ceil, wanted, ceil < wanted || may_be_none),
        (floor, wanted, !tied(wanted) && may_round_down),
        (ceil, wanted + 1, surge > 0),
        (
            floor,
            wanted + 1,
            surge > 0 && !tied(wanted + 1) && may_round_down,
        ),
    ];
    let off = |(new, total, _): &(i64, i64, bool)| {
        (float(new * ALL_TRAFFIC) / float(*total) - float(weight)).abs()
    };
    let possible = options.into_iter().filter(|it| it.2 && wanted > 0);
    let best = possible.min_by(|one, other| off(one).total_cmp(&off(other)));
    best.map_or((0, wanted), |(new, total, _)| (new, total - new))
}

/// A CloneSet removes pods of all revisions but the newest first, as far as its partition lets it. An
/// empty hash stands for all these revisions.
fn of_clone_set(clone_set: &Value, wanted: i64) -> Sizes {
    let (status, strategy) = (&clone_set["status"], &clone_set["spec"]["updateStrategy"]);
    // Since v1beta1 its fields are one level deeper.
    let update = strategy.get("rollingUpdate").unwrap_or(strategy);
    let new = text(status, "updateRevision");
    let updated = number(status, "/updatedReplicas").unwrap_or(0);
    let Some(all) = number(status, "/replicas").filter(|all| !new.is_empty() && updated < *all)
    else {
        return Sizes::new();
    };
    let before = all - updated;
    let mut partition = scaled(&update["partition"], "0", wanted);
    if update["partition"].is_string() && update["partition"] != "100%" && wanted > 1 {
        partition = partition.min(wanted - 1);
    }
    let partition = partition.clamp(0, wanted);
    let surge = match update["paused"] == true {
        true => 0,
        false => scaled(&update["maxSurge"], "0", wanted),
    };
    let (over, short) = (before - partition, wanted - partition - updated);
    let surge = surge.min(over.min(short)).max(0);
    let gone = (all - wanted - surge).max(0);
    let gone_before = over.max(0).min(gone);
    let left = size(updated - (gone - gone_before));
    // Pods have the name of the revision as a label, or only its end.
    let hash = new.rsplit('-').next().unwrap_or(new);
    Sizes::from([
        (String::new(), size(before - gone_before)),
        (new.to_owned(), left),
        (hash.to_owned(), left),
    ])
}

/// The sizes of ReplicaSets.
fn each(sets: &[ReplicaSet], mut of: impl FnMut(&ReplicaSet) -> i64) -> Sizes {
    let sizes = sets.iter().map(|it| (it.share.hash.clone(), size(of(it))));
    sizes.collect()
}

fn size(pods: i64) -> i32 {
    i32::try_from(pods).unwrap_or(i32::MAX)
}

fn float(number: i64) -> f64 {
    f64::from(size(number))
}

fn number(value: &Value, path: &str) -> Option<i64> {
    value.pointer(path)?.as_i64()
}

/// A number, or a percentage of `all` that is rounded up.
fn scaled(written: &Value, default: &str, all: i64) -> i64 {
    let of_text = |text: &str| match text.strip_suffix('%') {
        Some(percent) => Some((percent.parse::<i64>().ok()? * all + 99) / 100),
        None => text.parse().ok(),
    };
    let number = written.as_i64();
    let number = number.or_else(|| of_text(written.as_str().unwrap_or(default)));
    number.unwrap_or(0).max(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replicas, weight, surge: what Argo's tests of `approximateWeightedCanaryStableReplicaCounts`
    /// want for the canary and the stable ReplicaSet.
    #[test]
    fn canaries_are_sized_as_argo_sizes_them() {
        for (replicas, weight, surge, canary, stable) in [
            (0, 50, 0, 0, 0),
            (0, 100, 1, 0, 0),
            (1, 49, 0, 0, 1),
            (1, 50, 0, 1, 0),
            (1, 0, 1, 0, 1),
            (1, 1, 1, 1, 1),
            (1, 99, 1, 1, 1),
            (1, 100, 1, 1, 0),
            (2, 1, 0, 1, 1),
            (2, 99, 0, 1, 1),
            (2, 100, 0, 2, 0),
            (2, 1, 1, 1, 2),
            (2, 50, 1, 1, 1),
            (2, 99, 1, 2, 1),
            (3, 34, 0, 1, 2),
            (3, 50, 0, 2, 1),
            (3, 25, 1, 1, 3),
            (3, 33, 1, 1, 2),
            (3, 49, 1, 2, 2),
            (10, 14, 0, 1, 9),
            (10, 15, 0, 2, 8),
            (10, 99, 0, 9, 1),
            (10, 1, 1, 1, 10),
            (10, 19, 1, 2, 9),
            (10, 23, 1, 2, 8),
            (10, 25, 1, 3, 8),
            (10, 99, 1, 10, 1),
        ] {
            let told = format!("{replicas} at {weight} with {surge}");
            let sized = approximated(replicas, weight, surge);
            assert_eq!(sized, (canary, stable), "{told}");
        }
    }
}
