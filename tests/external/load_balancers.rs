//! Two servers behind a load balancer, with the configurations of `deploy/`. Draining a server
//! loses no call, killing a server loses only the calls that it was answering, and a server that
//! comes back empty gets no calls.
//!
//! `deploy/load-balancers/check` runs the tests of the balancers that are there, or can be installed.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use evenkeel::proto::v1::Pod;
use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use support::build::{filter_of, plain_node, replace_of};
use support::model::Stored;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use support::ports::free_ports;
use support::process::{Server, eventually};

/// Connections of the load, and calls under way on each.
const CONNECTIONS: usize = 4;
const CALLS_EACH: usize = 4;

/// Calls that must be answered before a test goes on.
const MANY: usize = 500;

/// A balancer and its configuration in `deploy/load-balancers`.
struct Kind {
    file: &'static str,
    /// The command that starts the balancer with a configuration in a directory.
    command: fn(&Path) -> Command,
    /// The line with the address to listen on; `{}` is the address or the port.
    listens: (&'static str, &'static str),
    /// Writes the line of a server: host, port and admin port.
    server: fn(&str, &str, &str) -> String,
}

const HAPROXY: Kind = Kind {
    file: "haproxy/haproxy.cfg",
    command: |directory| {
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(directory.join("config"));
        command
    },
    listens: ("bind :50050", "bind 127.0.0.1:{}"),
    server: |host, port, admin| format!("{host}:{port} check port {admin}"),
};

const NGINX: Kind = Kind {
    file: "nginx/nginx.conf",
    command: |directory| {
        let mut command = Command::new("nginx");
        let pid = directory.join("pid");
        command
            .arg("-c")
            .arg(directory.join("config"))
            .args(["-e", "stderr", "-g"])
            .arg(format!("daemon off; pid {};", pid.display()));
        command
    },
    listens: ("listen 50050", "listen 127.0.0.1:{}"),
    server: |host, port, _| format!("{host}:{port} resolve"),
};

const ENVOY: Kind = Kind {
    file: "envoy/envoy.yaml",
    command: |directory| {
        let config = directory.join("config.yaml");
        fs::rename(directory.join("config"), &config).expect("a file can be renamed");
        let mut command = Command::new("envoy");
        command
            .arg("-c")
            .arg(config)
            .args(["--disable-hot-restart", "--log-level", "warn"]);
        command
    },
    listens: (
        "address: 0.0.0.0, port_value: 50050",
        "address: 127.0.0.1, port_value: {}",
    ),
    server: |host, port, _| format!("address: {host}, port_value: {port}"),
};

/// A running balancer, asked to stop when dropped.
struct Balancer {
    child: Child,
    channel: Channel,
    endpoint: Endpoint,
    _directory: TempDir,
}

impl Balancer {
    /// Starts a balancer with the configuration that users get, except for the addresses of these
    /// servers, and waits until calls reach each of them.
    async fn start(kind: &Kind, servers: &[Fed]) -> Self {
        let port = free_ports(1).to_string();

        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/load-balancers");
        let mut config = fs::read_to_string(source.join(kind.file)).expect("the file is there");
        let mut put = |from: &str, to: &str| {
            assert_eq!(config.matches(from).count(), 1, "{from} in {}", kind.file);
            config = config.replace(from, to);
        };
        put(kind.listens.0, &kind.listens.1.replace("{}", &port));
        for (index, server) in servers.iter().enumerate() {
            let host = format!("evenkeel-{index}.evenkeel");
            let (ip, port) = split(server.process.address());
            let (_, admin) = split(&server.admin);
            put(
                &(kind.server)(&host, "50051", "9090"),
                &(kind.server)(ip, port, admin),
            );
        }
        let directory = tempfile::tempdir().expect("a directory for the configuration");
        fs::write(directory.path().join("config"), config).expect("it can be written");

        let child = (kind.command)(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("needs {} of the PATH: {error}", kind.file));
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}"));
        let endpoint = endpoint.expect("the address is a URL");
        let mut balancer = Self {
            child,
            channel: endpoint.connect_lazy(),
            endpoint,
            _directory: directory,
        };
        for server in servers {
            balancer.reaches(&server.epoch).await;
        }
        balancer
    }

    /// Waits until a call is answered by the server with this epoch.
    async fn reaches(&mut self, epoch: &str) {
        let (channel, child) = (&self.channel, &mut self.child);
        let reached = async || {
            let exited = child.try_wait().expect("a child can be waited for");
            assert!(exited.is_none(), "the balancer ended: {exited:?}");
            let by = filter(channel.clone()).await.ok()?;
            (by == epoch).then_some(())
        };
        eventually("the server gets calls", reached).await;
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        // The signal is not SIGKILL, because nginx would leave its worker processes behind.
        let stopped = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        if !stopped.is_ok_and(|status| status.success()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Splits an address from its port.
fn split(address: &str) -> (&str, &str) {
    address.rsplit_once(':').expect("it has a port")
}

/// A server that was fed; its epoch names it in answers.
struct Fed {
    process: Server,
    /// Address of its admin port.
    admin: String,
    epoch: String,
}

impl Fed {
    async fn start() -> Self {
        let mut process = Server::start(&["--admin-listen", "127.0.0.1:0"]);
        let admin = process.logged("admin listening", "address");
        let epoch = feed(&process).await;
        Self {
            process,
            admin,
            epoch,
        }
    }
}

/// Replaces the snapshot by one node. Each server is fed by itself, not through a balancer, because
/// each keeps its own state.
async fn feed(server: &Server) -> String {
    let state = vec![plain_node("node", &[]).change()];
    server.send(replace_of("", state)).await.epoch
}

/// The epoch of the server that answered.
async fn filter(channel: Channel) -> Result<String, Status> {
    let request = filter_of(Pod::default());
    let answer = SpreadServiceClient::new(channel).filter(request).await?;
    Ok(answer.into_inner().epoch)
}

/// A call that has ended.
struct Call {
    started: Instant,
    /// The epoch of the server that answered.
    answer: Result<String, Status>,
}

/// Calls through a balancer, one after the other in each of many tasks.
struct Load {
    calls: Arc<Mutex<Vec<Call>>>,
    stop: CancellationToken,
    lines: JoinSet<()>,
}

impl Load {
    fn start(balancer: &Balancer) -> Self {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let stop = CancellationToken::new();
        let mut lines = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let channel = balancer.endpoint.connect_lazy();
            for _ in 0..CALLS_EACH {
                let (calls, stop, channel) = (calls.clone(), stop.clone(), channel.clone());
                lines.spawn(async move {
                    while !stop.is_cancelled() {
                        let started = Instant::now();
                        let answer = filter(channel.clone()).await;
                        let call = Call { started, answer };
                        calls.lock().expect("no holder panics").push(call);
                    }
                });
            }
        }
        Self { calls, stop, lines }
    }

    /// Waits until [`MANY`] more calls are answered by this server.
    async fn answered_by(&self, epoch: &str) {
        let count = || {
            let calls = self.calls.lock().expect("no holder panics");
            let by_it = |call: &&Call| call.answer.as_ref().is_ok_and(|by| by == epoch);
            calls.iter().filter(by_it).count()
        };
        let enough = count() + MANY;
        let answered = async || (count() >= enough).then_some(());
        eventually("calls are answered", answered).await;
    }

    /// Ends the load, and returns all calls that were made.
    async fn stop(mut self) -> Vec<Call> {
        self.stop.cancel();
        while let Some(ended) = self.lines.join_next().await {
            ended.expect("a line does not panic");
        }
        std::mem::take(&mut *self.calls.lock().expect("no holder panics"))
    }
}

/// Two servers, a balancer before them, and a load that both answer.
async fn loaded(kind: &Kind) -> ([Fed; 2], Balancer, Load) {
    let servers = [Fed::start().await, Fed::start().await];
    let balancer = Balancer::start(kind, &servers).await;
    let load = Load::start(&balancer);
    for server in &servers {
        load.answered_by(&server.epoch).await;
    }
    (servers, balancer, load)
}

fn failures(calls: &[Call]) -> Vec<&Call> {
    calls.iter().filter(|call| call.answer.is_err()).collect()
}

/// Returns the errors of failed calls, for a message.
fn causes(failures: &[&Call]) -> String {
    let causes = failures
        .iter()
        .filter_map(|call| call.answer.as_ref().err());
    let mut causes: Vec<String> = causes
        .map(|status| format!("{:?}: {}", status.code(), status.message()))
        .collect();
    causes.sort();
    causes.dedup();
    causes.join("; ")
}

/// SIGTERM under load: not one call fails, and the other server takes over.
async fn drains_without_a_failed_call(kind: &Kind) {
    let ([mut leaving, staying], _balancer, load) = loaded(kind).await;
    leaving.process.signal("TERM");
    assert_eq!(leaving.process.exited().await.code(), Some(0));
    leaving.process.logged("drained", "level");
    load.answered_by(&staying.epoch).await;

    let calls = load.stop().await;
    let failed = failures(&calls);
    assert!(failed.is_empty(), "{}: {}", failed.len(), causes(&failed));
}

/// SIGKILL under load: at most the calls under way fail. With health checks
/// of its own, a balancer sends a server that has come back nothing before it
/// was fed.
async fn loses_only_calls_under_way(kind: &Kind, checks_health: bool) {
    let ([mut killed, staying], mut balancer, load) = loaded(kind).await;
    killed.process.signal("KILL");
    killed.process.exited().await;
    let gone = Instant::now();
    load.answered_by(&staying.epoch).await;

    if checks_health {
        let mut command = support::process::command(&["serve", "--expect-snapshot", "default"]);
        command.args(["--admin-listen", &killed.admin]);
        let address = killed.process.address().to_owned();
        let back = Server::spawn_on(&address, &mut command);
        // Long enough for the balancer to see that something listens again.
        for _ in 0..10 {
            load.answered_by(&staying.epoch).await;
        }
        let epoch = feed(&back).await;
        balancer.reaches(&epoch).await;
        load.answered_by(&epoch).await;
        killed.process = back;
    }

    let calls = load.stop().await;
    let failed = failures(&calls);
    let late = |call: &&Call| call.started >= gone;
    let late: Vec<&Call> = failed.iter().copied().filter(late).collect();
    assert!(late.is_empty(), "{}: {}", late.len(), causes(&late));
    let under_way = CONNECTIONS * CALLS_EACH;
    assert!(failed.len() <= under_way, "{}", causes(&failed));
}

#[tokio::test]
#[ignore = "needs haproxy: apt-get install haproxy"]
async fn haproxy_drains_without_a_failed_call() {
    drains_without_a_failed_call(&HAPROXY).await;
}

#[tokio::test]
#[ignore = "needs haproxy: apt-get install haproxy"]
async fn haproxy_loses_only_calls_under_way() {
    loses_only_calls_under_way(&HAPROXY, true).await;
}

#[tokio::test]
#[ignore = "needs nginx: apt-get install nginx"]
async fn nginx_drains_without_a_failed_call() {
    drains_without_a_failed_call(&NGINX).await;
}

#[tokio::test]
#[ignore = "needs nginx: apt-get install nginx"]
async fn nginx_starts_while_a_name_has_no_address() {
    let server = Fed::start().await;
    Balancer::start(&NGINX, &[server]).await;
}

#[tokio::test]
#[ignore = "needs nginx: apt-get install nginx"]
async fn nginx_loses_only_calls_under_way() {
    loses_only_calls_under_way(&NGINX, false).await;
}

#[tokio::test]
#[ignore = "needs envoy: deploy/tools.sh install_envoy"]
async fn envoy_drains_without_a_failed_call() {
    drains_without_a_failed_call(&ENVOY).await;
}

#[tokio::test]
#[ignore = "needs envoy: deploy/tools.sh install_envoy"]
async fn envoy_loses_only_calls_under_way() {
    loses_only_calls_under_way(&ENVOY, true).await;
}
