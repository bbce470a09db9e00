//! The hints about affinity between pods.

use evenkeel::proto::v1::hint::Kind;
use evenkeel::proto::v1::{LabelSelector, Namespace, PodAffinityTerm};

use super::Case;
use super::hints::{WEB, and, case, state};
use support::build::{ZONE, meta, node, on, pod, pod_term, with_affinity};
use support::model::Stored;

/// Cases of terms that keep the pod off nodes.
pub(super) fn cases() -> Vec<Case> {
    let zones = || state(&[("a1", "a", 1), ("b1", "b", 0), ("c1", "c", 0)]);
    let next = || pod("next", &WEB);
    let (web, db) = (pod_term(ZONE, &WEB), pod_term(ZONE, &[("app", "db")]));
    let elsewhere = PodAffinityTerm {
        namespaces: vec!["shop".into()],
        namespace_selector: Some(LabelSelector {
            match_labels: [("team".into(), "a".into())].into(),
            ..LabelSelector::default()
        }),
        ..web.clone()
    };
    let mut cache = on(pod("cache", &[("app", "cache")]), "b1");
    cache.metadata.get_or_insert_default().namespace = "other".into();
    let other = Namespace {
        metadata: Some(meta("other", &[("team", "b")])),
    };
    let term = PodAffinityTerm {
        namespace_selector: Some(LabelSelector::default()),
        ..web.clone()
    };
    let everywhere = with_affinity(cache.clone(), &[], &[term]);
    let watchful = with_affinity(
        on(pod("watchful", &[]), "c1"),
        &[],
        std::slice::from_ref(&web),
    );
    vec![
        case(
            "near pods that are in one zone",
            zones(),
            with_affinity(next(), std::slice::from_ref(&web), &[]),
            Kind::PodAffinity,
            Some(&[
                "its podAffinity wants pods with app=web in the same topology.kubernetes.io/zone, \
                 and such pods are in a: that refuses 2 nodes",
            ]),
        ),
        case(
            "near pods that are nowhere",
            and(zones(), [node("bare", &[]).change()]),
            with_affinity(next(), &[db], &[]),
            Kind::PodAffinity,
            Some(&[
                "its podAffinity wants pods with app=db in the same topology.kubernetes.io/zone, \
                 and no node with the label topology.kubernetes.io/zone has one in its domain: \
                 that refuses 4 nodes",
            ]),
        ),
        case(
            "near pods of other namespaces",
            and(zones(), [other.change()]),
            with_affinity(next(), &[elsewhere], &[]),
            Kind::PodAffinity,
            Some(&["wants pods with app=web in shop or namespaces with team=a in the same"]),
        ),
        case(
            "away from pods",
            zones(),
            with_affinity(next(), &[], std::slice::from_ref(&web)),
            Kind::PodAffinity,
            Some(&[
                "its podAntiAffinity keeps it from pods with app=web in the same \
                 topology.kubernetes.io/zone, which are in a: that refuses 1 node",
            ]),
        ),
        case(
            "kept away by a pod of the namespace",
            and(zones(), [watchful.change()]),
            next(),
            Kind::PodAffinity,
            Some(&[
                "1 pod of namespace default in c (by topology.kubernetes.io/zone) has \
                 anti-affinity to pods with app=web, which it is one of: that refuses 1 node",
            ]),
        ),
        case(
            "kept away by a pod of another namespace",
            and(zones(), [everywhere.change()]),
            next(),
            Kind::PodAffinity,
            Some(&[
                "1 pod in b (by topology.kubernetes.io/zone) has anti-affinity to pods with \
                 app=web in all namespaces, which it is one of: that refuses 1 node",
            ]),
        ),
        case(
            "terms that refuse nothing",
            zones(),
            with_affinity(next(), &[], &[pod_term("rack", &WEB)]),
            Kind::PodAffinity,
            None,
        ),
    ]
}
