//! Affinity between pods, and the namespaces that its terms select.

use evenkeel::proto::v1::{
    LabelSelector, LabelSelectorRequirement, Namespace, ObjectMeta, PodAffinity, PodAffinityTerm,
    WeightedPodAffinityTerm,
};
use proptest::collection::{btree_map, vec};
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::subsequence;

use super::{POD_KEYS, UIDS, match_label_keys_for, selector, text};
use crate::build::{HOSTNAME, ZONE};

/// Names of namespaces that have objects, and of one that never has.
const NAMED: [&str; 3] = ["default", "other", "ghost"];
const TEAMS: [&str; 2] = ["a", "b"];

/// A namespace with or without labels.
pub fn namespace() -> impl Strategy<Value = Namespace> {
    let labels = btree_map(text(&["team"]), text(&TEAMS), 0..=1);
    (text(&NAMED[..2]), text(&UIDS), labels).prop_map(|(name, uid, labels)| Namespace {
        metadata: Some(ObjectMeta {
            name,
            uid,
            labels,
            ..ObjectMeta::default()
        }),
    })
}

/// A selector by team: of all namespaces, some, or those without a team.
fn namespace_selector() -> impl Strategy<Value = LabelSelector> {
    let operator = text(&["In", "NotIn", "Exists", "DoesNotExist"]);
    let requirement = (operator, subsequence(&TEAMS, 1..=2)).prop_map(|(operator, teams)| {
        LabelSelectorRequirement {
            key: "team".into(),
            values: super::values_for(&operator, &teams),
            operator,
        }
    });
    vec(requirement, 0..=1).prop_map(|match_expressions| LabelSelector {
        match_expressions,
        ..LabelSelector::default()
    })
}

fn term() -> impl Strategy<Value = PodAffinityTerm> {
    let key = text(&[ZONE, ZONE, HOSTNAME, "rack"]);
    let namespaces = prop_oneof![
        3 => Just(Vec::new()),
        1 => subsequence(&NAMED, 1..=2),
    ];
    let keys = (subsequence(&POD_KEYS, 0..=1), subsequence(&POD_KEYS, 0..=1));
    let selected = weighted(0.2, namespace_selector());
    (key, weighted(0.95, selector()), namespaces, selected, keys).prop_map(
        |(topology_key, label_selector, namespaces, namespace_selector, (same, other))| {
            let match_label_keys = match_label_keys_for(label_selector.as_ref(), &same);
            let mut mismatch_label_keys = match_label_keys_for(label_selector.as_ref(), &other);
            mismatch_label_keys.retain(|key| !match_label_keys.contains(key));
            PodAffinityTerm {
                label_selector,
                namespaces: namespaces.into_iter().map(str::to_owned).collect(),
                topology_key,
                namespace_selector,
                match_label_keys,
                mismatch_label_keys,
            }
        },
    )
}

/// Rules of one or two required terms, some with a preferred one. Most pods have no rules.
pub fn rules(weight: f64) -> impl Strategy<Value = Option<PodAffinity>> {
    let weighted_term = term().prop_map(|term| WeightedPodAffinityTerm {
        weight: 1,
        pod_affinity_term: Some(term),
    });
    let terms = (vec(term(), 1..3), vec(weighted_term, 0..2));
    let rules = terms.prop_map(|(required, preferred)| PodAffinity {
        required_during_scheduling_ignored_during_execution: required,
        preferred_during_scheduling_ignored_during_execution: preferred,
    });
    weighted(weight, rules)
}
