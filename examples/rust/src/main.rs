//! A small orchestrator: feeds a cluster, asks where pods may and should run,
//! places them with reservations, starts them and confirms.

use std::time::Duration;

use anyhow::{Context, Result};
use evenkeel::proto::Duration as Span;
use evenkeel::proto::v1;
use evenkeel::proto::v1::change::Object;
use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel::proto::v1::stream_snapshot_request::Step;
use tonic::transport::{Channel, Endpoint};

const SNAPSHOT: &str = "rust";
const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";

fn node(name: &str, zone: &str) -> v1::Node {
    let labels = [(ZONE, zone), (HOSTNAME, name)];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    v1::Node {
        metadata: Some(v1::ObjectMeta {
            name: name.into(),
            labels: labels.into(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn pod(name: &str, node_name: &str) -> v1::Pod {
    let labels = [("app".to_owned(), "web".to_owned())];
    let constraint = |key: &str, when: &str| v1::TopologySpreadConstraint {
        max_skew: 1,
        topology_key: key.into(),
        when_unsatisfiable: when.into(),
        label_selector: Some(v1::LabelSelector {
            match_labels: labels.clone().into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let phase = match node_name {
        "" => "Pending",
        _ => "Running",
    };
    v1::Pod {
        metadata: Some(v1::ObjectMeta {
            name: name.into(),
            namespace: "shop".into(),
            labels: labels.clone().into(),
            ..Default::default()
        }),
        spec: Some(v1::PodSpec {
            node_name: node_name.into(),
            topology_spread_constraints: vec![
                constraint(ZONE, "DoNotSchedule"),
                constraint(HOSTNAME, "ScheduleAnyway"),
            ],
            ..Default::default()
        }),
        status: Some(v1::PodStatus {
            phase: phase.into(),
            ..Default::default()
        }),
    }
}

fn change(object: Object) -> v1::Change {
    v1::Change {
        object: Some(object),
    }
}

struct Orchestrator {
    client: SpreadServiceClient<Channel>,
    /// Revision of the snapshot that the next question has to see.
    revision: i64,
}

impl Orchestrator {
    /// Replaces the snapshot by the whole cluster.
    async fn feed(&mut self) -> Result<()> {
        let zones = ["a", "b", "c"];
        let nodes = zones.iter().flat_map(|zone| {
            [1, 2].map(|number| node(&format!("node-{zone}{number}"), &format!("zone-{zone}")))
        });
        let snapshot = SNAPSHOT.to_owned();
        let steps = [
            Step::BeginReplace(v1::BeginReplace {
                snapshot: snapshot.clone(),
            }),
            Step::Update(v1::UpdateSnapshotRequest {
                snapshot: snapshot.clone(),
                changes: nodes.map(|node| change(Object::Node(node))).collect(),
                ..Default::default()
            }),
            Step::CommitReplace(v1::CommitReplace {
                snapshot,
                ..Default::default()
            }),
        ];
        let steps = steps.map(|step| v1::StreamSnapshotRequest { step: Some(step) });
        let answers = self.client.stream_snapshot(tokio_stream::iter(steps)).await;
        let mut answers = answers?.into_inner();
        while let Some(answer) = answers.message().await? {
            self.revision = answer.update.context("an answer has an update")?.revision;
        }
        Ok(())
    }

    async fn update(&mut self, change: v1::Change) -> Result<()> {
        let update = v1::UpdateSnapshotRequest {
            snapshot: SNAPSHOT.into(),
            changes: vec![change],
            ..Default::default()
        };
        let answer = self.client.update_snapshot(update).await?;
        self.revision = answer.into_inner().revision;
        Ok(())
    }

    /// What is asked about the next pod.
    fn question(&self) -> v1::FilterRequest {
        v1::FilterRequest {
            snapshot: SNAPSHOT.into(),
            pod: Some(pod("", "")),
            min_revision: self.revision,
            ..Default::default()
        }
    }

    /// Prints where a pod may and should run.
    async fn look(&mut self) -> Result<()> {
        let answer = self.client.filter(self.question()).await?.into_inner();
        println!(
            "feasible: {} of {}",
            answer.feasible_count, answer.node_count
        );
        let request = v1::ScoreRequest {
            snapshot: SNAPSHOT.into(),
            pod: Some(pod("", "")),
            min_revision: self.revision,
            top: 1,
            ..Default::default()
        };
        let answer = self.client.score(request).await?.into_inner();
        println!("best: {}", answer.scores[0].node);
        Ok(())
    }

    /// Picks nodes and holds them.
    async fn place(&mut self, replicas: i32) -> Result<Vec<v1::Placement>> {
        let request = v1::PlaceRequest {
            snapshot: SNAPSHOT.into(),
            pod: Some(pod("", "")),
            replicas,
            min_revision: self.revision,
            reserve: Some(v1::Reservation {
                owner: "example".into(),
                ttl: Some(Span {
                    seconds: 60,
                    nanos: 0,
                }),
            }),
            ..Default::default()
        };
        let placements = self.client.place(request).await?.into_inner().placements;
        let names: Vec<&str> = placements.iter().map(|p| p.node.as_str()).collect();
        println!("placed: {}", names.join(" "));
        Ok(placements)
    }

    /// Confirms a reservation for a pod, and reports the pod once it runs.
    async fn start(&mut self, name: &str, placement: &v1::Placement) -> Result<()> {
        let confirmation = v1::Confirmation {
            id: placement.reservation_id.clone(),
            pod: Some(v1::ReservedPod {
                name: name.into(),
                ..Default::default()
            }),
        };
        let request = v1::ConfirmReservationsRequest {
            snapshot: SNAPSHOT.into(),
            confirmations: vec![confirmation],
        };
        self.client.confirm_reservations(request).await?;
        self.update(change(Object::Pod(pod(name, &placement.node))))
            .await
    }

    /// Prints what is left of the reservations, and pods per zone.
    async fn count(&mut self) -> Result<()> {
        let request = v1::ListReservationsRequest {
            snapshot: SNAPSHOT.into(),
            ..Default::default()
        };
        let held = self.client.list_reservations(request).await?.into_inner();
        println!("reserved: {}", held.reservations.len());
        let mut question = self.question();
        question.set_view(v1::View::Domains);
        let answer = self.client.filter(question).await?.into_inner();
        let mut domains = answer.constraints[0].domains.clone();
        domains.sort_by(|a, b| a.value.cmp(&b.value));
        for domain in domains {
            println!("{}: {}", domain.value, domain.matching_pods);
        }
        Ok(())
    }

    async fn run(&mut self) -> Result<()> {
        self.feed().await.context("feed")?;
        self.look().await.context("look")?;
        for (number, placement) in self.place(5).await.context("place")?.iter().enumerate() {
            let name = format!("web-{number}");
            self.start(&name, placement).await.context("start")?;
        }

        // A pod goes, another comes.
        let gone = v1::ObjectReference {
            kind: "Pod".into(),
            namespace: "shop".into(),
            name: "web-1".into(),
            ..Default::default()
        };
        self.update(change(Object::Delete(gone)))
            .await
            .context("delete")?;
        let placements = self.place(1).await.context("place")?;
        self.start("web-5", &placements[0]).await.context("start")?;
        self.count().await.context("count")
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let server = std::env::args().nth(1);
    let server = server.unwrap_or_else(|| "localhost:50051".into());
    let channel = Endpoint::from_shared(format!("http://{server}"))?
        .timeout(Duration::from_secs(10))
        .connect()
        .await?;
    let client = SpreadServiceClient::new(channel);
    let mut orchestrator = Orchestrator {
        client,
        revision: 0,
    };
    orchestrator.run().await
}
