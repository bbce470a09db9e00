//! Every hint of the Kubernetes dialect: a case where it must appear, with its
//! numbers, and one where it must not.

use evenkeel::proto::v1::hint::Kind;
use evenkeel::proto::v1::{Change, ExplainRequest, Pod, TopologySpreadConstraint};

use super::support::build::{
    ZONE, cordoned, hard, having, node, nominated, on, pod, requesting, selecting, soft, spread,
    tainted, terminating,
};
use super::support::model::Stored;
use super::support::server::Server;
use super::{Case, check, explain, stuck};

pub(super) const WEB: [(&str, &str); 1] = [("app", "web")];

/// A node in a zone, with so many web pods.
fn drawn(name: &str, zone: &str, pods: usize) -> Vec<Change> {
    let mut changes = vec![node(name, &[(ZONE, zone)]).change()];
    let running = (0..pods).map(|i| on(pod(&format!("{name}-{i}"), &WEB), name).change());
    changes.extend(running);
    changes
}

/// These nodes, each with its zone and how many web pods it has.
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
        minimums(),
        labels(),
        revisions(),
        room(),
        nominations(),
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

/// Three nodes with 2 processors, each with a pod of 1500m; c1 takes so many pods.
fn crowded(pods: &str) -> Vec<Change> {
    let roomy = |name: &str, pods: &str| {
        let node = node(name, &[(ZONE, &name[..1])]);
        let has = [("cpu", "2"), ("memory", "4Gi"), ("pods", pods)];
        having(node, &has).change()
    };
    let running = |name: &str| {
        let running = requesting(pod(&format!("{name}-0"), &[]), &[("cpu", "1500m")]);
        on(running, name).change()
    };
    let nodes = [roomy("a1", "9"), roomy("b1", "9"), roomy("c1", pods)];
    let pods = ["a1", "b1", "c1"].map(running);
    nodes.into_iter().chain(pods).collect()
}

fn room() -> Vec<Case> {
    let asks = |requests: &[(&str, &str)]| requesting(pod("next", &WEB), requests);
    vec![
        case(
            "too little of one thing",
            crowded("1"),
            asks(&[("cpu", "2")]),
            Kind::Room,
            Some(&[
                "3 nodes have too little cpu for the 2 that it requests: 1500m more, or a request \
                 of 500m, would let it onto 2 of them (a1 and b1)",
            ]),
        ),
        case(
            "too little even when empty",
            crowded("1"),
            asks(&[("memory", "5Gi")]),
            Kind::Room,
            Some(&[
                "3 nodes have too little memory for the 5Gi that it requests, even without pods: \
                 1Gi more, or a request of 4Gi, would let it onto 2 of them (a1 and b1)",
            ]),
        ),
        case(
            "too many pods",
            crowded("1"),
            asks(&[("cpu", "500m")]),
            Kind::Room,
            Some(&["1 node has as many pods as it takes: 1 pod fewer would let it onto c1"]),
        ),
        case(
            "too little of everything",
            crowded("9"),
            asks(&[("cpu", "3"), ("memory", "5Gi")]),
            Kind::Room,
            Some(&[
                "3 nodes have too little cpu for the 3 that it requests, even without pods: 2500m \
                 or more is missing, and more cpu alone would let it onto none of them",
            ]),
        ),
        case(
            "a constraint besides",
            crowded("9"),
            spread(asks(&[("cpu", "1")]), vec![hard(1, "rack", &WEB)]),
            Kind::Room,
            Some(&["500m or more is missing, and more cpu alone would let it onto none of them"]),
        ),
        case(
            "room",
            crowded("1"),
            pod("next", &WEB),
            Kind::Conflict,
            None,
        ),
        case(
            "no node that says what it has",
            state(&[("a1", "a", 0)]),
            asks(&[("cpu", "64")]),
            Kind::Room,
            None,
        ),
    ]
}

fn nominations() -> Vec<Case> {
    let promised = |node, priority| {
        let waiting = nominated(pod("waiting", &WEB), node, priority);
        and(state(&[("a1", "a", 1), ("b1", "b", 1)]), [waiting.change()])
    };
    let mut urgent = web(vec![zone(1)]);
    urgent.spec.get_or_insert_default().priority = Some(8);
    vec![
        case(
            "a node that is promised to another pod",
            promised("a1", 7),
            web(vec![zone(1)]),
            Kind::NominatedPods,
            Some(&[
                "1 node (a1) would take it but for a pod nominated there, which is of at least \
                 its priority and counts as if it were there. With a priority above 7 it could \
                 go to 1 node more",
            ]),
        ),
        case(
            "one whose priority users cannot exceed",
            promised("a1", 2_000_000_000),
            web(vec![zone(1)]),
            Kind::NominatedPods,
            Some(&["1 node (a1) would take it but for a pod nominated there"]),
        ),
        case(
            "a pod of a higher priority",
            promised("a1", 7),
            urgent,
            Kind::NominatedPods,
            None,
        ),
        case(
            "a node that would refuse it anyway",
            and(promised("a1", 7), [on(pod("a1-more", &WEB), "a1").change()]),
            web(vec![zone(1)]),
            Kind::NominatedPods,
            None,
        ),
    ]
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
        case(
            "its own selector",
            even(),
            web(vec![zone(1)]),
            Kind::SelfMismatch,
            None,
        ),
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
        case(
            "a selector",
            even(),
            web(vec![zone(1)]),
            Kind::EmptySelector,
            None,
        ),
        case(
            "a soft constraint",
            even(),
            web(vec![soft(1, ZONE, &WEB)]),
            Kind::Soft,
            Some(&["constraint 0", "never keeps the pod off"]),
        ),
        case(
            "a hard constraint",
            even(),
            web(vec![zone(1)]),
            Kind::Soft,
            None,
        ),
    ]
}

fn minimums() -> Vec<Case> {
    let full = || state(&[("a1", "a", 1), ("b1", "b", 1)]);
    let gpu = |name, zone| tainted(node(name, &[(ZONE, zone)]), "gpu", "", "NoSchedule").change();
    let wanting = |domains| {
        let constraint = TopologySpreadConstraint {
            min_domains: Some(domains),
            ..zone(1)
        };
        web(vec![constraint])
    };
    let outside = TopologySpreadConstraint {
        node_affinity_policy: Some("Ignore".into()),
        ..zone(1)
    };
    let inside_a_b = |constraint| {
        let small = [("size", "small")];
        let mut state = Vec::new();
        for (name, zone) in [("a1", "a"), ("b1", "b")] {
            state.push(node(name, &[(ZONE, zone), small[0]]).change());
            state.push(on(pod(&format!("{name}-0"), &WEB), name).change());
        }
        state.push(node("c1", &[(ZONE, "c")]).change());
        (state, selecting(web(vec![constraint]), &small))
    };
    let (excluding, outside) = inside_a_b(outside);
    vec![
        case(
            "an empty domain that is tainted",
            and(full(), [gpu("c1", "c")]),
            web(vec![zone(1)]),
            Kind::UnusableDomain,
            Some(&[
                "c of",
                "minimum at 0",
                "1 node is tainted",
                "nodeTaintsPolicy: Honor",
                "2 nodes",
            ]),
        ),
        case(
            "an empty domain that is cordoned, which no policy frees",
            and(full(), [cordoned(node("c1", &[(ZONE, "c")])).change()]),
            web(vec![zone(1)]),
            Kind::UnusableDomain,
            Some(&["1 node is cordoned", "No node inclusion policy"]),
        ),
        case(
            "an empty domain that the pod's selector excludes",
            excluding,
            outside,
            Kind::UnusableDomain,
            Some(&[
                "excluded by the pod's node affinity",
                "nodeAffinityPolicy: Honor",
                "2 nodes",
            ]),
        ),
        case(
            "an empty domain with a node to use beside the tainted one",
            and(
                full(),
                [gpu("c1", "c"), node("c2", &[(ZONE, "c")]).change()],
            ),
            web(vec![zone(1)]),
            Kind::UnusableDomain,
            None,
        ),
        case(
            "an empty domain that is tainted and does no harm",
            and(full(), [gpu("c1", "c")]),
            web(vec![zone(2)]),
            Kind::UnusableDomain,
            None,
        ),
        case(
            "two domains of three",
            full(),
            wanting(3),
            Kind::MinDomains,
            Some(&[
                "wants 3 domains",
                "2 domains (a and b)",
                "1 is missing",
                "minDomains: 2",
                "2 nodes",
            ]),
        ),
        case(
            "two domains of two",
            full(),
            wanting(2),
            Kind::MinDomains,
            None,
        ),
    ]
}

fn labels() -> Vec<Case> {
    let full = || state(&[("a1", "a", 1), ("b1", "b", 1)]);
    let nowhere = || [node("x1", &[]).change(), node("x2", &[]).change()];
    let empty = || and(full(), [node("e1", &[(ZONE, "")]).change()]);
    let ending = || terminating(on(pod("ending", &WEB), "b1")).change();
    vec![
        case(
            "two nodes without a zone",
            and(full(), nowhere()),
            web(vec![zone(1)]),
            Kind::MissingKey,
            Some(&["2 of 4 nodes lack", "can never take the pod", "x1 and x2"]),
        ),
        case(
            "two nodes that a soft constraint does not rank",
            and(full(), nowhere()),
            web(vec![soft(1, ZONE, &WEB)]),
            Kind::MissingKey,
            Some(&["2 of 4 nodes lack", "cannot be ranked"]),
        ),
        case(
            "nodes with zones",
            full(),
            web(vec![zone(1)]),
            Kind::MissingKey,
            None,
        ),
        case(
            "a zone without a name",
            empty(),
            web(vec![zone(1)]),
            Kind::EmptyValue,
            Some(&["1 node has", "empty value", "0 pods", "e1"]),
        ),
        case(
            "zones with names",
            full(),
            web(vec![zone(1)]),
            Kind::EmptyValue,
            None,
        ),
        case(
            "a pod that is going",
            and(full(), [ending()]),
            web(vec![zone(1)]),
            Kind::TerminatingPods,
            Some(&["1 pod that", "terminating and not counted", "b: 1"]),
        ),
        case(
            "pods that stay",
            full(),
            web(vec![zone(1)]),
            Kind::TerminatingPods,
            None,
        ),
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
        label_selector: Some(evenkeel::proto::v1::LabelSelector {
            match_expressions: vec![super::support::build::requirement("app", "Exists", &[])],
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
                "1 node (a)",
            ]),
        ),
        case(
            "a rollout with matchLabelKeys",
            rollout(),
            next(separated),
            Kind::MixedRevisions,
            None,
        ),
        case(
            "a template without the hash, in a rollout",
            rollout(),
            web(vec![zone(1)]),
            Kind::MixedRevisions,
            Some(&["1 pod of new", "2 pods of old"]),
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
        let answer = explain(&server, request).await;
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
