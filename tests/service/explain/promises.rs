//! The changes that hints suggest: each is made, and the oracle says that it lets the pod in.

use std::collections::BTreeMap;
use std::sync::Mutex;

use evenkeel::proto::v1::hint::Kind;
use evenkeel::proto::v1::{
    ExplainRequest, Hint, NodeNames, Pod, Shortage, TopologySpreadConstraint, UpdateSnapshotRequest,
};
use proptest::test_runner::{Config, TestRunner};
use support::recount::{
    Cluster, labels, name, namespace, node_affinity_matches, node_counted_on, requests, room,
    selector_matches, taints_tolerated,
};
use tokio::runtime::Runtime;

use super::questions::{Asked, asked};
use support::build::{explain_of, on, replace_of, requesting};
use support::server::Server;

/// The state and the pod with `constraint` in place of the one that the hint is about.
fn with_constraint(
    cluster: &Cluster,
    pod: &Pod,
    hint: &Hint,
    constraint: &TopologySpreadConstraint,
) -> (Cluster, Pod) {
    let (mut cluster, mut pod) = (cluster.clone(), pod.clone());
    let index = usize::try_from(hint.constraint_index).expect("it is about a constraint");
    let own = &mut pod
        .spec
        .as_mut()
        .expect("it has constraints")
        .topology_spread_constraints;
    if own.is_empty() {
        // The selector of a default constraint is deduced.
        cluster.defaults.constraints[index] = TopologySpreadConstraint {
            label_selector: None,
            ..constraint.clone()
        };
    } else {
        own[index] = constraint.clone();
    }
    (cluster, pod)
}

/// The constraint that a hint is about, as evaluated.
fn evaluated(cluster: &Cluster, pod: &Pod, hint: &Hint) -> TopologySpreadConstraint {
    let all = cluster.constraints(pod, "DoNotSchedule");
    let found = all.into_iter().find(|c| c.index == hint.constraint_index);
    found.expect("a hard constraint").spec
}

/// The nodes of a domain that the constraint looks at.
fn eligible(
    cluster: &Cluster,
    pod: &Pod,
    spec: &TopologySpreadConstraint,
    value: &str,
) -> Vec<String> {
    let keys: Vec<String> = cluster
        .constraints(pod, "DoNotSchedule")
        .into_iter()
        .map(|c| c.spec.topology_key)
        .collect();
    let honors = |policy: &Option<String>| policy.as_deref() == Some("Honor");
    let nodes = cluster.nodes.iter().filter(|node| {
        let labels = labels(node.metadata.as_ref());
        labels.get(&spec.topology_key).map(String::as_str) == Some(value)
            && keys.iter().all(|key| labels.contains_key(key))
            && (!honors(&spec.node_affinity_policy) || node_affinity_matches(pod, node))
            && (!honors(&spec.node_taints_policy) || taints_tolerated(pod, node))
    });
    nodes
        .map(|node| name(node.metadata.as_ref()).to_owned())
        .collect()
}

fn matches(incoming: &Pod, pod: &Pod, spec: &TopologySpreadConstraint) -> bool {
    let metadata = pod.metadata.as_ref();
    namespace(metadata) == namespace(incoming.metadata.as_ref())
        && selector_matches(spec.label_selector.as_ref(), &labels(metadata))
}

/// The state after pods left domains, from the front of the list or from its back, or came to
/// domains, as a hint suggests. `None` when no pod to add is known.
fn moved(cluster: &Cluster, pod: &Pod, hint: &Hint, from_back: bool) -> Option<Cluster> {
    let spec = evaluated(cluster, pod, hint);
    let mut cluster = cluster.clone();
    if from_back {
        cluster.pods.reverse();
    }
    for change in &hint.domain_changes {
        let nodes = eligible(&cluster, pod, &spec, &change.value);
        let mut leaving = -change.pods;
        cluster.pods.retain(|running| {
            let here = node_counted_on(running).is_some_and(|n| nodes.iter().any(|m| m == n));
            let leaves = leaving > 0 && here && matches(pod, running, &spec);
            leaving -= i64::from(leaves);
            !leaves
        });
        assert!(
            leaving <= 0,
            "{leaving} pods that should leave are not there"
        );
        for index in 0..change.pods {
            let like = cluster
                .pods
                .iter()
                .chain([pod])
                .find(|p| matches(pod, p, &spec))?;
            let mut like = like.clone();
            let metadata = like.metadata.as_mut()?;
            metadata.name = format!("new-{}-{index}", change.value);
            metadata.deletion_timestamp = None;
            like.status = None;
            let node = match from_back {
                true => nodes.last(),
                false => nodes.first(),
            };
            cluster
                .pods
                .push(on(like, node.expect("a domain has a node")));
        }
    }
    Some(cluster)
}

/// The pod with these requests in place of its own, in the unit that counts for each resource. Its
/// ports stay.
fn with_requests(pod: &Pod, requests: &BTreeMap<String, i128>) -> Pod {
    let text = |name: &str, amount: i128| match name {
        "cpu" => format!("{amount}m"),
        _ => amount.to_string(),
    };
    let texts: Vec<(&str, String)> = requests
        .iter()
        .map(|(name, amount)| (name.as_str(), text(name, *amount)))
        .collect();
    let texts: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (*name, &**text)).collect();
    let ports = room::ports(pod).into_iter().cloned().collect();
    let mut bare = pod.clone();
    let spec = bare.spec.get_or_insert_default();
    let before = std::mem::take(&mut spec.containers).into_iter();
    let before = before.chain(std::mem::take(&mut spec.init_containers));
    // The features that the pod needs stay.
    let before = before.map(|it| (it.restart_policy_rules, it.volume_mounts));
    let (rules, mounts): (Vec<_>, Vec<_>) = before.unzip();
    (spec.resources, spec.overhead) = Default::default();
    let mut bare = requesting(bare, &texts);
    let only = &mut bare.spec.get_or_insert_default().containers[0];
    only.ports = ports;
    only.restart_policy_rules = rules.concat();
    only.volume_mounts = mounts.concat();
    bare
}

/// The state and the pod with as much more room as a hint says is missing, minus `less`. `None`
/// where the pod would have to request nothing.
fn with_room(asked: &Asked, shortage: &Shortage, less: i128) -> Option<(Cluster, Pod)> {
    let resource = &shortage.resource;
    let missing = requests::amount(resource, &shortage.missing) - less;
    let (mut cluster, mut pod) = (asked.cluster(), asked.pod.clone());
    if resource == "pods" {
        // The nodes allow more pods, because where none are allowed, none can leave.
        let status = cluster.nodes.iter_mut().filter_map(|n| n.status.as_mut());
        for pods in status.filter_map(|status| status.allocatable.get_mut(resource)) {
            let before: i128 = pods.string.parse().expect("a whole number");
            pods.string = (before + missing).to_string();
        }
    } else {
        pod.status = None;
        let mut asked = requests::requests(&pod, u32::MAX);
        assert_eq!(
            asked[resource],
            requests::amount(resource, &shortage.requested)
        );
        let left = asked[resource] - missing;
        asked.insert(resource.clone(), left);
        if left <= 0 {
            return None;
        }
        pod = with_requests(&pod, &asked);
    }
    Some((cluster, pod))
}

/// Checks that the pod goes onto as many nodes as a hint says with as much more room as it says is
/// missing, and onto no more than before with less.
fn keeps_its_word_on_room(asked: &Asked, hint: &Hint, shortage: &Shortage, before: i64) -> bool {
    let after = |less| {
        let (cluster, pod) = with_room(asked, shortage, less)?;
        Some(asked.admitted(&cluster, &pod))
    };
    let promised = match hint.admitted_node_count {
        0 => before,
        nodes => nodes,
    };
    let kept = after(0).inspect(|nodes| assert_eq!(*nodes, promised, "{hint:?}"));
    let less = after(1).inspect(|nodes| assert_eq!(*nodes, before, "one less: {hint:?}"));
    kept.or(less).is_some() && !shortage.nodes.is_empty()
}

/// Checks the promise of a hint. Returns whether there was a promise.
fn keeps_its_word(asked: &Asked, hint: &Hint) -> bool {
    let cluster = asked.cluster();
    let pod = &asked.pod;
    let before = asked.admitted(&cluster, pod);
    if let Some(shortage) = &hint.shortage {
        return keeps_its_word_on_room(asked, hint, shortage, before);
    }
    if hint.kind() == Kind::NominatedPods {
        let mut urgent = pod.clone();
        urgent.spec.get_or_insert_default().priority = Some(i32::MAX);
        let after = asked.admitted(&cluster, &urgent);
        assert_eq!(after, hint.admitted_node_count, "{hint:?}");
        assert!(after > before, "{hint:?}");
        return true;
    }
    if let Some(suggested) = &hint.suggested_constraint {
        let (changed, revised) = with_constraint(&cluster, pod, hint, suggested);
        let after = asked.admitted(&changed, &revised);
        assert_eq!(after, hint.admitted_node_count, "{hint:?}");
        // These say what would be counted rightly, which may refuse more.
        if !matches!(hint.kind(), Kind::MixedRevisions | Kind::OneDomain) {
            assert!(
                after > before,
                "{before} nodes before, {after} after {hint:?}"
            );
        }
        if hint.kind() == Kind::MaxSkew {
            let less = TopologySpreadConstraint {
                max_skew: suggested.max_skew - 1,
                ..suggested.clone()
            };
            let (changed, revised) = with_constraint(&cluster, pod, hint, &less);
            assert_eq!(asked.admitted(&changed, &revised), 0, "one less: {hint:?}");
        }
    }
    for from_back in [false, true] {
        if hint.domain_changes.is_empty() {
            break;
        }
        assert_eq!(before, 0, "{hint:?}");
        if let Some(moved) = moved(&cluster, pod, hint, from_back) {
            assert!(asked.admitted(&moved, pod) > 0, "{hint:?}");
        }
    }
    hint.suggested_constraint.is_some() || !hint.domain_changes.is_empty()
}

/// Feeds the state to a server, asks for hints, and deletes the state.
async fn hints(server: &Server, asked: &Asked, snapshot: String) -> Vec<Hint> {
    let update = UpdateSnapshotRequest {
        default_constraints: Some(asked.defaults.clone()),
        ..replace_of(&snapshot, asked.changes.clone())
    };
    server.send(update).await;
    let request = ExplainRequest {
        snapshot: snapshot.clone(),
        candidates: asked.candidates.clone().map(|names| NodeNames { names }),
        node_checks: asked.checks as i32,
        ..explain_of(asked.pod.clone())
    };
    let answer = server.explain(request).await;
    assert!(answer.summary.ends_with('.') && !answer.summary.contains('\n'));
    assert_eq!(answer.insights.len(), answer.constraints.len());
    server.delete(&snapshot).await;
    answer.hints
}

#[test]
fn what_a_hint_says_would_help_helps() {
    let runtime = Runtime::new().expect("a runtime");
    let server = runtime.block_on(Server::start());
    let kept: Mutex<BTreeMap<i32, usize>> = Mutex::default();
    let config = Config {
        cases: 1_200,
        failure_persistence: None,
        ..Config::default()
    };
    let mut number = 0;
    let mut next = || {
        number += 1;
        format!("promise-{number}")
    };
    let next = Mutex::new(&mut next);
    let run = TestRunner::new(config).run(&asked(), |asked| {
        let snapshot = (next.lock().expect("no holder panics"))();
        for hint in runtime.block_on(hints(&server, &asked, snapshot)) {
            if keeps_its_word(&asked, &hint) {
                *kept
                    .lock()
                    .expect("no holder panics")
                    .entry(hint.kind)
                    .or_default() += 1;
            }
        }
        Ok(())
    });
    run.expect("every hint keeps its word");
    let kept = kept.into_inner().expect("no holder panics");
    for kind in [
        Kind::UnusableDomain,
        Kind::MinDomains,
        Kind::MixedRevisions,
        Kind::FewerPods,
        Kind::MorePods,
        Kind::MaxSkew,
        Kind::Room,
        Kind::NominatedPods,
        Kind::OneDomain,
    ] {
        let times = kept.get(&(kind as i32)).copied().unwrap_or(0);
        assert!(times > 0, "no promise of {kind:?} was made: {kept:?}");
    }
}
