//! The clients: feeders, askers, placers and readers.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::proto::v1;
use evenkeel::proto::v1::change::Object;
use evenkeel::proto::v1::stream_snapshot_request::Step;
use support::synth::{Shape, SyntheticCluster, ZONE_KEY};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use super::server::{Client, SNAPSHOT, Server};

/// The interval at which a feeder replaces all.
const REPLACE_EVERY: Duration = Duration::from_secs(30);

/// Pods that change in a batch, and how often.
const CHURN: usize = 200;
const CHURN_EVERY: Duration = Duration::from_millis(200);

/// The cluster that all is about.
pub struct World {
    cluster: SyntheticCluster,
    pause: Duration,
}

impl World {
    /// A cluster of this size; clients pause so long between calls.
    pub fn new(nodes: usize, pods: usize, pause: Duration) -> Self {
        let cluster = SyntheticCluster::new(Shape {
            nodes,
            pods,
            zones: 8,
            workloads: (pods / 100).max(1),
            namespaces: 10,
            taint_every: 50,
            seed: 1,
        });
        Self { cluster, pause }
    }

    /// A pod of some workload, to be spread over zones and nodes.
    fn pod(&self) -> v1::Pod {
        let workload = self
            .cluster
            .workload(fastrand::usize(..self.cluster.shape().workloads));
        let labels = [("app".to_owned(), workload.name())];
        let constraint = |key: &str, action: &str, skew| v1::TopologySpreadConstraint {
            max_skew: skew,
            topology_key: key.to_owned(),
            when_unsatisfiable: action.to_owned(),
            label_selector: Some(v1::LabelSelector {
                match_labels: labels.clone().into(),
                match_expressions: Vec::new(),
            }),
            ..Default::default()
        };
        v1::Pod {
            metadata: Some(v1::ObjectMeta {
                namespace: workload.namespace(),
                labels: labels.clone().into(),
                ..Default::default()
            }),
            spec: Some(v1::PodSpec {
                topology_spread_constraints: vec![
                    constraint(ZONE_KEY, "DoNotSchedule", fastrand::i32(1..20)),
                    constraint("kubernetes.io/hostname", "ScheduleAnyway", 1),
                ],
                ..Default::default()
            }),
            status: None,
        }
    }

    /// Pods that go, come back or move, and now and then a node that is
    /// cordoned or is cordoned no more.
    fn churn(&self) -> Vec<v1::Change> {
        let shape = self.cluster.shape();
        let workload = self.cluster.workload(fastrand::usize(..shape.workloads));
        let mut objects = Vec::new();
        for mut pod in workload.pods().take(CHURN) {
            let metadata = pod.metadata.clone().unwrap_or_default();
            let node = self.cluster.node(fastrand::usize(..shape.nodes));
            match fastrand::u8(..3) {
                0 => objects.push(Object::Delete(v1::ObjectReference {
                    kind: "Pod".into(),
                    namespace: metadata.namespace,
                    name: metadata.name,
                    uid: String::new(),
                })),
                1 => objects.push(Object::Pod(pod)),
                _ => {
                    let spec = pod.spec.get_or_insert_default();
                    spec.node_name = node.metadata.unwrap_or_default().name;
                    objects.push(Object::Pod(pod));
                }
            }
        }
        if fastrand::u8(..5) == 0 {
            let mut node = self.cluster.node(fastrand::usize(..shape.nodes));
            node.spec.get_or_insert_default().unschedulable = fastrand::bool();
            objects.push(Object::Node(node));
        }
        let change = |object| v1::Change {
            object: Some(object),
        };
        objects.into_iter().map(change).collect()
    }
}

/// Starts all clients of a server: one feeder, and `clients` of each other kind.
pub fn spawn(
    world: &Arc<World>,
    server: &Arc<Server>,
    clients: usize,
    stop: &CancellationToken,
) -> Vec<JoinHandle<()>> {
    let it = || Load {
        world: Arc::clone(world),
        server: Arc::clone(server),
        client: server.client(),
        stop: stop.clone(),
    };
    let mut all = vec![tokio::spawn(it().feed()), tokio::spawn(it().read())];
    for _ in 0..clients {
        all.push(tokio::spawn(it().ask()));
        all.push(tokio::spawn(it().place()));
    }
    all
}

/// One client.
struct Load {
    world: Arc<World>,
    server: Arc<Server>,
    client: Client,
    stop: CancellationToken,
}

impl Load {
    /// Makes a call and counts what came of it. An error is provoked when a
    /// restart began before the call or during it.
    async fn call<T>(
        &self,
        what: &'static str,
        expected: &[Code],
        call: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> Option<T> {
        let before = self.server.phase();
        let result = call.await.map(tonic::Response::into_inner);
        let away = self.server.is_away() || self.server.phase() != before;
        self.server.tally.note(what, result, expected, away)
    }

    async fn feed(mut self) {
        while !self.stop.is_cancelled() {
            let before = self.server.phase();
            if let Err(status) = self.feed_until_replace().await {
                let away = self.server.is_away() || self.server.phase() != before;
                self.server.tally.note::<()>("feed", Err(status), &[], away);
                sleep(Duration::from_millis(100)).await;
            }
        }
    }

    /// Replaces all in a stream, and then sends changes for a while.
    async fn feed_until_replace(&mut self) -> Result<(), Status> {
        let (steps, receiver) = mpsc::channel(1);
        let answers = self
            .client
            .stream_snapshot(ReceiverStream::new(receiver))
            .await;
        let mut answers = answers?.into_inner();
        let tally = Arc::clone(&self.server.tally);
        let mut step = async |what: &'static str, step: Step| {
            let request = v1::StreamSnapshotRequest { step: Some(step) };
            // A stream that has ended says why in its answers.
            let _ = steps.send(request).await;
            let answer = answers.message().await?;
            let answer = answer.ok_or_else(|| Status::unavailable("the stream ended"))?;
            Ok::<_, Status>(tally.note(what, Ok(answer), &[], false))
        };
        let snapshot = || SNAPSHOT.to_owned();
        let update = |changes| {
            Step::Update(v1::UpdateSnapshotRequest {
                snapshot: snapshot(),
                changes,
                ..Default::default()
            })
        };
        let begin = v1::BeginReplace {
            snapshot: snapshot(),
        };
        step("batches", Step::BeginReplace(begin)).await?;
        for batch in self.world.cluster.clone().into_batches(1_000) {
            step("batches", update(batch)).await?;
        }
        let commit = v1::CommitReplace {
            snapshot: snapshot(),
            expected_revision: None,
        };
        step("replaces", Step::CommitReplace(commit)).await?;
        self.server.fed();
        let replaced = Instant::now();
        while replaced.elapsed() < REPLACE_EVERY && !self.stop.is_cancelled() {
            sleep(CHURN_EVERY).await;
            step("batches", update(self.world.churn())).await?;
        }
        Ok(())
    }

    async fn ask(self) {
        while !self.stop.is_cancelled() {
            let mut client = self.client.clone();
            let (snapshot, pod) = (SNAPSHOT.to_owned(), Some(self.world.pod()));
            match fastrand::u8(..8) {
                0..=3 => {
                    let view = fastrand::i32(0..5);
                    let request = v1::FilterRequest {
                        snapshot,
                        pod,
                        view,
                        ..Default::default()
                    };
                    self.call("Filter", &[], client.filter(request)).await;
                }
                4 | 5 => {
                    let request = v1::ScoreRequest {
                        snapshot,
                        pod,
                        top: 10,
                        ..Default::default()
                    };
                    self.call("Score", &[], client.score(request)).await;
                }
                6 => {
                    let overlay = self.world.churn();
                    let request = v1::FilterRequest {
                        snapshot,
                        pod,
                        overlay,
                        ..Default::default()
                    };
                    self.call("Filter with an overlay", &[], client.filter(request))
                        .await;
                }
                _ => {
                    let request = v1::FilterRequest {
                        snapshot,
                        ..Default::default()
                    };
                    let wrong = [Code::InvalidArgument];
                    self.call("mistakes", &wrong, client.filter(request)).await;
                }
            }
            sleep(self.world.pause).await;
        }
    }

    /// Reserves; confirms some, releases some, and lets some expire.
    async fn place(self) {
        while !self.stop.is_cancelled() {
            let mut client = self.client.clone();
            let request = v1::PlaceRequest {
                snapshot: SNAPSHOT.to_owned(),
                pod: Some(self.world.pod()),
                replicas: fastrand::i32(1..10),
                reserve: Some(v1::Reservation {
                    owner: "soak".into(),
                    ttl: Some(pbjson_types::Duration {
                        seconds: 2,
                        nanos: 0,
                    }),
                }),
                ..Default::default()
            };
            let placed = self.call("Place", &[], client.place(request)).await;
            let ids = placed.into_iter().flat_map(|placed| placed.placements);
            let ids: Vec<String> = ids.map(|placement| placement.reservation_id).collect();
            match fastrand::u8(..3) {
                _ if ids.is_empty() => {}
                0 => {
                    let snapshot = SNAPSHOT.to_owned();
                    let request = v1::ReleaseReservationsRequest { snapshot, ids };
                    let release = client.release_reservations(request);
                    self.call("ReleaseReservations", &[], release).await;
                }
                1 => {
                    let name = |id: &String| v1::ReservedPod {
                        name: id.clone(),
                        uid: String::new(),
                    };
                    let confirmations = ids.iter().map(|id| v1::Confirmation {
                        id: id.clone(),
                        pod: Some(name(id)),
                    });
                    let request = v1::ConfirmReservationsRequest {
                        snapshot: SNAPSHOT.to_owned(),
                        confirmations: confirmations.collect(),
                    };
                    let confirm = client.confirm_reservations(request);
                    self.call("ConfirmReservations", &[], confirm).await;
                }
                _ => {}
            }
            sleep(self.world.pause * 4).await;
        }
    }

    /// Describes, exports and verifies.
    async fn read(self) {
        while !self.stop.is_cancelled() {
            let snapshot = || SNAPSHOT.to_owned();
            let mut client = self.client.clone();
            let request = v1::GetSnapshotRequest {
                snapshot: snapshot(),
            };
            self.call("GetSnapshot", &[], client.get_snapshot(request))
                .await;
            let request = v1::ExportSnapshotRequest {
                snapshot: snapshot(),
            };
            let export = async {
                let mut parts = client.export_snapshot(request).await?.into_inner();
                let (mut read, mut sent) = (0, None);
                while let Some(part) = parts.message().await? {
                    read += part.update.unwrap_or_default().changes.len() as i64;
                    sent = part.summary.map(|it| it.object_count);
                }
                if sent != Some(read) {
                    let wrong = format!("an export of {read} objects that says {sent:?}");
                    self.server.tally.wrong(wrong);
                }
                Ok(tonic::Response::new(()))
            };
            self.call("ExportSnapshot", &[], export).await;
            let request = v1::VerifySnapshotRequest {
                snapshot: snapshot(),
            };
            let mut client = self.client.clone();
            let verified = self
                .call("VerifySnapshot", &[], client.verify_snapshot(request))
                .await;
            if let Some(verified) = verified.filter(|verified| verified.mismatch_count > 0) {
                self.server
                    .tally
                    .wrong(format!("drifted: {:?}", verified.mismatches));
            }
            sleep(Duration::from_secs(2)).await;
        }
    }
}
