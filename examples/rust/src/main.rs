//! A small orchestrator: feeds a cluster, asks where pods may and should run,
//! places them with reservations, starts them and confirms.

use std::time::Duration;

use anyhow::{Context, Result};
use evenkeel::change::Object;
use evenkeel::spread_service_client::SpreadServiceClient;
use evenkeel::stream_snapshot_request::Step;
use tonic::transport::{Channel, Endpoint};

/// The generated client.
#[allow(clippy::all)]
mod evenkeel {
    tonic::include_proto!("evenkeel.v1");
}

const SNAPSHOT: &str = "rust";
const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";

fn node(name: &str, zone: &str) -> evenkeel::Node {
    let labels = [(ZONE, zone), (HOSTNAME, name)];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    evenkeel::Node {
        metadata: Some(evenkeel::ObjectMeta {
            name: name.into(),
            labels: labels.into(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn pod(name: &str, node_name: &str) -> evenkeel::Pod {
    let labels = [("app".to_owned(), "web".to_owned())];
    let constraint = |key: &str, when: &str| evenkeel::TopologySpreadConstraint {
        max_skew: 1,
        topology_key: key.into(),
        when_unsatisfiable: when.into(),
        label_selector: Some(evenkeel::LabelSelector {
            match_labels: labels.clone().into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let phase = match node_name {
        "" => "Pending",
        _ => "Running",
    };
    evenkeel::Pod {
        metadata: Some(evenkeel::ObjectMeta {
            name: name.into(),
            namespace: "shop".into(),
            labels: labels.clone().into(),
            ..Default::default()
        }),
        spec: Some(evenkeel::PodSpec {
            node_name: node_name.into(),
            topology_spread_constraints: vec![
                constraint(ZONE, "DoNotSchedule"),
                constraint(HOSTNAME, "ScheduleAnyway"),
            ],
            ..Default::default()
        }),
        status: Some(evenkeel::PodStatus {
            phase: phase.into(),
        }),
    }
}

fn change(object: Object) -> evenkeel::Change {
    evenkeel::Change {
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
            Step::BeginReplace(evenkeel::BeginReplace {
                snapshot: snapshot.clone(),
            }),
            Step::Update(evenkeel::UpdateSnapshotRequest {
                snapshot: snapshot.clone(),
                changes: nodes.map(|node| change(Object::Node(node))).collect(),
                ..Default::default()
            }),
            Step::CommitReplace(evenkeel::CommitReplace {
                snapshot,
                ..Default::default()
            }),
        ];
        let steps = steps.map(|step| evenkeel::StreamSnapshotRequest { step: Some(step) });
        let answers = self.client.stream_snapshot(tokio_stream::iter(steps)).await;
        let mut answers = answers?.into_inner();
        while let Some(answer) = answers.message().await? {
            self.revision = answer.update.context("an answer has an update")?.revision;
        }
        Ok(())
    }

    async fn update(&mut self, change: evenkeel::Change) -> Result<()> {
        let update = evenkeel::UpdateSnapshotRequest {
            snapshot: SNAPSHOT.into(),
            changes: vec![change],
            ..Default::default()
        };
        let answer = self.client.update_snapshot(update).await?;
        self.revision = answer.into_inner().revision;
        Ok(())
    }

    /// What is asked about the next pod.
    fn question(&self) -> evenkeel::FilterRequest {
        evenkeel::FilterRequest {
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
        let request = evenkeel::ScoreRequest {
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
    async fn place(&mut self, replicas: i32) -> Result<Vec<evenkeel::Placement>> {
        let request = evenkeel::PlaceRequest {
            snapshot: SNAPSHOT.into(),
            pod: Some(pod("", "")),
            replicas,
            min_revision: self.revision,
            reserve: Some(evenkeel::Reservation {
                owner: "example".into(),
                ttl: Some(prost_types::Duration {
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
    async fn start(&mut self, name: &str, placement: &evenkeel::Placement) -> Result<()> {
        let confirmation = evenkeel::Confirmation {
            id: placement.reservation_id.clone(),
            pod: Some(evenkeel::ReservedPod {
                name: name.into(),
                ..Default::default()
            }),
        };
        let request = evenkeel::ConfirmReservationsRequest {
            snapshot: SNAPSHOT.into(),
            confirmations: vec![confirmation],
        };
        self.client.confirm_reservations(request).await?;
        self.update(change(Object::Pod(pod(name, &placement.node))))
            .await
    }

    /// Prints what is left of the reservations, and pods per zone.
    async fn count(&mut self) -> Result<()> {
        let request = evenkeel::ListReservationsRequest {
            snapshot: SNAPSHOT.into(),
            ..Default::default()
        };
        let held = self.client.list_reservations(request).await?.into_inner();
        println!("reserved: {}", held.reservations.len());
        let mut question = self.question();
        question.set_view(evenkeel::View::Domains);
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
        let gone = evenkeel::ObjectReference {
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
