//! A small orchestrator: feeds a cluster, asks where pods may and should run,
//! places them with reservations, starts them and confirms.
//!
//! Each server has its own state, revisions and reservations. So all of them
//! are fed, any of them is asked, and one of them reserves.

use std::error::Error as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use evenkeel_core::proto::Duration as Span;
use evenkeel_core::proto::v1;
use evenkeel_core::proto::v1::change::Object;
use evenkeel_core::proto::v1::decide_response::Answer;
use evenkeel_core::proto::v1::question::Ask;
use evenkeel_core::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel_core::proto::v1::stream_snapshot_request::Step;
use tonic::transport::{Channel, Endpoint};

const SNAPSHOT: &str = "rust";
const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// An id that no other request has.
fn request_id() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default().as_nanos();
    format!("{}-{now}", std::process::id())
}

/// Returns whether another attempt may get an answer. A status with a source is of the
/// connection, for instance of one that a stopping server closes: one that a server
/// sent has none.
fn is_unanswered(status: &tonic::Status) -> bool {
    status.source().is_some() || status.code() == tonic::Code::Unavailable
}

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

type Client = SpreadServiceClient<Channel>;

struct Orchestrator {
    /// They are fed, each at its own address. The first one reserves.
    servers: Vec<Client>,
    /// Goes to any server.
    questions: Client,
    /// Of the first server. The others count their own.
    revision: i64,
}

/// Puts these changes in the place of a server's snapshot.
async fn replace(server: &mut Client, changes: Vec<v1::Change>) -> Result<i64> {
    let snapshot = SNAPSHOT.to_owned();
    let steps = [
        Step::BeginReplace(v1::BeginReplace {
            snapshot: snapshot.clone(),
        }),
        Step::Update(v1::UpdateSnapshotRequest {
            snapshot: snapshot.clone(),
            changes,
            ..Default::default()
        }),
        Step::CommitReplace(v1::CommitReplace {
            snapshot,
            ..Default::default()
        }),
    ];
    let steps = steps.map(|step| v1::StreamSnapshotRequest { step: Some(step) });
    let answers = server.stream_snapshot(tokio_stream::iter(steps)).await;
    let mut answers = answers?.into_inner();
    let mut revision = 0;
    while let Some(answer) = answers.message().await? {
        revision = answer.update.context("an answer has an update")?.revision;
    }
    Ok(revision)
}

impl Orchestrator {
    /// Replaces the snapshot of each server by the whole cluster.
    async fn feed(&mut self) -> Result<()> {
        let zones = ["a", "b", "c"];
        let nodes = zones.iter().flat_map(|zone| {
            [1, 2].map(|number| node(&format!("node-{zone}{number}"), &format!("zone-{zone}")))
        });
        let changes: Vec<_> = nodes.map(|node| change(Object::Node(node))).collect();
        let mut revisions = Vec::new();
        for server in &mut self.servers {
            revisions.push(replace(server, changes.clone()).await?);
        }
        self.revision = revisions[0];
        Ok(())
    }

    /// Returns once every server has applied a change. From then on all of them
    /// answer alike, so questions need no `min_revision`.
    async fn update(&mut self, change: v1::Change) -> Result<()> {
        let update = v1::UpdateSnapshotRequest {
            snapshot: SNAPSHOT.into(),
            changes: vec![change],
            ..Default::default()
        };
        let mut revisions = Vec::new();
        for server in &mut self.servers {
            let answer = server.update_snapshot(update.clone()).await?;
            revisions.push(answer.into_inner().revision);
        }
        self.revision = revisions[0];
        Ok(())
    }

    /// Returns what is asked about the next pod.
    fn question() -> v1::FilterRequest {
        v1::FilterRequest {
            snapshot: SNAPSHOT.into(),
            pod: Some(pod("", "")),
            ..Default::default()
        }
    }

    /// Asks over one stream, which costs less than calls. The answers come in the
    /// order of completion, and are returned in that of the questions. A program that
    /// asks often keeps its stream open, and asks anew what was not answered when a
    /// stream ends.
    async fn ask<const N: usize>(&mut self, asks: [Ask; N]) -> Result<[Answer; N]> {
        let steps = asks.into_iter().enumerate().map(|(id, ask)| {
            let question = v1::Question {
                id: id as u64,
                ask: Some(ask),
                ..Default::default()
            };
            v1::DecideRequest {
                step: Some(v1::decide_request::Step::Question(question)),
            }
        });
        let steps: Vec<_> = steps.collect();
        let stream = self.questions.decide(tokio_stream::iter(steps)).await;
        let mut stream = stream?.into_inner();
        let mut answers = std::array::from_fn(|_| None);
        while let Some(answer) = stream.message().await? {
            if let Some(Answer::Error(refused)) = &answer.answer {
                anyhow::bail!("{}", refused.message);
            }
            answers[usize::try_from(answer.id)?] = answer.answer;
        }
        Ok(answers.map(|answer| answer.expect("every question is answered")))
    }

    /// Prints where a pod may and should run.
    async fn look(&mut self) -> Result<()> {
        let score = v1::ScoreRequest {
            snapshot: SNAPSHOT.into(),
            pod: Some(pod("", "")),
            top: 1,
            ..Default::default()
        };
        let asks = [Ask::Filter(Self::question()), Ask::Score(score)];
        let [Answer::Filter(filtered), Answer::Score(scored)] = self.ask(asks).await? else {
            anyhow::bail!("an answer is of the kind of its question");
        };
        println!(
            "feasible: {} of {}",
            filtered.feasible_count, filtered.node_count
        );
        println!("best: {}", scored.scores[0].node);
        Ok(())
    }

    /// Picks nodes and holds them. Under its id the call can be sent again when
    /// its answer was lost: nothing is held twice.
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
            request_id: request_id(),
            ..Default::default()
        };
        let mut placed = self.servers[0].place(request.clone()).await;
        for wait in [100, 200, 400] {
            match &placed {
                Err(status) if is_unanswered(status) => {}
                _ => break,
            }
            tokio::time::sleep(Duration::from_millis(wait)).await;
            placed = self.servers[0].place(request.clone()).await;
        }
        let placements = placed?.into_inner().placements;
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
        self.servers[0].confirm_reservations(request).await?;
        self.update(change(Object::Pod(pod(name, &placement.node))))
            .await
    }

    /// Prints what is left of the reservations, and pods per zone.
    async fn count(&mut self) -> Result<()> {
        let request = v1::ListReservationsRequest {
            snapshot: SNAPSHOT.into(),
            ..Default::default()
        };
        let held = self.servers[0]
            .list_reservations(request)
            .await?
            .into_inner();
        println!("reserved: {}", held.reservations.len());
        let mut question = Self::question();
        question.set_view(v1::View::Domains);
        let answer = self.questions.filter(question).await?.into_inner();
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
    let mut servers: Vec<String> = std::env::args().skip(1).collect();
    if servers.is_empty() {
        servers.push("localhost:50051".into());
    }
    let endpoint = |server| {
        let endpoint = Endpoint::from_shared(format!("http://{server}"))?;
        anyhow::Ok(endpoint.timeout(Duration::from_secs(10)))
    };
    let servers: Vec<Endpoint> = servers.iter().map(endpoint).collect::<Result<_>>()?;
    let connected = servers.iter().map(Endpoint::connect_lazy);
    let connected = connected.map(SpreadServiceClient::new).collect();
    let mut orchestrator = Orchestrator {
        servers: connected,
        questions: SpreadServiceClient::new(Channel::balance_list(servers.into_iter())),
        revision: 0,
    };
    orchestrator.run().await
}
