//! Rebalances of random clusters, replayed one eviction at a time: each step keeps every disruption
//! budget and every limit of moves.

use std::collections::BTreeMap;

use crate::decisions::rebalance::{about, moves};
use crate::decisions::worlds::{name, number, running};
use evenkeel::proto::v1::{
    Change, IntOrString, LabelSelector, PodDisruptionBudget, PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus, RebalanceRequest,
};
use fastrand::Rng;
use support::build::{ZONE, hard, labelled, meta, node, pairs, requirement, spread};
use support::model::Stored;
use support::server::Server;

const APPS: [&str; 3] = ["web", "db", "ui"];

/// Number of nodes. The zone of each is its number modulo 3.
const NODES: usize = 6;

#[derive(Debug, Clone)]
struct Budget {
    /// The apps whose pods the budget selects.
    apps: Vec<usize>,
    is_of_available: bool,
    share: usize,
    is_percentage: bool,
    /// The number of allowed disruptions in the status, which a controller writes.
    said: Option<i32>,
}

#[derive(Debug)]
struct Case {
    /// App and node of each pod; no node while it waits.
    pods: Vec<(usize, Option<usize>)>,
    budgets: Vec<Budget>,
    caps: [i32; 3],
    max_unavailable: i32,
}

impl Budget {
    fn random(rng: &mut Rng) -> Self {
        let apps = match rng.usize(..4) {
            3 => vec![0, 1],
            app => vec![app],
        };
        let is_percentage = rng.bool();
        Self {
            apps,
            is_of_available: rng.bool(),
            share: match is_percentage {
                true => rng.usize(..=10) * 10,
                false => rng.usize(..6),
            },
            is_percentage,
            said: (rng.usize(..4) == 0).then(|| rng.i32(0..2)),
        }
    }

    fn change(&self, number: usize) -> Change {
        let share = match self.is_percentage {
            true => IntOrString {
                r#type: 1,
                str_val: format!("{}%", self.share),
                ..IntOrString::default()
            },
            false => IntOrString {
                int_val: self.share as i32,
                ..IntOrString::default()
            },
        };
        // Selectors of both kinds: those that name a pair, and those that name several.
        let selector = match &*self.apps {
            [app] if number.is_multiple_of(2) => labelled(&[("app", APPS[*app])]),
            [app] => LabelSelector {
                match_expressions: vec![requirement("app", "In", &[APPS[*app], "other"])],
                ..LabelSelector::default()
            },
            _ => labelled(&[("team", "shop")]),
        };
        let (available, unavailable) = match self.is_of_available {
            true => (Some(share), None),
            false => (None, Some(share)),
        };
        let budget = PodDisruptionBudget {
            metadata: Some(meta(&format!("b{number}"), &[])),
            spec: Some(PodDisruptionBudgetSpec {
                min_available: available,
                max_unavailable: unavailable,
                selector: Some(selector),
            }),
            status: self.said.map(|said| PodDisruptionBudgetStatus {
                disruptions_allowed: Some(said),
            }),
        };
        budget.change()
    }

    /// Returns the number of evictions that the budget allows with `pods` pods, of which `running`
    /// are on nodes.
    fn allows(&self, pods: usize, running: usize) -> usize {
        if let Some(said) = self.said {
            return said as usize;
        }
        let share = match self.is_percentage {
            true => (pods * self.share).div_ceil(100),
            false => self.share,
        };
        let wanted = match self.is_of_available {
            true => share,
            false => pods.saturating_sub(share),
        };
        running.saturating_sub(wanted)
    }
}

impl Case {
    fn random(rng: &mut Rng) -> Self {
        let pods = (0..rng.usize(6..16)).map(|_| {
            let app = rng.usize(..3);
            let node = rng.usize(..NODES).min(rng.usize(..NODES));
            (app, (rng.usize(..9) > 0).then_some(node))
        });
        let cap = |rng: &mut Rng| if rng.bool() { rng.i32(1..4) } else { 0 };
        Self {
            pods: pods.collect(),
            budgets: (0..rng.usize(..3)).map(|_| Budget::random(rng)).collect(),
            caps: [cap(rng), cap(rng), cap(rng)],
            max_unavailable: rng.i32(0..3),
        }
    }

    fn changes(&self) -> Vec<Change> {
        let nodes = (0..NODES).map(|at| {
            let zone = format!("z{}", at % 3);
            node(&name(at), &[(ZONE, &zone)]).change()
        });
        let pods = self.pods.iter().enumerate().map(|(number, (app, at))| {
            let labels = [
                ("app", APPS[*app]),
                ("team", if *app < 2 { "shop" } else { "" }),
            ];
            let mut pod = running(&format!("p{number}"), APPS[*app], at.unwrap_or(0));
            pod.metadata.get_or_insert_default().labels = pairs(&labels);
            if at.is_none() {
                pod.spec.get_or_insert_default().node_name.clear();
                pod.status.get_or_insert_default().phase = "Pending".into();
            }
            spread(pod, vec![hard(1, ZONE, &labels[..1])]).change()
        });
        let budgets = self.budgets.iter().enumerate();
        let budgets = budgets.map(|(number, budget)| budget.change(number));
        nodes.chain(pods).chain(budgets).collect()
    }

    fn request(&self) -> RebalanceRequest {
        let [all, workload, node] = self.caps;
        RebalanceRequest {
            max_moves: all,
            max_moves_per_workload: workload,
            max_moves_per_node: node,
            max_unavailable: Some(self.max_unavailable),
            ..about("")
        }
    }

    /// The number of pods of some apps, and the number of those on nodes.
    fn count(&self, apps: &[usize]) -> (usize, usize) {
        let own = self.pods.iter().filter(|(app, _)| apps.contains(app));
        (
            own.clone().count(),
            own.filter(|(_, at)| at.is_some()).count(),
        )
    }

    /// Returns whether a pod of an app may be evicted now.
    fn may_evict(&self, app: usize) -> bool {
        let budgets = self.budgets.iter().filter(|it| it.apps.contains(&app));
        match &*budgets.collect::<Vec<_>>() {
            [] => {
                let (all, running) = self.count(&[app]);
                all - running < self.max_unavailable as usize
            }
            [budget] => {
                let (all, running) = self.count(&budget.apps);
                budget.allows(all, running) > 0
            }
            // The Eviction API refuses a pod of several budgets.
            _ => false,
        }
    }
}

#[tokio::test]
async fn each_step_keeps_budgets_and_limits() {
    let server = Server::start().await;
    let (mut moved, mut kept) = (0, 0);
    for seed in 0..400 {
        let mut case = Case::random(&mut Rng::with_seed(seed));
        server.replace_all(case.changes()).await;
        let answer = server.rebalance(case.request()).await;
        let (mut of_app, mut from_node) = ([0; 3], BTreeMap::new());
        for (step, (pod, from, to)) in (1..).zip(moves(&answer)) {
            let said = || format!("move {step} of {answer:?} of {case:?}");
            let pod = number(pod);
            let app = case.pods[pod].0;
            assert!(case.may_evict(app), "{}", said());
            // The budget accepts the eviction; the successor is ready before the next one.
            let at = case.pods[pod].1.expect("it is on a node");
            assert_eq!(from, name(at), "{}", said());
            case.pods[pod].1 = Some(number(to));
            of_app[app] += 1;
            *from_node.entry(from.to_owned()).or_insert(0) += 1;
        }
        let within = |cap: i32, moves: i32| cap == 0 || moves <= cap;
        let [all, workload, node] = case.caps;
        assert!(within(all, of_app.iter().sum()), "{answer:?} of {case:?}");
        assert!(
            of_app.iter().all(|it| within(workload, *it)),
            "{answer:?} of {case:?}"
        );
        assert!(
            from_node.values().all(|it| within(node, *it)),
            "{answer:?} of {case:?}"
        );
        moved += answer.moves.len();
        kept += usize::from(!case.budgets.is_empty() && !answer.workloads.is_empty());
    }
    assert!(
        moved > 200 && kept > 100,
        "{moved} moves, {kept} with budgets"
    );
}
