//! Reservations that are asked for again, renewed, confirmed and run out, while their pods arrive,
//! change and go, in any order: nothing is ever counted twice, and nothing ends early.

use std::collections::BTreeMap;

use evenkeel::proto::v1::{PlaceResponse, Pod};
use proptest::collection::vec;
use proptest::prelude::*;

use super::held::{Held, TTL_SECONDS, WEB};
use support::build::{on, pod, zones};
use support::model::{Stored, delete};
use support::server::Server;

/// An event in the life of one of a few reservations and pods.
#[derive(Debug, Clone)]
enum Event {
    Reserve,
    /// The same request comes once more, as after a lost answer.
    Retry {
        of: usize,
    },
    Renew {
        of: usize,
        seconds: Option<u64>,
    },
    Confirm {
        of: usize,
        pod: usize,
        by: By,
    },
    Release {
        of: usize,
    },
    /// A caller has chosen a node for a pod.
    Assign {
        pod: usize,
        node: usize,
        with_uid: bool,
    },
    Arrive {
        pod: usize,
        bound: bool,
        with_uid: bool,
    },
    Delete {
        pod: usize,
    },
    Pass {
        seconds: u64,
    },
    Replace,
}

#[derive(Debug, Clone, Copy)]
enum By {
    Name,
    Uid,
    Both,
}

fn event() -> impl Strategy<Value = Event> {
    let by = prop_oneof![Just(By::Name), Just(By::Uid), Just(By::Both)];
    let arrive = (
        0..4usize,
        prop::bool::weighted(0.8),
        prop::bool::weighted(0.8),
    );
    prop_oneof![
        3 => Just(Event::Reserve),
        4 => (0..6usize, 0..4usize, by).prop_map(|(of, pod, by)| Event::Confirm { of, pod, by }),
        3 => (0..4usize).prop_map(|of| Event::Retry { of }),
        2 => (0..6usize, proptest::option::of(1..=2 * TTL_SECONDS))
            .prop_map(|(of, seconds)| Event::Renew { of, seconds }),
        1 => (0..6usize).prop_map(|of| Event::Release { of }),
        3 => (0..4usize, 0..2usize, any::<bool>())
            .prop_map(|(pod, node, with_uid)| Event::Assign { pod, node, with_uid }),
        5 => arrive.prop_map(|(pod, bound, with_uid)| Event::Arrive { pod, bound, with_uid }),
        2 => (0..4usize).prop_map(|pod| Event::Delete { pod }),
        2 => (1..=TTL_SECONDS).prop_map(|seconds| Event::Pass { seconds }),
        1 => Just(Event::Replace),
    ]
}

/// A model of the reservations that must be held and counted, by the rules in their plainest form.
#[derive(Default)]
struct Model {
    now: u64,
    held: Vec<Promise>,
    /// The answer to each request, and the time until which it is given again.
    answers: Vec<(PlaceResponse, u64)>,
    pods: BTreeMap<usize, Pod>,
}

struct Promise {
    id: String,
    node: String,
    ends: u64,
    ttl: u64,
    claim: Option<(usize, By)>,
}

impl Model {
    fn expire(&mut self) {
        self.held.retain(|promise| promise.ends > self.now);
    }

    /// Ends the reservations that were confirmed for pods which are on nodes now.
    fn take_over(&mut self) {
        let pods = &self.pods;
        let is_taken = |promise: &Promise| {
            let Some((pod, by)) = promise.claim else {
                return false;
            };
            let Some(arrived) = pods.get(&pod).filter(|pod| is_bound(pod)) else {
                return false;
            };
            let has_uid = !arrived.metadata.as_ref().expect("it has").uid.is_empty();
            has_uid || !matches!(by, By::Uid)
        };
        self.held.retain(|promise| !is_taken(promise));
    }

    /// Holds the picks of an answer.
    fn hold(&mut self, answer: &PlaceResponse, ids: &mut Vec<String>) {
        for pick in &answer.placements {
            ids.push(pick.reservation_id.clone());
            self.held.push(Promise {
                id: pick.reservation_id.clone(),
                node: pick.node.clone(),
                ends: self.now + TTL_SECONDS,
                ttl: TTL_SECONDS,
                claim: None,
            });
        }
    }

    fn counts(&self) -> [i64; 2] {
        let held = self.held.iter().map(|promise| &*promise.node);
        let pods = self.pods.values().filter(|pod| is_bound(pod));
        let pods = pods.map(|pod| &*pod.spec.as_ref().expect("it is bound").node_name);
        let mut counts = [0; 2];
        for node in held.chain(pods) {
            counts[usize::from(node == "b")] += 1;
        }
        counts
    }
}

fn is_bound(pod: &Pod) -> bool {
    pod.spec
        .as_ref()
        .is_some_and(|spec| !spec.node_name.is_empty())
}

fn name(pod: usize) -> String {
    format!("web-{pod}")
}

fn uid(pod: usize) -> String {
    format!("uid-{pod}")
}

async fn run(events: &[Event]) {
    let held = Held::start().await;
    let mut model = Model::default();
    let mut ids = Vec::new();
    for event in events {
        happen(event, &held, &mut model, &mut ids).await;
        assert_eq!(held.counts().await, model.counts(), "after {event:?}");
        let listed = held.list().await.into_iter().map(|held| held.id);
        let promised = model.held.iter().map(|promise| promise.id.clone());
        assert_eq!(listed.collect::<Vec<_>>(), promised.collect::<Vec<_>>());
        let snapshot = held.server.describe("").await;
        assert_eq!(snapshot.reservation_count as usize, model.held.len());
        assert_eq!(snapshot.pod_count as usize, model.pods.len());
    }
}

async fn happen(event: &Event, held: &Held, model: &mut Model, ids: &mut Vec<String>) {
    match event.clone() {
        Event::Reserve => {
            let answer = held.reserve_as(&model.answers.len().to_string()).await;
            model.hold(&answer, ids);
            model.answers.push((answer, model.now + TTL_SECONDS));
        }
        Event::Retry { of } => {
            let Some((first, until)) = model.answers.get(of).cloned() else {
                return;
            };
            let answer = held.reserve_as(&of.to_string()).await;
            if model.now < until {
                assert_eq!(answer, first, "the same id, the same answer");
            } else {
                model.hold(&answer, ids);
                model.answers[of] = (answer, model.now + TTL_SECONDS);
            }
        }
        Event::Renew { of, seconds } => {
            let Some(id) = ids.get(of) else { return };
            let renewed = held.renew(vec![id.clone()], seconds).await;
            let live = renewed.unknown_ids.is_empty();
            let promise = model.held.iter_mut().find(|promise| promise.id == *id);
            assert_eq!(live, promise.is_some());
            if let Some(promise) = promise {
                let ttl = seconds.unwrap_or(promise.ttl);
                if model.now + ttl > promise.ends {
                    (promise.ends, promise.ttl) = (model.now + ttl, ttl);
                }
            }
        }
        Event::Confirm { of, pod, by } => {
            let Some(id) = ids.get(of) else { return };
            let (name, uid) = match by {
                By::Name => (name(pod), String::new()),
                By::Uid => (String::new(), uid(pod)),
                By::Both => (name(pod), uid(pod)),
            };
            let live = held.confirm(id, &name, &uid).await;
            let promise = model.held.iter_mut().find(|promise| promise.id == *id);
            assert_eq!(live, promise.is_some());
            if let Some(promise) = promise {
                promise.claim = Some((pod, by));
                promise.ends = model.now + promise.ttl;
            }
            model.take_over();
        }
        Event::Release { of } => {
            let Some(id) = ids.get(of) else { return };
            let live = held.release(id).await;
            let before = model.held.len();
            model.held.retain(|promise| promise.id != *id);
            assert_eq!(live, model.held.len() < before);
        }
        Event::Assign {
            pod: index,
            node,
            with_uid,
        } => {
            let mut assigned = pod(&name(index), &WEB);
            if with_uid {
                assigned.metadata.as_mut().expect("it has").uid = uid(index);
            }
            let node = ["a", "b"][node];
            let answer = held
                .assign(vec![(assigned, node)])
                .await
                .expect("a valid request");
            // A reservation that was confirmed for a uid alone is for another pod, unless this pod
            // has a uid.
            let is_other = |by| matches!(by, By::Uid) && !with_uid;
            let meant = |claim: Option<(usize, By)>| {
                claim.is_some_and(|(pod, by)| pod == index && !is_other(by))
            };
            model.held.retain(|promise| !meant(promise.claim));
            let has_arrived = model.pods.get(&index).is_some_and(is_bound);
            let id = answer.reservation_ids[0].clone();
            assert_eq!(id.is_empty(), has_arrived);
            assert_eq!(answer.reserved_until.is_none(), has_arrived);
            assert_eq!(held.server.describe("").await.revision, answer.revision);
            if !has_arrived {
                ids.push(id.clone());
                model.held.push(Promise {
                    id,
                    node: node.to_owned(),
                    ends: model.now + TTL_SECONDS,
                    ttl: TTL_SECONDS,
                    claim: Some((index, if with_uid { By::Both } else { By::Name })),
                });
            }
        }
        Event::Arrive {
            pod: index,
            bound,
            with_uid,
        } => {
            let mut arrived = pod(&name(index), &WEB);
            if with_uid {
                arrived.metadata.as_mut().expect("it has").uid = uid(index);
            }
            if bound {
                // For some pods this is another node than the reserved one.
                arrived = on(arrived, ["a", "b"][index % 2]);
            }
            let updated = held.server.update("", vec![arrived.clone().change()]).await;
            assert!(
                updated.changed_count <= 1,
                "what is taken over is not counted"
            );
            model.pods.insert(index, arrived);
            model.take_over();
        }
        Event::Delete { pod } => {
            let deletion = delete("Pod", "", &name(pod));
            held.server.update("", vec![deletion]).await;
            model.pods.remove(&pod);
        }
        Event::Pass { seconds } => {
            held.pass(seconds);
            model.now += seconds;
            model.expire();
        }
        Event::Replace => {
            let pods = model.pods.values().cloned().map(Stored::change);
            let state = zones(&["a", "b"]).into_iter().chain(pods).collect();
            held.server.replace_all(state).await;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn nothing_is_counted_twice(events in vec(event(), 1..40)) {
        Server::shared().0.block_on(run(&events));
    }
}
