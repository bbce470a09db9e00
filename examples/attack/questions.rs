//! Requests of every method that take much to answer, each within the limits.

use evenkeel::proto::v1;
use evenkeel::proto::v1::{Change, Dialect, NodeBonus, NodeCapacity, NodeNames, Pod, View};
use support::synth::{HOSTNAME_KEY, RACK_KEY, Shape, SyntheticCluster};

use super::pods::{self, PODS, Scale};
use super::request::Request;

/// A snapshot of nobody else's, which writers write into.
pub const OWN: &str = "attacked";

/// A function that makes the request of a try.
pub type Make = Box<dyn Fn(&Scale, usize) -> Request + Send + Sync>;

/// A hostile question, or rather all of a kind.
pub struct Hostile {
    /// The method and what is much about it.
    pub name: String,
    /// The request of a try; no two are the same.
    pub make: Make,
}

/// All hostile questions.
pub fn all() -> Vec<Hostile> {
    let mut all = Vec::new();
    for (name, make) in PODS {
        all.extend(about_a_pod(name, make));
        all.push(stream(name, make));
    }
    all.extend(names());
    all.extend(overlays());
    all.extend(places());
    all.extend(readers());
    all.extend(writers());
    all
}

fn hostile(
    name: impl Into<String>,
    make: impl Fn(&Scale, usize) -> Request + Send + Sync + 'static,
) -> Hostile {
    Hostile {
        name: name.into(),
        make: Box::new(make),
    }
}

/// The number of questions of a stream.
const STREAMED: usize = 16;

/// Questions about so many pods over one stream.
fn stream(name: &str, pod: pods::Make) -> Hostile {
    use v1::decide_request::Step;
    hostile(format!("Decide, {name}"), move |scale, salt| {
        let question = |id: usize| v1::Question {
            id: id as u64,
            timeout: None,
            ask: Some(v1::question::Ask::Filter(v1::FilterRequest {
                pod: Some(pod(scale, salt * STREAMED + id)),
                view: View::Domains as i32,
                ..Default::default()
            })),
        };
        let step = |id| v1::DecideRequest {
            step: Some(Step::Question(question(id))),
        };
        Request::Decide((0..STREAMED).map(step).collect())
    })
}

/// Every decision about a pod.
fn about_a_pod(name: &str, pod: pods::Make) -> Vec<Hostile> {
    let view = View::Domains as i32;
    vec![
        hostile(format!("Filter, {name}"), move |scale, salt| {
            Request::Filter(v1::FilterRequest {
                pod: Some(pod(scale, salt)),
                view,
                ..Default::default()
            })
        }),
        hostile(format!("Score, {name}"), move |scale, salt| {
            Request::Score(v1::ScoreRequest {
                pod: Some(pod(scale, salt)),
                view,
                ..Default::default()
            })
        }),
        hostile(format!("Explain, {name}"), move |scale, salt| {
            Request::Explain(v1::ExplainRequest {
                pod: Some(pod(scale, salt)),
                view,
                ..Default::default()
            })
        }),
        hostile(format!("Place, {name}"), move |scale, salt| {
            Request::Place(v1::PlaceRequest {
                pod: Some(pod(scale, salt)),
                replicas: 10,
                view,
                ..Default::default()
            })
        }),
    ]
}

/// So many names of nodes, most of which there are none of.
fn node_names(scale: &Scale, salt: usize) -> impl Iterator<Item = String> {
    let known = scale.nodes.min(scale.names / 4);
    let unknown = (known..scale.names).map(move |n| format!("no-{salt}-{n}"));
    let name = |n| format!("node-{n:06}.eu-west-1.compute.internal");
    (0..known).map(name).chain(unknown)
}

/// Long lists of names.
fn names() -> Vec<Hostile> {
    let candidates = |scale: &Scale, salt| {
        Some(NodeNames {
            names: node_names(scale, salt).collect(),
        })
    };
    let place = |scale: &Scale| v1::PlaceRequest {
        pod: Some(pods::small()),
        replicas: i32::try_from(scale.replicas / 100).unwrap_or(i32::MAX),
        ..Default::default()
    };
    let fleet = move |scale: &Scale| v1::PlaceRequest {
        dialect: Dialect::Fleet as i32,
        ..place(scale)
    };
    vec![
        hostile("Filter, candidates", move |scale, salt| {
            Request::Filter(v1::FilterRequest {
                pod: Some(pods::small()),
                candidates: candidates(scale, salt),
                view: View::Full as i32,
                ..Default::default()
            })
        }),
        hostile("Score, candidates", move |scale, salt| {
            Request::Score(v1::ScoreRequest {
                pod: Some(pods::small()),
                candidates: candidates(scale, salt),
                ..Default::default()
            })
        }),
        hostile("Place, bonuses", move |scale, salt| {
            let bonus = |(score, node)| NodeBonus {
                node,
                score: score as i64,
            };
            Request::Place(v1::PlaceRequest {
                bonuses: node_names(scale, salt).enumerate().map(bonus).collect(),
                ..place(scale)
            })
        }),
        hostile("Place, capacities", move |scale, salt| {
            let one = |node| NodeCapacity { node, replicas: 1 };
            Request::Place(v1::PlaceRequest {
                capacities: node_names(scale, salt).map(one).collect(),
                ..place(scale)
            })
        }),
        hostile("Place, Fleet, holders", move |scale, salt| {
            let holder = |node| v1::Holder {
                node,
                ..Default::default()
            };
            Request::Place(v1::PlaceRequest {
                holders: node_names(scale, salt).map(holder).collect(),
                ..fleet(scale)
            })
        }),
        hostile("Place, Fleet, sticky", move |scale, salt| {
            Request::Place(v1::PlaceRequest {
                sticky: node_names(scale, salt).collect(),
                ..fleet(scale)
            })
        }),
    ]
}

/// Changes that are imagined.
fn overlays() -> Vec<Hostile> {
    let nodes = |scale: &Scale, salt| {
        let shape = shape(scale, 0, salt);
        let cluster = SyntheticCluster::new(shape);
        let nodes = (0..scale.overlay.min(scale.nodes)).map(|n| {
            let mut node = cluster.node(n);
            node.spec.get_or_insert_default().unschedulable = true;
            change(v1::change::Object::Node(pods::with_topologies(
                node,
                n + salt,
            )))
        });
        nodes.collect::<Vec<_>>()
    };
    let own = |scale: &Scale, salt| {
        let cluster = SyntheticCluster::new(shape(scale, scale.overlay, salt));
        let pods = cluster
            .pods()
            .map(|pod| change(v1::change::Object::Pod(pod)));
        pods.collect::<Vec<_>>()
    };
    vec![
        hostile("Filter, overlay of nodes", move |scale, salt| {
            Request::Filter(v1::FilterRequest {
                pod: Some(pods::small()),
                overlay: nodes(scale, salt),
                view: View::Domains as i32,
                ..Default::default()
            })
        }),
        hostile("Score, overlay of pods", move |scale, salt| {
            Request::Score(v1::ScoreRequest {
                pod: Some(pods::small()),
                overlay: own(scale, salt),
                view: View::Domains as i32,
                ..Default::default()
            })
        }),
        hostile("Explain, overlay of nodes", move |scale, salt| {
            Request::Explain(v1::ExplainRequest {
                pod: Some(pods::small()),
                overlay: nodes(scale, salt),
                ..Default::default()
            })
        }),
        hostile("Place, overlay of pods", move |scale, salt| {
            Request::Place(v1::PlaceRequest {
                pod: Some(pods::small()),
                overlay: own(scale, salt),
                replicas: 10,
                ..Default::default()
            })
        }),
    ]
}

/// Many replicas.
fn places() -> Vec<Hostile> {
    let place = |scale: &Scale| v1::PlaceRequest {
        pod: Some(pods::small()),
        replicas: i32::try_from(scale.replicas).unwrap_or(i32::MAX),
        ..Default::default()
    };
    let over_hosts = move |scale: &Scale| v1::PlaceRequest {
        pod: Some(pods::spread(vec![
            pods::constraint(HOSTNAME_KEY, 1, pods::app("app-00000")),
            pods::constraint(RACK_KEY, 1, pods::app("app-00000")),
        ])),
        ..place(scale)
    };
    vec![
        hostile("Place, replicas", move |scale, _| {
            Request::Place(place(scale))
        }),
        hostile("Place, replicas over hosts", move |scale, _| {
            Request::Place(over_hosts(scale))
        }),
        hostile("Place, reserving", move |scale, salt| {
            Request::Place(v1::PlaceRequest {
                reserve: Some(v1::Reservation {
                    owner: format!("attack-{salt}"),
                    ttl: Some(pbjson_types::Duration {
                        seconds: 1,
                        nanos: 0,
                    }),
                }),
                ..place(scale)
            })
        }),
        hostile("Place, workloads", move |scale, _| {
            let one = place(scale);
            let workload = v1::WorkloadReplicas {
                pod: one.pod,
                replicas: (one.replicas / 1_000).max(1),
                ..Default::default()
            };
            Request::Place(v1::PlaceRequest {
                workloads: vec![workload; 1_000],
                planning: v1::Planning::Joint as i32,
                ..Default::default()
            })
        }),
        hostile("Place, Fleet, all clusters", move |scale, _| {
            Request::Place(v1::PlaceRequest {
                dialect: Dialect::Fleet as i32,
                ..over_hosts(scale)
            })
        }),
        hostile("Place, Fleet, steps", move |scale, _| {
            let steps = 1_000_000 / scale.nodes.max(1);
            Request::Place(v1::PlaceRequest {
                dialect: Dialect::Fleet as i32,
                replicas: i32::try_from(steps).unwrap_or(i32::MAX),
                view: View::Full as i32,
                ..over_hosts(scale)
            })
        }),
    ]
}

/// Questions that read without deciding.
fn readers() -> Vec<Hostile> {
    let describe = |topology_key: &str| v1::DescribeSpreadRequest {
        topology_key: topology_key.to_owned(),
        max_domains: Some(0),
        page_size: 1_000,
        ..Default::default()
    };
    vec![
        hostile("DescribeSpread, constraints", move |_, _| {
            Request::Describe(describe(""))
        }),
        hostile("DescribeSpread, hosts", move |_, _| {
            Request::Describe(describe(HOSTNAME_KEY))
        }),
        hostile("DescribeSpread, selector", move |scale, salt| {
            let mut pod = PODS[7].1(scale, salt);
            let spec = pod.spec.get_or_insert_default();
            let selector = spec.topology_spread_constraints.remove(0).label_selector;
            let selector = selector.unwrap_or_default();
            Request::Describe(v1::DescribeSpreadRequest {
                namespace: "team-000".into(),
                subject: Some(v1::describe_spread_request::Subject::Selector(selector)),
                ..describe(HOSTNAME_KEY)
            })
        }),
        hostile("ListReservations", |_, salt| {
            Request::Reservations(v1::ListReservationsRequest {
                page_size: 1_000,
                owner: format!("nobody-{salt}"),
                ..Default::default()
            })
        }),
        hostile("ReleaseReservations", |scale, salt| {
            let id = |n| format!("no-{salt}-{n}");
            Request::Release(v1::ReleaseReservationsRequest {
                ids: (0..scale.replicas).map(id).collect(),
                ..Default::default()
            })
        }),
        hostile("RenewReservations", |scale, salt| {
            let id = |n| format!("no-{salt}-{n}");
            Request::Renew(v1::RenewReservationsRequest {
                ids: (0..scale.replicas).map(id).collect(),
                ..Default::default()
            })
        }),
        hostile("ConfirmReservations", |scale, salt| {
            let confirmation = |n| v1::Confirmation {
                id: format!("no-{salt}-{n}"),
                pod: Some(v1::ReservedPod {
                    name: format!("pod-{n}"),
                    uid: String::new(),
                }),
            };
            Request::Confirm(v1::ConfirmReservationsRequest {
                confirmations: (0..scale.replicas).map(confirmation).collect(),
                ..Default::default()
            })
        }),
        hostile("GetSnapshot", |_, _| Request::Get(Default::default())),
        hostile("ListSnapshots", |_, _| Request::List(Default::default())),
        hostile("ExportSnapshot", |_, _| Request::Export(Default::default())),
        hostile("VerifySnapshot", |_, _| Request::Verify(Default::default())),
    ]
}

/// Calls that write, into a snapshot of their own, so that what they did can
/// be told from what they took.
fn writers() -> Vec<Hostile> {
    let batch = |scale: &Scale, mode, salt| v1::UpdateSnapshotRequest {
        snapshot: OWN.into(),
        mode,
        changes: objects(scale, salt),
        ..Default::default()
    };
    vec![
        hostile("UpdateSnapshot, a delta", move |scale, salt| {
            Request::Update(batch(scale, 0, salt))
        }),
        hostile("UpdateSnapshot, a replace", move |scale, salt| {
            Request::Update(batch(scale, v1::Mode::Replace as i32, salt))
        }),
        hostile("StreamSnapshot, staged and dropped", move |scale, salt| {
            use v1::stream_snapshot_request::Step;
            let begin = Step::BeginReplace(v1::BeginReplace {
                snapshot: OWN.into(),
            });
            let steps = [begin, Step::Update(batch(scale, 0, salt))];
            let step = |step| v1::StreamSnapshotRequest { step: Some(step) };
            Request::Feed(steps.map(step).into())
        }),
        hostile("DeleteSnapshot", |_, _| {
            Request::Delete(v1::DeleteSnapshotRequest {
                snapshot: OWN.into(),
                ..Default::default()
            })
        }),
    ]
}

/// A batch: half nodes, half pods with labels of their own.
pub fn objects(scale: &Scale, salt: usize) -> Vec<Change> {
    let half = scale.batch / 2;
    let cluster = SyntheticCluster::new(Shape {
        nodes: half,
        ..shape(scale, half, salt)
    });
    let own = |mut pod: Pod, number: usize| {
        let metadata = pod.metadata.get_or_insert_default();
        let value = format!("{salt}-{number}");
        metadata.labels.insert("attack".into(), value);
        pod
    };
    let nodes = cluster.nodes().map(v1::change::Object::Node);
    let pods = cluster.pods().enumerate();
    let pods = pods.map(|(number, pod)| v1::change::Object::Pod(own(pod, number)));
    nodes.chain(pods).map(change).collect()
}

fn shape(scale: &Scale, pods: usize, salt: usize) -> Shape {
    Shape {
        nodes: scale.nodes,
        pods,
        zones: 10,
        workloads: (pods / 100).max(1),
        namespaces: 10,
        taint_every: 10,
        seed: salt as u64,
    }
}

fn change(object: v1::change::Object) -> Change {
    Change {
        object: Some(object),
    }
}

/// The cluster that is asked about, in batches.
pub fn cluster(scale: &Scale, pods: usize) -> impl Iterator<Item = Vec<Change>> + use<> {
    let batches = SyntheticCluster::new(shape(scale, pods, 0)).into_batches(1_000);
    let mut index = 0;
    batches.map(move |mut batch| {
        for change in &mut batch {
            if let Some(v1::change::Object::Node(node)) = &mut change.object {
                *node = pods::with_topologies(std::mem::take(node), index);
                index += 1;
            }
        }
        batch
    })
}
