//! Every hint of the Kubernetes dialect: a case where it must appear, with its
//! numbers, and one where it must not.

use evenkeel::proto::v1::hint::Kind;
use evenkeel::proto::v1::{Change, ExplainRequest, LabelSelector, Pod, TopologySpreadConstraint};

use super::{Case, affinity, check, full_nodes, minimums, stuck, volumes};
use support::build::{ZONE, hard, node, on, pod, requirement, soft, spread, terminating};
use support::model::Stored;
use support::server::Server;

pub(super) const WEB: [(&str, &str); 1] = [("app", "web")];

/// A node in a zone, with this many web pods.
fn drawn(name: &str, zone: &str, pods: usize) -> Vec<Change> {
    let mut changes = vec![node(name, &[(ZONE, zone)]).change()];
    let running = (0..pods).map(|i| on(pod(&format!("{name}-{i}"), &WEB), name).change());
    changes.extend(running);
    changes
}

/// These nodes, each with its zone and the number of its web pods.
pub(super) fn state(nodes: &[(&str, &str, usize)]) -> Vec<Change> {
    let nodes = nodes.iter();
    nodes
        .flat_map(|(name, zone, pods)| drawn(name, zone, *pods))
        .collect()
}

pub(super) fn and(mut state: Vec<Change>, more: impl IntoIterator<Item = Change>) -> Vec<Change> {
    state.extend(more);
    state
}

/// A web pod with these constraints.
pub(super) fn web(constraints: Vec<TopologySpreadConstraint>) -> Pod {
    spread(pod("next", &WEB), constraints)
}

pub(super) fn zone(max_skew: i32) -> TopologySpreadConstraint {
    hard(max_skew, ZONE, &WEB)
}

fn cases() -> Vec<Case> {
    [
        selectors(),
        minimums::cases(),
        labels(),
        revisions(),
        full_nodes::room(),
        full_nodes::nominations(),
        affinity::cases(),
        volumes::cases(),
        stuck::cases(),
    ]
    .concat()
}

pub(super) fn case(
    name: &'static str,
    changes: Vec<Change>,
    pod: Pod,
    kind: Kind,
    says: Option<&'static [&'static str]>,
) -> Case {
    Case {
        name,
        changes,
        pod,
        kind,
        says,
    }
}

/// A case of a web pod that spreads over zones with maxSkew 1: it gets a hint that says this.
pub(super) fn zonal(
    name: &'static str,
    changes: Vec<Change>,
    kind: Kind,
    says: &'static [&'static str],
) -> Case {
    case(name, changes, web(vec![zone(1)]), kind, Some(says))
}

/// A case of the same pod, which gets no such hint.
pub(super) fn without(name: &'static str, changes: Vec<Change>, kind: Kind) -> Case {
    case(name, changes, web(vec![zone(1)]), kind, None)
}

fn selectors() -> Vec<Case> {
    let even = || state(&[("a1", "a", 1), ("b1", "b", 1)]);
    let empty = TopologySpreadConstraint {
        label_selector: Some(Default::default()),
        ..zone(1)
    };
    let absent = TopologySpreadConstraint {
        label_selector: None,
        ..zone(1)
    };
    let api = spread(pod("next", &[("app", "api")]), vec![zone(1)]);
    vec![
        case(
            "a selector that is not the pod's",
            even(),
            api,
            Kind::SelfMismatch,
            Some(&["constraint 0", "app=web", "has app=api"]),
        ),
        without("its own selector", even(), Kind::SelfMismatch),
        case(
            "an empty selector",
            even(),
            web(vec![empty]),
            Kind::EmptySelector,
            Some(&["empty labelSelector", "counts 0 pods"]),
        ),
        case(
            "no selector",
            even(),
            web(vec![absent]),
            Kind::EmptySelector,
            Some(&["no labelSelector", "matches no pod"]),
        ),
        without("a selector", even(), Kind::EmptySelector),
        case(
            "a soft constraint",
            even(),
            web(vec![soft(1, ZONE, &WEB)]),
            Kind::Soft,
            Some(&["constraint 0", "never keeps the pod off"]),
        ),
        without("a hard constraint", even(), Kind::Soft),
    ]
}

fn labels() -> Vec<Case> {
    let full = || state(&[("a1", "a", 1), ("b1", "b", 1)]);
    let nowhere = || [node("x1", &[]).change(), node("x2", &[]).change()];
    let empty = || and(full(), [node("e1", &[(ZONE, "")]).change()]);
    let ending = || terminating(on(pod("ending", &WEB), "b1")).change();
    vec![
        zonal(
            "two nodes without a zone",
            and(full(), nowhere()),
            Kind::MissingKey,
            &["2 of 4 nodes lack", "can never take the pod", "x1 and x2"],
        ),
        case(
            "two nodes that a soft constraint does not rank",
            and(full(), nowhere()),
            web(vec![soft(1, ZONE, &WEB)]),
            Kind::MissingKey,
            Some(&["2 of 4 nodes lack", "cannot be ranked"]),
        ),
        without("nodes with zones", full(), Kind::MissingKey),
        zonal(
            "a zone without a name",
            empty(),
            Kind::EmptyValue,
            &["1 node has", "empty value", "0 pods", "e1"],
        ),
        without("zones with names", full(), Kind::EmptyValue),
        zonal(
            "a pod that is going",
            and(full(), [ending()]),
            Kind::TerminatingPods,
            &["1 pod that", "terminating and not counted", "b: 1"],
        ),
        without("pods that stay", full(), Kind::TerminatingPods),
    ]
}

fn revisions() -> Vec<Case> {
    const OLD: [(&str, &str); 2] = [("app", "web"), ("pod-template-hash", "old")];
    const NEW: [(&str, &str); 2] = [("app", "web"), ("pod-template-hash", "new")];
    const API: [(&str, &str); 2] = [("app", "api"), ("pod-template-hash", "other")];
    let nodes = || state(&[("a1", "a", 0), ("b1", "b", 0)]);
    let rollout = || {
        let running = [
            on(pod("old-1", &OLD), "a1"),
            on(pod("old-2", &OLD), "a1"),
            on(pod("new-1", &NEW), "b1"),
        ];
        and(nodes(), running.map(Stored::change))
    };
    let next = |constraint| spread(pod("next", &NEW), vec![constraint]);
    let separated = TopologySpreadConstraint {
        match_label_keys: vec!["pod-template-hash".into()],
        ..zone(1)
    };
    let tier = hard(1, ZONE, &[]);
    let tier = TopologySpreadConstraint {
        label_selector: Some(LabelSelector {
            match_expressions: vec![requirement("app", "Exists", &[])],
            ..Default::default()
        }),
        ..tier
    };
    let two_workloads = [on(pod("w", &NEW), "a1"), on(pod("a", &API), "b1")];
    vec![
        case(
            "a rollout",
            rollout(),
            next(zone(1)),
            Kind::MixedRevisions,
            Some(&[
                "1 pod of new",
                "2 pods of old",
                "[pod-template-hash]",
                "1 node (topology.kubernetes.io/zone=a)",
            ]),
        ),
        case(
            "a rollout with matchLabelKeys",
            rollout(),
            next(separated),
            Kind::MixedRevisions,
            None,
        ),
        zonal(
            "a template without the hash, in a rollout",
            rollout(),
            Kind::MixedRevisions,
            &["1 pod of new", "2 pods of old"],
        ),
        case(
            "one revision",
            and(nodes(), [on(pod("new-1", &NEW), "b1").change()]),
            next(zone(1)),
            Kind::MixedRevisions,
            None,
        ),
        case(
            "two workloads that are counted together on purpose",
            and(nodes(), two_workloads.map(Stored::change)),
            next(tier),
            Kind::MixedRevisions,
            None,
        ),
    ]
}

#[tokio::test]
async fn every_hint_appears_where_it_belongs_and_nowhere_else() {
    let server = Server::start().await;
    let mut seen: Vec<(Kind, bool)> = Vec::new();
    for (index, case) in cases().into_iter().enumerate() {
        let snapshot = format!("case-{index}");
        server.update(&snapshot, case.changes.clone()).await;
        let request = ExplainRequest {
            snapshot,
            pod: Some(case.pod.clone()),
            ..Default::default()
        };
        let answer = server.explain(request).await;
        check(&case, &answer);
        seen.push((case.kind, case.says.is_some()));
    }
    for kind in 1..=Kind::Soft as i32 {
        let kind = Kind::try_from(kind).expect("kinds are numbered in a row");
        for appears in [true, false] {
            assert!(
                seen.contains(&(kind, appears)),
                "no case of {kind:?}, {appears}"
            );
        }
    }
}
