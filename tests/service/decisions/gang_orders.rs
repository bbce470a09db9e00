//! Workloads placed together: greedy plans compared with a recount that places them one after the
//! other, and joint plans compared with all orders of picks.

use std::collections::{BTreeMap, BTreeSet};

use crate::decisions::gangs::{all_or_nothing, picks, together, workload};
use crate::decisions::worlds::{Nodes, RACK, cases};
use evenkeel::proto::v1::{Change, NodeChecks, PlaceRequest, Planning, Pod};
use fastrand::Rng;
use support::build::{HOSTNAME, ZONE, having, on, place_of};
use support::model::{self, Stored};
use support::recount::Cluster;
use support::server::Server;

/// Puts a replica on a node.
fn put(cluster: &mut Cluster, template: &Pod, node: &str) {
    let mut replica = on(template.clone(), node);
    let number = cluster.pods.len();
    replica.metadata.get_or_insert_default().name = format!("replica-{number}");
    cluster.pods.push(replica);
}

fn accepts(cluster: &Cluster, template: &Pod) -> BTreeSet<String> {
    let decided = cluster.filter(template, None, NodeChecks::Unspecified);
    decided.feasible().into_iter().collect()
}

/// Nodes of zones with room for few replicas, and two or three workloads.
fn random(rng: &mut Rng) -> (Vec<Change>, PlaceRequest) {
    let nodes = Nodes::random(rng, 5);
    let nodes = nodes.objects().map(|node| {
        let cpu = rng.usize(1..5).to_string();
        having(node, &[("cpu", cpu.as_str()), ("pods", "9")]).change()
    });
    let nodes = nodes.collect();
    let workloads = (0..rng.usize(2..4)).map(|index| {
        let constraints = (0..rng.usize(..3)).map(|_| {
            let key = [ZONE, RACK, HOSTNAME][rng.usize(..3)];
            (key, rng.i32(0..3), rng.bool())
        });
        let mut constraints: Vec<_> = constraints.collect();
        // Keeps one constraint of each key and effect.
        let mut seen = BTreeSet::new();
        constraints.retain(|(key, max_skew, _)| seen.insert((*key, *max_skew == 0)));
        let cpu = ["1", "2"][rng.usize(..2)];
        workload(&format!("w{index}"), rng.i32(1..4), cpu, &constraints)
    });
    (nodes, together(workloads.collect()))
}

/// The picks of a recount, which places each workload after those before it.
fn one_after_the_other(cluster: &Cluster, request: &PlaceRequest) -> Vec<(usize, String)> {
    let mut now = cluster.clone();
    let mut picks = Vec::new();
    for (index, workload) in request.workloads.iter().enumerate() {
        let template = workload.pod.clone().expect("a template");
        let one = place_of(template.clone(), workload.replicas);
        for pick in now.place(&one) {
            put(&mut now, &template, &pick.node);
            picks.push((index, pick.node));
        }
    }
    picks
}

/// The most replicas that any order of picks of all workloads places.
fn most(cluster: &Cluster, request: &PlaceRequest) -> usize {
    let wanted: i32 = request.workloads.iter().map(|it| it.replicas).sum();
    let mut reached: BTreeSet<BTreeMap<(usize, String), i32>> = [BTreeMap::new()].into();
    for placed in 0..wanted as usize {
        let mut next = BTreeSet::new();
        for before in &reached {
            let mut now = cluster.clone();
            for ((index, node), times) in before {
                let template = request.workloads[*index].pod.as_ref().expect("a template");
                (0..*times).for_each(|_| put(&mut now, template, node));
            }
            for (index, workload) in request.workloads.iter().enumerate() {
                let picks = before.iter().filter(|((of, _), _)| *of == index);
                if picks.map(|(_, times)| times).sum::<i32>() >= workload.replicas {
                    continue;
                }
                let template = workload.pod.as_ref().expect("a template");
                for node in accepts(&now, template) {
                    let mut after = before.clone();
                    *after.entry((index, node)).or_default() += 1;
                    next.insert(after);
                }
            }
        }
        if next.is_empty() {
            return placed;
        }
        reached = next;
    }
    wanted as usize
}

#[tokio::test]
async fn workloads_are_placed_one_after_the_other() {
    let server = Server::start().await;
    let (mut left_over, mut gained, mut best, mut short) = (0, 0, 0, 0);
    for seed in 0..cases() / 6 {
        let (nodes, request) = random(&mut Rng::with_seed(seed));
        let cluster = model::cluster(&nodes);
        server.replace_all(nodes).await;
        let said = format!("seed {seed}: {request:?}");
        let wanted: i32 = request.workloads.iter().map(|it| it.replicas).sum();
        let greedy = server.place(request.clone()).await;
        assert_eq!(
            picks(&greedy),
            one_after_the_other(&cluster, &request),
            "{said}"
        );
        assert_eq!(
            greedy.placements.len() + greedy.unplaced as usize,
            wanted as usize
        );
        for (index, workload) in greedy.workloads.iter().enumerate() {
            let placed = picks(&greedy).iter().filter(|(of, _)| *of == index).count();
            let all = request.workloads[index].replicas;
            assert_eq!(workload.placed_count, placed as i32, "{said}");
            assert_eq!(workload.placed_count + workload.unplaced, all, "{said}");
            assert_eq!(
                workload.unplaced == 0,
                workload.reasons.is_empty(),
                "{said}"
            );
        }

        let gang = server.place(all_or_nothing(&request)).await;
        match greedy.unplaced {
            0 => assert_eq!(picks(&gang), picks(&greedy), "{said}"),
            _ => assert_eq!((picks(&gang), gang.unplaced), (vec![], wanted), "{said}"),
        }

        let jointly = PlaceRequest {
            planning: Planning::Joint.into(),
            ..request.clone()
        };
        let joint = server.place(jointly).await;
        let mut now = cluster.clone();
        for (index, node) in picks(&joint) {
            let template = request.workloads[index].pod.as_ref().expect("a template");
            assert!(accepts(&now, template).contains(&node), "{node}, {said}");
            put(&mut now, template, &node);
        }
        let placed = joint.placements.len();
        let most = most(&cluster, &request);
        assert!(
            greedy.placements.len() <= placed && placed <= most,
            "{said}"
        );
        assert!(
            joint.bound.is_some_and(|bound| bound as usize >= most),
            "{said}"
        );
        left_over += usize::from(greedy.unplaced > 0);
        gained += usize::from(greedy.placements.len() < placed);
        best += usize::from(placed == most);
        short += usize::from(placed < most);
    }
    println!("{left_over} left replicas over, {gained} gained; {best} the most, {short} fewer");
    assert!(left_over > 20 && gained > 2, "{left_over} {gained}");
    assert!(short * 10 < best, "{best} {short}");
}
