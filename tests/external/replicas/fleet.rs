//! Several `evenkeel serve` on several nats-servers, and clients that use any of
//! them.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use evenkeel::log::{Log, Place};
use evenkeel::proto::v1::change::Object;
use evenkeel::proto::v1::{
    Change, GetSnapshotRequest, HeldPlacement, ListReservationsRequest, Pod, Snapshot,
    UpdateSnapshotRequest, UpdateSnapshotResponse, VerifySnapshotRequest,
};
use evenkeel::replica::{Replica, Waiting};
use evenkeel::snapshot::{Limits, Registry, Unobserved, system_clock};
use support::caller::{changes_of, export};
use support::refusal::reason;
use tokio::runtime::Handle;
use tonic::transport::Endpoint;
use tonic::{Code, Status};

use crate::replicas::brokers::Brokers;
use crate::replicas::machines::Machines;
use crate::replicas::ports::free_ports;
use crate::replicas::process::{self, DEADLINE};

pub(crate) use support::build::batch_of as batch;
pub(crate) use support::caller::Client;

/// The time after which a call is tried at another server.
const CALL: Duration = Duration::from_secs(10);

/// Servers of a fleet, and the nats-servers that keep its log.
pub(crate) struct Fleet {
    pub(crate) brokers: Brokers,
    servers: Vec<Option<process::Server>>,
    addresses: Vec<String>,
    clients: Vec<Client>,
    more: Vec<String>,
}

impl Fleet {
    /// Starts servers on one nats-server or three. In flags `{number}` stands for the number of the
    /// server.
    pub(crate) fn start(brokers: usize, servers: usize, more: &[&str]) -> Self {
        Self::on(Brokers::start(brokers), servers, more)
    }

    /// As [`Self::start`], on these nats-servers.
    pub(crate) fn on(brokers: Brokers, servers: usize, more: &[&str]) -> Self {
        let address = |number| match brokers.machines() {
            Some(_) => format!("{}:50051", Machines::host(brokers.count() + number)),
            None => format!("127.0.0.1:{}", free_ports(1)),
        };
        let addresses: Vec<String> = (0..servers).map(address).collect();
        let client = |address: &String| {
            let endpoint = Endpoint::from_shared(format!("http://{address}"));
            let endpoint = endpoint
                .expect("a URL")
                .connect_timeout(Duration::from_secs(2));
            Client::new(endpoint.timeout(CALL).connect_lazy())
        };
        let clients = addresses.iter().map(client).collect();
        let mut fleet = Self {
            brokers,
            servers: (0..servers).map(|_| None).collect(),
            addresses,
            clients,
            more: more.iter().map(|&flag| flag.to_owned()).collect(),
        };
        (0..servers).for_each(|number| fleet.run(number));
        fleet
    }

    /// Starts a server that does not run, and waits until it listens.
    pub(crate) fn run(&mut self, number: usize) {
        self.run_with(number, process::command(&["serve"]));
    }

    /// As [`Self::run`], with another command, such as that of another version.
    pub(crate) fn run_with(&mut self, number: usize, command: Command) {
        let mut command = self.serve(number, command);
        let server = process::Server::spawn_on(&self.addresses[number], &mut command);
        self.servers[number] = Some(server);
    }

    /// As [`Self::run_with`], without waiting until the server listens.
    pub(crate) fn begin_with(&mut self, number: usize, command: Command) {
        let mut command = self.serve(number, command);
        let server = process::Server::begin_on(&self.addresses[number], &mut command);
        self.servers[number] = Some(server);
    }

    /// The command that starts a server.
    fn serve(&self, number: usize, mut command: Command) -> Command {
        command
            .args(self.brokers.flags_of(number))
            .args(["--fleet", "test"])
            .args(["--drain-pause", "0s", "--log-level", "info,evenkeel=debug"])
            .args(
                self.more
                    .iter()
                    .map(|it| it.replace("{number}", &number.to_string())),
            );
        let machine = self.brokers.count() + number;
        self.brokers.on_machine(machine, command)
    }

    /// The flags that say where the log is and how it is kept.
    pub(crate) fn log_flags(&self) -> Vec<String> {
        let mut flags = self.brokers.flags();
        flags.extend(["--fleet".to_owned(), "test".to_owned()]);
        flags
    }

    /// Sends a signal to a server: `KILL` ends it.
    pub(crate) fn signal(&mut self, number: usize, signal: &str) {
        if signal == "KILL" {
            self.servers[number] = None;
        } else if let Some(server) = &self.servers[number] {
            server.signal(signal);
        }
    }

    /// Sends a signal to a server that ends it, and waits for its end.
    pub(crate) async fn stop(&mut self, number: usize, signal: &str) {
        self.signal(number, signal);
        if let Some(mut server) = self.servers[number].take() {
            server.exited().await;
        }
    }

    /// Ends a server by SIGTERM, and returns what it has logged.
    pub(crate) async fn stopped(&mut self, number: usize) -> Vec<String> {
        let mut server = self.servers[number].take().expect("it runs");
        server.signal("TERM");
        server.exited().await;
        server.lines()
    }

    /// The number of threads of a server that runs.
    #[cfg(target_os = "linux")]
    pub(crate) fn threads(&self, number: usize) -> usize {
        let server = self.servers[number].as_ref().expect("it runs");
        let threads = std::fs::read_dir(format!("/proc/{}/task", server.id()));
        threads.expect("it runs").count()
    }

    /// The address of the admin port of a server that runs and has one.
    pub(crate) fn admin(&mut self, number: usize) -> String {
        let server = self.servers[number].as_mut();
        server
            .expect("it runs")
            .logged("admin listening", "address")
    }

    /// A client of one server.
    pub(crate) fn client(&self, number: usize) -> Client {
        self.clients[number].clone()
    }

    /// The clients of all servers.
    pub(crate) fn clients(&self) -> Vec<Client> {
        self.clients.clone()
    }

    /// Runs `evenkeel log` on the log of the fleet.
    pub(crate) fn log(&self, args: &[&str]) -> process::Outcome {
        self.start_log(args).join().expect("it ends in time")
    }

    /// Starts `evenkeel admin log` without waiting for its end.
    pub(crate) fn start_log(&self, args: &[&str]) -> JoinHandle<process::Outcome> {
        let mut command = process::command(&["admin", "log"]);
        command.args(args).args(self.log_flags());
        thread::spawn(|| process::run_within(command, 5 * DEADLINE))
    }

    /// Writes checkpoints of these snapshots, or of all if none is given, as a server of the fleet
    /// does after a quarter of an hour.
    pub(crate) async fn checkpoint(&self, snapshots: &[&str]) {
        let log: Arc<dyn Log> = Arc::new(self.brokers.connect("test").await);
        let mut names: Vec<String> = snapshots.iter().map(|&name| name.to_owned()).collect();
        if names.is_empty() {
            names = log.names().await.expect("it can be reached");
        }
        let waiting = Waiting::on(Handle::current());
        let write = move || {
            let replica = Arc::new(Replica::new(log, "test".into(), waiting, system_clock()));
            let registry = Registry::new(Limits::none(), Arc::new(Unobserved));
            let registry = Arc::new(registry.with_journal(Arc::clone(&replica) as _));
            replica.serve(&registry);
            for name in names {
                replica.follow(&name, true).expect("it can be read");
                replica.checkpoint(&name).expect("it is written");
            }
        };
        tokio::task::spawn_blocking(write).await.expect("it ends");
    }

    /// Runs `evenkeel serve` with arguments that make it refuse to start.
    pub(crate) fn serve_with(&self, args: &[&str]) -> process::Outcome {
        let mut command = process::command(&["serve", "--listen", "127.0.0.1:0"]);
        let flags = self.log_flags();
        let flags = flags.chunks(2).filter(|flag| !args.contains(&&*flag[0]));
        command.args(flags.flatten()).args(args);
        process::run(command)
    }

    /// Checks that the logs are whole.
    pub(crate) async fn verify_log(&self) {
        let log = self.brokers.connect("test").await;
        for name in log.names().await.expect("it can be reached") {
            let bounds = log.bounds(&name).await.expect("it is there");
            let mut place = None;
            for sequence in bounds.first..=bounds.last {
                let message = log.read(&name, sequence).await.expect("it is there");
                let before = place.or_else(|| Place::before(&message));
                let before = before.unwrap_or(Place::START);
                match before.judge(&message) {
                    Ok(Some(body)) => {
                        let log_id = body.log_id();
                        place = Some(Place {
                            log_id,
                            ..before.after(&message)
                        });
                    }
                    Ok(None) => place = Some(before.after(&message)),
                    fault => panic!("message {sequence} of {name}: {fault:?}"),
                }
            }
        }
    }

    /// Waits until all servers hold the same content of a snapshot, and returns it.
    pub(crate) async fn agree(&self, snapshot: &str) -> Held {
        let start = Instant::now();
        loop {
            let mut all = Vec::new();
            for client in &self.clients {
                all.push(Held::of(client.clone(), snapshot).await);
            }
            if let Ok(first) = &all[0]
                && all.iter().all(|held| held.as_ref().ok() == Some(first))
            {
                return first.clone();
            }
            assert!(
                start.elapsed() < DEADLINE,
                "the servers differ: {:#?}",
                all.iter().map(summary).collect::<Vec<_>>()
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn summary(held: &Result<Held, Status>) -> String {
    match held {
        Ok(held) => format!(
            "{} {} with {} objects, {} reservations",
            held.epoch,
            held.revision,
            held.objects.len(),
            held.reservations.len()
        ),
        Err(status) => status.to_string(),
    }
}

/// If the test failed, prints the last lines that the servers have logged.
impl Drop for Fleet {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for (number, server) in self.servers.iter().enumerate() {
            let lines = server
                .as_ref()
                .map(process::Server::lines)
                .unwrap_or_default();
            let last = lines.len().saturating_sub(60);
            println!("server {number}:\n{}", lines[last..].join("\n"));
        }
    }
}

/// The content of a snapshot on one server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Held {
    pub(crate) epoch: String,
    pub(crate) revision: i64,
    /// The objects as text, sorted.
    pub(crate) objects: Vec<String>,
    pub(crate) reservations: Vec<HeldPlacement>,
}

impl Held {
    /// The pods, with their nodes.
    pub(crate) fn pods(&self) -> BTreeMap<String, String> {
        let parse = |text: &String| serde_json::from_str(text).expect("JSON");
        let pods = self.objects.iter().map(parse);
        let pods = pods.filter_map(|change: Change| match change.object {
            Some(Object::Pod(pod)) => Some(pod),
            _ => None,
        });
        let named = |pod: Pod| {
            let name = pod.metadata.unwrap_or_default().name;
            (name, pod.spec.unwrap_or_default().node_name)
        };
        pods.map(named).collect()
    }

    async fn of(mut client: Client, snapshot: &str) -> Result<Self, Status> {
        let before = described(&mut client, snapshot).await?;
        let changes = changes_of(export(client.clone(), snapshot).await?);
        let texts = changes.map(|change| serde_json::to_string(&change).expect("JSON"));
        let mut objects: Vec<String> = texts.collect();
        objects.sort();
        let mut reservations = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = ListReservationsRequest {
                snapshot: snapshot.to_owned(),
                page_size: 1000,
                page_token,
                ..ListReservationsRequest::default()
            };
            let page = client.list_reservations(request).await?.into_inner();
            reservations.extend(page.reservations);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        // Each server measures the end of a reservation by its own clock.
        reservations
            .iter_mut()
            .for_each(|held| held.reserved_until = None);
        let verify = VerifySnapshotRequest {
            snapshot: snapshot.to_owned(),
        };
        let verified = client.verify_snapshot(verify).await?.into_inner();
        assert_eq!(verified.mismatches, [], "counts are wrong");
        let after = described(&mut client, snapshot).await?;
        if before.revision != after.revision {
            return Err(Status::aborted("it has changed meanwhile"));
        }
        Ok(Self {
            epoch: after.epoch,
            revision: after.revision,
            objects,
            reservations,
        })
    }
}

/// Returns what a server says of a snapshot.
pub(crate) async fn described(client: &mut Client, snapshot: &str) -> Result<Snapshot, Status> {
    let request = GetSnapshotRequest {
        snapshot: snapshot.to_owned(),
    };
    let answer = client.get_snapshot(request).await?;
    Ok(answer.into_inner().snapshot.expect("it is there"))
}

/// Returns true if the same may be asked again, of any server. A status with a source comes from
/// the connection, because a status that a server sent has none.
pub(crate) fn passes(status: &Status) -> bool {
    let passing = [
        Code::Unavailable,
        Code::Aborted,
        Code::DeadlineExceeded,
        Code::Cancelled,
    ];
    let is_full = || reason(status).as_deref() == Some("STORAGE_FULL");
    status.source().is_some() || passing.contains(&status.code()) || is_full()
}

/// Asks one server after the other until one answers. Returns the answer and the number of tries.
pub(crate) async fn insist<T>(
    clients: &[Client],
    first: usize,
    what: &str,
    mut call: impl AsyncFnMut(Client) -> Result<T, Status>,
) -> (T, usize) {
    let start = Instant::now();
    let mut tries = 0;
    loop {
        let client = clients[(first + tries) % clients.len()].clone();
        tries += 1;
        match call(client).await {
            Ok(answer) => return (answer, tries),
            Err(status) if passes(&status) => {
                println!("{what}: {status}");
                assert!(start.elapsed() < 2 * DEADLINE, "{what}: {status}");
            }
            Err(status) => panic!("{what}: {status}"),
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

/// Applies a batch, at whichever server takes it.
pub(crate) async fn update(
    clients: &[Client],
    first: usize,
    request: &UpdateSnapshotRequest,
) -> UpdateSnapshotResponse {
    let call = async |mut client: Client| {
        let answer = client.update_snapshot(request.clone()).await?;
        Ok(answer.into_inner())
    };
    insist(clients, first, "update", call).await.0
}
