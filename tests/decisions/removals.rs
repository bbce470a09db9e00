//! Which pods should go: of all choices, tried one by one, none leaves the others
//! spread better. Among those that do as well it is a ReplicaSet's order.

use std::collections::BTreeMap;

use crate::support::build::{HOSTNAME, ZONE, hard, node, on, pod, soft, spread};
use crate::support::model::Stored;
use crate::support::server::Server;
use evenkeel::proto::v1::{
    Change, DefaultConstraints, OwnerReference, Pod, PodFacts, RankRemovalsRequest,
    RankRemovalsResponse, TopologySpreadConstraint, WorkloadName,
};
use fastrand::Rng;
use prost::Message;
use tonic::Code;
use tonic_types::StatusExt;

const RACK: &str = "example.com/rack";
const WEB: [(&str, &str); 1] = [("app", "web")];

fn owned(mut pod: Pod) -> Pod {
    let metadata = pod.metadata.get_or_insert_default();
    metadata.owner_references = vec![OwnerReference {
        kind: "ReplicaSet".into(),
        name: "web".into(),
        api_version: "apps/v1".into(),
        controller: Some(true),
        ..OwnerReference::default()
    }];
    pod.status.get_or_insert_default().phase = "Running".into();
    pod
}

fn request(snapshot: &str, count: i32) -> RankRemovalsRequest {
    RankRemovalsRequest {
        snapshot: snapshot.into(),
        workload: Some(WorkloadName {
            kind: "ReplicaSet".into(),
            name: "web".into(),
        }),
        count,
        max_domains: Some(0),
        ..RankRemovalsRequest::default()
    }
}

async fn ask(server: &Server, request: RankRemovalsRequest) -> RankRemovalsResponse {
    let answer = server.client().rank_removals(request).await;
    answer.expect("a valid question").into_inner()
}

fn names(answer: &RankRemovalsResponse) -> Vec<&str> {
    let removals = answer.removals.iter();
    removals.map(|removal| removal.name.as_str()).collect()
}

/// Pods of the workload on these nodes, called `p0`, `p1`...
fn web(nodes: &[&str], constraints: &[TopologySpreadConstraint]) -> Vec<Change> {
    let pods = nodes.iter().enumerate().map(|(index, node)| {
        let pod = owned(on(pod(&format!("p{index}"), &WEB), node));
        spread(pod, constraints.to_vec()).change()
    });
    pods.collect()
}

#[tokio::test]
async fn what_stays_is_even() {
    let server = Server::start().await;
    let mut changes: Vec<_> = ["a1", "a2", "b1", "c1"]
        .map(|name| node(name, &[(ZONE, &name[..1])]).change())
        .into();
    let constraints = [hard(1, ZONE, &WEB), soft(1, HOSTNAME, &WEB)];
    // Zone a has six, four of them on a1; b two; c one; one waits.
    let nodes = ["a1", "a1", "a1", "a1", "a2", "a2", "b1", "b1", "c1", ""];
    changes.extend(web(&nodes, &constraints));
    server.update("", changes).await;
    let answer = ask(&server, request("", 6)).await;
    // The one that waits, then those of zone a from the fuller node, then of b.
    assert_eq!(names(&answer)[0], "p9");
    let domains = answer.removals[1].domains.iter();
    let domains: Vec<_> = domains.map(|d| (&*d.value, d.matching_pods)).collect();
    assert_eq!(domains, [("a", 6), ("a1", 4)]);
    let skews = |all: &[evenkeel::proto::v1::TopologySpread]| -> Vec<(i64, i64)> {
        all.iter().map(|t| (t.skew, t.excess)).collect()
    };
    assert_eq!(skews(&answer.before), [(5, 4), (3, 2)]);
    assert_eq!(skews(&answer.after), [(1, 0), (0, 0)]);
    assert_eq!((answer.pod_count, answer.unknown_pod_count), (10, 10));
    assert!(answer.optimal);
    // More than there are: all.
    assert_eq!(ask(&server, request("", 99)).await.removals.len(), 10);
}

/// Pods that nothing else tells apart go as a ReplicaSet deletes them: each row goes
/// before the next.
#[tokio::test]
async fn a_replica_set_has_its_order() {
    let server = Server::start().await;
    let at = |seconds| Some(pbjson_types::Timestamp { seconds, nanos: 0 });
    let ready = PodFacts {
        ready: true,
        ready_time: at(100),
        creation_time: at(50),
        ..PodFacts::default()
    };
    let rows: [(&str, &str, &str, PodFacts); 12] = [
        ("unassigned", "", "Running", ready.clone()),
        ("pending", "a", "Pending", ready.clone()),
        ("unknown", "a", "Unknown", ready.clone()),
        ("not-ready", "a", "Running", PodFacts::default()),
        (
            "cheap",
            "a",
            "Running",
            PodFacts {
                deletion_cost: -1,
                ..ready.clone()
            },
        ),
        (
            "doubled",
            "d",
            "Running",
            PodFacts {
                creation_time: at(1),
                ..ready.clone()
            },
        ),
        (
            "just-ready",
            "x1",
            "Running",
            PodFacts {
                ready_time: at(200),
                ..ready.clone()
            },
        ),
        (
            "restarted",
            "x2",
            "Running",
            PodFacts {
                restarts: 3,
                ..ready.clone()
            },
        ),
        (
            "its-sidecar",
            "x3",
            "Running",
            PodFacts {
                sidecar_restarts: 3,
                ..ready.clone()
            },
        ),
        (
            "young",
            "x4",
            "Running",
            PodFacts {
                creation_time: at(60),
                ..ready.clone()
            },
        ),
        ("old", "x5", "Running", ready.clone()),
        (
            "costly",
            "x6",
            "Running",
            PodFacts {
                deletion_cost: 1,
                ..ready
            },
        ),
    ];
    let mut changes: Vec<Change> = Vec::new();
    let mut facts: Vec<PodFacts> = Vec::new();
    // Sent in another order.
    for (name, node, phase, known) in rows.iter().rev() {
        let mut pod = owned(on(pod(name, &WEB), node));
        pod.status.get_or_insert_default().phase = (*phase).into();
        changes.push(pod.change());
        facts.push(PodFacts {
            name: (*name).into(),
            ..known.clone()
        });
    }
    // Two more on the node of `doubled`, which are to stay.
    for name in ["z1", "z2"] {
        changes.push(owned(on(pod(name, &WEB), "d")).change());
        let stays = PodFacts {
            ready: true,
            deletion_cost: 9,
            ..PodFacts::default()
        };
        facts.push(PodFacts {
            name: name.into(),
            ..stays
        });
    }
    server.update("", changes).await;
    let expected: Vec<&str> = rows.iter().map(|(name, ..)| *name).collect();
    let asked = RankRemovalsRequest {
        pods: facts,
        ..request("", 12)
    };
    let answer = ask(&server, asked.clone()).await;
    assert_eq!(names(&answer), expected);
    assert_eq!(answer.unknown_pod_count, 0);
    // Facts of a pod that had the name before are not those of this one.
    let mut stale = asked;
    stale.pods[0].uid = "another".into();
    assert_eq!(ask(&server, stale).await.unknown_pod_count, 1);
}

#[tokio::test]
async fn what_is_wrong_is_refused_by_its_field() {
    let server = Server::start().await;
    server.update("", web(&["a"], &[])).await;
    let named = |name: &str| PodFacts {
        name: name.into(),
        ..PodFacts::default()
    };
    let late = Some(pbjson_types::Timestamp {
        seconds: i64::MAX,
        nanos: 0,
    });
    type Change = fn(&mut RankRemovalsRequest);
    let cases: [(&str, Change); 5] = [
        ("count", |r| r.count = 0),
        ("workload.kind", |r| r.workload = None),
        ("namespace", |r| r.namespace = "No".into()),
        ("maxDomains", |r| r.max_domains = Some(-1)),
        ("minRevision", |r| r.min_revision = -1),
    ];
    let mut refused: Vec<_> = cases
        .into_iter()
        .map(|(field, change)| {
            let mut wrong = request("", 1);
            change(&mut wrong);
            (field, wrong)
        })
        .collect();
    let mut facts = |field, pods| {
        refused.push((
            field,
            RankRemovalsRequest {
                pods,
                ..request("", 1)
            },
        ));
    };
    facts("pods[0].name", vec![named("")]);
    facts("pods[1].name", vec![named("p"), named("p")]);
    facts(
        "pods[0].readyTime",
        vec![PodFacts {
            ready_time: late,
            ..named("p")
        }],
    );
    facts(
        "pods[0].creationTime",
        vec![PodFacts {
            creation_time: late,
            ..named("p")
        }],
    );
    for (field, request) in refused {
        let status = server.client().rank_removals(request).await;
        let status = status.expect_err(field);
        assert_eq!(status.code(), Code::InvalidArgument, "{field}");
        let details = status.get_error_details();
        let faults = details.bad_request().expect(field).field_violations.clone();
        assert!(
            faults.iter().any(|fault| fault.field == field),
            "{field}: {faults:?}"
        );
    }
    let too_many = server.client().rank_removals(request("", i32::MAX)).await;
    let status = too_many.expect_err("over max-replicas");
    assert_eq!(status.code(), Code::ResourceExhausted);
    let mut elsewhere = request("", 1);
    elsewhere.workload.get_or_insert_default().name = "db".into();
    let status = server.client().rank_removals(elsewhere).await;
    assert_eq!(status.expect_err("no such pods").code(), Code::NotFound);
}

/// A small cluster: by node its labels, by pod its node, and constraints.
#[derive(Debug)]
struct Case {
    nodes: Vec<BTreeMap<&'static str, String>>,
    /// The node of each pod of the workload.
    pods: Vec<usize>,
    /// The node of each other pod that the constraints count.
    others: Vec<usize>,
    constraints: Vec<(&'static str, bool, i32)>,
    count: usize,
}

impl Case {
    fn random(rng: &mut Rng, keys: &[&'static str]) -> Self {
        let nodes = rng.usize(2..7);
        let labels = |rng: &mut Rng, index: usize| {
            let mut labels = BTreeMap::from([(HOSTNAME, format!("n{index}"))]);
            for (key, values) in [(ZONE, 3), (RACK, 3)] {
                if rng.usize(..12) > 0 {
                    labels.insert(key, format!("v{}", rng.usize(..values)));
                }
            }
            labels
        };
        let nodes: Vec<_> = (0..nodes).map(|index| labels(rng, index)).collect();
        let pods = rng.usize(1..10);
        let constraints = keys.iter().map(|key| (*key, rng.bool(), rng.i32(1..4)));
        Self {
            constraints: constraints.collect(),
            pods: (0..pods).map(|_| rng.usize(..nodes.len())).collect(),
            others: (0..rng.usize(..3))
                .map(|_| rng.usize(..nodes.len()))
                .collect(),
            count: rng.usize(1..=pods),
            nodes,
        }
    }

    fn changes(&self) -> Vec<Change> {
        let nodes = self.nodes.iter().enumerate().map(|(index, labels)| {
            let labels: Vec<_> = labels.iter().map(|(k, v)| (*k, v.as_str())).collect();
            node(&format!("n{index}"), &labels).change()
        });
        let constraints = self
            .constraints
            .iter()
            .map(|(key, is_hard, skew)| match is_hard {
                true => hard(*skew, key, &WEB),
                false => soft(*skew, key, &WEB),
            });
        let constraints: Vec<_> = constraints.collect();
        let names: Vec<String> = self.pods.iter().map(|node| format!("n{node}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let others = self.others.iter().enumerate();
        let others = others
            .map(|(i, node)| on(pod(&format!("other{i}"), &WEB), &format!("n{node}")).change());
        nodes
            .chain(web(&names, &constraints))
            .chain(others)
            .collect()
    }

    /// The domain of a node under a constraint, if it is in one.
    fn domain(&self, constraint: usize, node: usize) -> Option<&String> {
        let (key, is_hard, _) = self.constraints[constraint];
        let alike = self
            .constraints
            .iter()
            .filter(|(_, hard, _)| *hard == is_hard);
        let labels = &self.nodes[node];
        let has_all = alike.into_iter().all(|(key, ..)| labels.contains_key(key));
        labels.get(key).filter(|_| has_all)
    }

    /// Counts by domain, without the pods of `gone`.
    fn counts(&self, constraint: usize, gone: u32) -> BTreeMap<&String, i64> {
        let all = 0..self.nodes.len();
        let domains = all.filter_map(|node| self.domain(constraint, node));
        let mut counts: BTreeMap<_, i64> = domains.map(|domain| (domain, 0)).collect();
        let pods = self.pods.iter().enumerate();
        let pods = pods.filter(|(index, _)| gone & (1 << index) == 0);
        let pods = pods
            .map(|(_, node)| *node)
            .chain(self.others.iter().copied());
        for domain in pods.filter_map(|node| self.domain(constraint, node)) {
            *counts.get_mut(domain).expect("a domain") += 1;
        }
        counts
    }

    /// How bad it is what stays: by hard constraints and by soft ones, how many pods
    /// of the workload are on nodes in no domain, and the sum of the squares.
    fn badness(&self, gone: u32) -> [(i64, i64); 2] {
        [true, false].map(|hard| {
            let (mut outside, mut squares) = (0, 0);
            for (index, (_, is_hard, _)) in self.constraints.iter().enumerate() {
                if *is_hard == hard {
                    let counts = self.counts(index, gone);
                    squares += counts.values().map(|count| count * count).sum::<i64>();
                    let staying = self.pods.iter().enumerate();
                    let staying = staying.filter(|(pod, _)| gone & (1 << pod) == 0);
                    let lost = staying.filter(|(_, node)| self.domain(index, **node).is_none());
                    outside += lost.count() as i64;
                }
            }
            (outside, squares)
        })
    }

    fn choices(&self) -> impl Iterator<Item = u32> {
        let all = 0..1_u32 << self.pods.len();
        all.filter(|gone| gone.count_ones() as usize == self.count)
    }

    async fn answer(&self, server: &Server) -> (RankRemovalsResponse, u32) {
        let mut changes = self.changes();
        let mut answers = Vec::new();
        // The order in which objects arrive changes nothing.
        for name in ["forth", "back"] {
            server
                .replace(name, changes.clone(), DefaultConstraints::default())
                .await;
            let mut answer = ask(server, request(name, self.count as i32)).await;
            (answer.epoch, answer.revision) = (String::new(), 0);
            answers.push(answer);
            changes.reverse();
        }
        assert_eq!(
            answers[0].encode_to_vec(),
            answers[1].encode_to_vec(),
            "{self:?}"
        );
        let answer = answers.remove(0);
        let mut gone = 0;
        for removal in &answer.removals {
            gone |= 1_u32 << removal.name[1..].parse::<u32>().expect("a number");
        }
        assert_eq!(gone.count_ones() as usize, self.count, "{self:?}");
        (answer, gone)
    }
}

/// Keys that contain one another, and two that cross: the best of all choices.
#[tokio::test]
async fn no_choice_is_better() {
    let server = Server::start().await;
    let mut rng = Rng::with_seed(7);
    let keys: [&[&'static str]; 7] = [
        &[ZONE],
        &[HOSTNAME],
        &[ZONE, HOSTNAME],
        &[ZONE, RACK],
        &[RACK, HOSTNAME],
        &[ZONE, RACK, HOSTNAME],
        &[HOSTNAME, RACK, ZONE],
    ];
    for round in 0..420 {
        let case = Case::random(&mut rng, keys[round % keys.len()]);
        let (answer, gone) = case.answer(&server).await;
        assert!(answer.optimal, "{case:?}");
        let best = case.choices().map(|gone| case.badness(gone)).min();
        assert_eq!(Some(case.badness(gone)), best, "{gone:b} of {case:?}");
        for (index, (_, _, max_skew)) in case.constraints.iter().enumerate() {
            let is_it = |after: &&evenkeel::proto::v1::TopologySpread| {
                after.constraint_index as usize == index
            };
            let after = answer.after.iter().find(is_it).expect("one of each");
            let skew = |gone| {
                let counts = case.counts(index, gone);
                let most = counts.values().max().unwrap_or(&0);
                most - counts.values().min().unwrap_or(&0)
            };
            assert_eq!(after.skew, skew(gone), "{case:?}");
            assert_eq!(after.excess, (after.skew - i64::from(*max_skew)).max(0));
            let outside = case.badness(gone).iter().any(|(outside, _)| *outside > 0)
                || case.badness(0).iter().any(|(outside, _)| *outside > 0);
            if case.constraints.len() == 1 && !outside {
                let least = case.choices().map(skew).min();
                assert_eq!(Some(after.skew), least, "{case:?}");
            }
        }
    }
}

/// Of choices that are as even the pods of the lowest sum of places go, so two that are
/// as even differ by the ReplicaSet's order alone.
#[tokio::test]
async fn ties_go_by_the_order_of_deletion() {
    let server = Server::start().await;
    let mut rng = Rng::with_seed(11);
    for round in 0..120 {
        let keys: &[&'static str] = if round % 2 == 0 {
            &[ZONE, HOSTNAME]
        } else {
            &[ZONE, RACK]
        };
        let case = Case::random(&mut rng, keys);
        let (_, gone) = case.answer(&server).await;
        let mut on_node = BTreeMap::new();
        for node in &case.pods {
            *on_node.entry(node).or_insert(0) += 1;
        }
        // All are alike but for how many are on their node, and their names.
        let mut order: Vec<usize> = (0..case.pods.len()).collect();
        order.sort_by_key(|pod| (-on_node[&case.pods[*pod]], *pod));
        let places = |gone: u32| {
            let going = order.iter().enumerate();
            let going = going.filter(|(_, pod)| gone & (1 << **pod) != 0);
            going.map(|(place, _)| place).sum::<usize>()
        };
        let best = case.badness(gone);
        let ties = case.choices().filter(|other| case.badness(*other) == best);
        assert_eq!(
            Some(places(gone)),
            ties.map(places).min(),
            "{gone:b} of {case:?}"
        );
    }
}

/// Three keys that cross: no exchange of two pods is better.
#[tokio::test]
async fn three_crossing_keys_are_told_as_not_optimal() {
    const THIRD: &str = "example.com/third";
    let server = Server::start().await;
    let mut rng = Rng::with_seed(3);
    let mut crossing = 0;
    for _ in 0..120 {
        let mut case = Case::random(&mut rng, &[ZONE, RACK, THIRD]);
        for labels in &mut case.nodes {
            labels.insert(THIRD, format!("v{}", rng.usize(..3)));
        }
        let (answer, gone) = case.answer(&server).await;
        crossing += usize::from(!answer.optimal);
        for other in case
            .choices()
            .filter(|other| (other ^ gone).count_ones() == 2)
        {
            assert!(
                case.badness(gone) <= case.badness(other),
                "{gone:b} {other:b} {case:?}"
            );
        }
    }
    assert!(crossing > 10, "{crossing}");
}
